"""MeshPainter: the axes of a mesh, in an order that the reader gives, on the GPUs of nodes."""

from collections.abc import Sequence
from itertools import permutations
from math import prod

from dtlib.explore.controls import Task
from dtlib.explore.kit.controls import choice, slider
from dtlib.explore.kit.widget import Widget
from dtlib.formulas.require import require
from dtlib.machines.axis_order import Axis
from dtlib.mesh import Mesh

MOST_RANKS, NODES = 32, (4, 8)


class MeshPainter(Widget):
    """A cluster whose ranks are painted by their group along one axis of the mesh.

    Arguments: `axes`, two or three `Axis` (name, size, and the bytes that each rank passes on to
    the next one of its group in one step; the last one passes on to the first); `order`, their
    names at the start, the outermost first; `axis`, the one that is shown (None: the first of
    `order`); `node`, the GPUs of a node, 4 or 8; `task`, a `Task` over ``away`` (bytes that leave
    nodes in one step), ``least`` (the same in the best order), ``heaviest_away`` (of the axis that
    sends most), ``crossing`` (edges of the axis that is shown which leave a node), ``order``,
    ``axis`` and ``node``, whose solution gives some of these three.
    Raises ValueError for more than 32 ranks, for ranks that nodes of 8 do not hold evenly, for an
    order that does not name each axis once, and for a task that cannot be met.
    """

    def __init__(
        self,
        *,
        title: str,
        axes: Sequence[Axis],
        order: Sequence[str],
        axis: str | None = None,
        node: int = 8,
        task: Task | None = None,
    ):
        self._axes = {one.name: one for one in axes}
        ranks = prod(one.size for one in axes)
        fits = ranks <= MOST_RANKS and ranks % max(NODES) == 0
        require(fits, "MeshPainter", "ranks", ranks, f"a multiple of 8, at most {MOST_RANKS}")
        require(2 <= len(axes) <= 3, "MeshPainter", "axes", len(axes), "two or three of them")
        self._orders = [" ".join(names) for names in permutations(self._axes)]
        super().__init__(
            title=title,
            controls=[
                choice(
                    "order", "Axes, from the outermost", {o: o for o in self._orders},
                    " ".join(order),
                ),
                choice("axis", "Groups along", {name: name for name in self._axes},
                       axis or order[0]),
                slider("node", "GPUs in a node", NODES, node),
            ],
            task=task,
            axes=[
                {"name": one.name, "size": one.size, "traffic": float(one.traffic)}
                for one in axes
            ],
            orders=self._orders,
            start={"at": 0},
        )  # fmt: skip

    def crossings(self, order: str, node: int) -> dict[str, int]:
        """For each axis, how many edges of its groups' rings leave a node."""
        names = order.split()
        mesh = Mesh([self._axes[name].size for name in names], names)
        return {
            name: sum(
                rank // node != following // node
                for group in mesh.groups(name)
                for rank, following in zip(group, group[1:] + group[:1], strict=True)
            )
            for name in names
        }

    def names(self, *, order: str, axis: str, node: int) -> dict[str, float]:
        out = {one: self.crossings(one, node) for one in self._orders}
        away = {
            one: {name: edges * self._axes[name].traffic for name, edges in counts.items()}
            for one, counts in out.items()
        }
        heaviest = max(self._axes.values(), key=lambda one: one.traffic).name
        return {
            "away": sum(away[order].values()),
            "least": min(sum(each.values()) for each in away.values()),
            "heaviest_away": away[order][heaviest],
            "crossing": out[order][axis],
        }
