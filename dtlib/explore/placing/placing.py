"""PlacementBoard: mesh axes as blocks that the reader puts in order, inside walls one can grab."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import grip, slider
from dtlib.explore.kit.setting import identifier
from dtlib.explore.kit.widget import Widget
from dtlib.machines.axis_order import Axis, AxisOrder, Level, axis_orders
from dtlib.machines.traffic import boundary_time

MOST_AXES = 4
TAPERS, SHARING = tuple(range(1, 9)), (1, 2, 4, 8)


class PlacementBoard(Widget):
    """Axes in an order, on GPUs, nodes and pods inside one another; all of it can be moved.

    Arguments: `axes`, two to four `Axis` objects in the order that is shown first, innermost first;
    `link` and `port`, bytes/s of a GPU's own link and of a network port, in one direction; `node`
    and `pod`, GPUs in each; `sharing`, GPUs that share a port; `taper`, how many times less leaves
    a pod than its nodes could send; `task`, a `Task` over ``total`` (seconds of a step), ``faster``
    (orders that are faster), ``node``, ``pod``, ``sharing`` and ``taper``, whose solution gives
    ``order`` (names of axes, innermost first) or values of these. More is moved than on other
    widgets, because who crosses a wall depends on the order and on the walls together.
    Raises ValueError for sizes that are no powers of two, and for a task that cannot be met.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        link: float,
        port: float,
        *,
        title: str,
        node: int = 8,
        pod: int = 64,
        sharing: int = 1,
        taper: int = 1,
        task: Task | None = None,
    ):
        if not 2 <= len(axes) <= MOST_AXES:
            raise ValueError(f"axes: from 2 to {MOST_AXES}; got {len(axes)}")
        for axis in axes:
            if math.frexp(axis.size)[0] != 0.5:
                raise ValueError(f"axis {axis.name}: {axis.size!r} is no power of two")
        self._axes, self._links = tuple(axes), (link, port)
        sizes = [2**k for k in range(1, int(math.log2(math.prod(axis.size for axis in axes))) + 1)]
        places = range(1, len(axes) + 1)
        super().__init__(
            title=title,
            controls=[
                *(grip(_place(axis), f"{axis.name}, place from the inside", places, at)
                  for axis, at in zip(axes, places, strict=True)),
                grip("node", "GPUs in a node", sizes[:-1], node, "GPUs"),
                grip("pod", "GPUs in a pod", sizes[1:], pod, "GPUs"),
                slider("taper", "taper out of a pod", TAPERS, taper, "×"),
                slider("sharing", "GPUs that share a port", SHARING, sharing),
            ],
            task=task and replace(task, solution=self._placed(task.solution)),
            axes=[{"name": axis.name, "place": _place(axis), "size": axis.size,
                   "traffic": float(axis.traffic)} for axis in axes],
            links={"link": float(link), "port": float(port)},
            time=boundary_time.js(),
        )  # fmt: skip

    def levels(self, node: int, pod: int, sharing: int, taper: float) -> tuple[Level, ...]:
        """The levels for a state of the walls and sliders."""
        link, port = self._links
        out_of_node = node / sharing * port
        return (
            Level("GPU", 1, link),
            Level("node", node, out_of_node),
            Level("pod", pod, pod / node * out_of_node / taper),
        )

    def _placed(self, solution: Mapping) -> dict:
        """A solution with the place of every axis instead of their order."""
        places = {name: value for name, value in solution.items() if name != "order"}
        known = {axis.name: axis for axis in self._axes}
        for at, name in enumerate(solution.get("order", ()), 1):
            if name not in known:
                raise ValueError(f"order: no axis {name!r}; there are {', '.join(known)}")
            places[_place(known[name])] = at
        return places

    def names(self, *, node: int, pod: int, sharing: int, taper: float, **places) -> dict:
        levels = self.levels(node, pod, sharing, taper)
        order = sorted(self._axes, key=lambda axis: places[_place(axis)])
        total = AxisOrder(levels, order).time
        times = [place.time for place in axis_orders(levels, order)]
        return {"total": total, "faster": sum(time < total * (1 - 1e-9) for time in times)}


def _place(axis: Axis) -> str:
    """The name of the state that says where an axis stands."""
    return f"place_{identifier(axis.name)}"
