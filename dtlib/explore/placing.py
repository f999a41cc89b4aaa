"""PlacementBoard: mesh axes as blocks that the reader puts in order, inside walls one can grab."""

import html
import math
from collections.abc import Sequence

from dtlib.explore.controls import Task, slider_over
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.widget import Widget, script
from dtlib.formulas.units import format_quantity
from dtlib.machines.axis_order import Axis, AxisOrder, Level, axis_orders
from dtlib.machines.traffic import boundary_time

MOST_AXES = 4
TAPERS, SHARING = tuple(range(1, 9)), (1, 2, 4, 8)
_NAMES = ("total", "faster", "node", "pod", "sharing", "taper")


class PlacementBoard(Widget):
    """Axes in an order, on GPUs, nodes and pods inside one another; all of it can be moved.

    Arguments: `axes`, two to four `Axis` objects in the order that is shown first, innermost first;
    `link` and `port`, bytes/s of a GPU's own link and of a network port, in one direction; `node`
    and `pod`, GPUs in each; `sharing`, GPUs that share a port; `taper`, how many times less leaves
    a pod than its nodes could send; `task`, a `Task` over ``total`` (seconds of a step), ``faster``
    (orders that are faster), ``node``, ``pod``, ``sharing`` and ``taper``, whose solution gives
    ``order`` (names of axes) or values of these.
    Raises ValueError for sizes that are no powers of two, and for a task that cannot be met.
    """

    _esm = script("quantities.js", "page.js", "placing_model.js", "placing.js")
    _css = script("widget.css", "plot.css", "placing.css")

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
        sizes = {"node": node, "pod": pod} | {f"axis {axis.name}": axis.size for axis in axes}
        for name, size in sizes.items():
            if math.frexp(size)[0] != 0.5:
                raise ValueError(f"{name}: {size!r} is no power of two")
        for name, value, allowed in (("taper", taper, TAPERS), ("sharing", sharing, SHARING)):
            if value not in allowed:
                raise ValueError(f"{name} {value!r}; allowed are {', '.join(map(str, allowed))}")
        self._axes, self._links = tuple(axes), (link, port)
        self._start = {"node": node, "pod": pod, "sharing": sharing, "taper": taper}
        spec = {
            "title": title,
            "axes": [
                {"name": a.name, "size": a.size, "traffic": float(a.traffic)} for a in self._axes
            ],
            "links": {"link": float(link), "port": float(port)},
            "js": boundary_time.js(),
            "sliders": [
                slider_over("taper", "taper out of a pod", "×", TAPERS, taper),
                slider_over("sharing", "GPUs that share a port", "", SHARING, sharing),
            ],
            "start": self._start | {"order": list(range(len(axes)))},
            "task": self._task(task),
        }
        super().__init__(spec=spec)

    def levels(self, node: int, pod: int, sharing: int, taper: float) -> tuple[Level, ...]:
        """The levels for a state of the walls and sliders."""
        link, port = self._links
        out_of_node = node / sharing * port
        return (
            Level("GPU", 1, link),
            Level("node", node, out_of_node),
            Level("pod", pod, pod / node * out_of_node / taper),
        )

    def _state(self, order: Sequence[str] | None = None, **changes) -> dict[str, float]:
        """The names of a task for an order of the axes and values of walls and sliders."""
        setting = self._start | changes
        levels = self.levels(**setting)
        named = {axis.name: axis for axis in self._axes}
        axes = [named[name] for name in order or named]
        total = AxisOrder(levels, axes).time
        times = [place.time for place in axis_orders(levels, axes)]
        faster = sum(time < total * (1 - 1e-9) for time in times)
        return setting | {"total": total, "faster": faster}

    def _task(self, task: Task | None) -> dict | None:
        if task is None:
            return None
        return task.checked(self._state) | {"names": list(_NAMES)}

    def _figure(self) -> str:
        from dtlib.style import INK, PALETTE, figure, inline_svg, label_curve, quantity_axis

        levels = self.levels(**self._start)
        place = AxisOrder(levels, self._axes)
        fig, (top, bottom) = figure(height=3.4, rows=2)
        for axis, color in zip(self._axes, PALETTE.values(), strict=False):
            start = place.stride(axis.name)
            width = start * (axis.size - 1)
            top.barh(0, width, left=start, color=color, alpha=0.4, edgecolor=color)
            middle = start * math.sqrt(axis.size)
            label = f"{axis.name} {axis.size}\n{format_quantity(axis.traffic, 'B', 3)}"
            top.text(middle, 0, label, ha="center", va="center")
            seconds = place.axis_time(axis.name)
            bottom.barh(axis.name, seconds, color=color, alpha=0.7)
            label_curve(bottom, seconds, axis.name, format_quantity(seconds, "s", 3))
        for level in levels[1:]:
            top.axvline(level.ranks, color=INK, linewidth=2.5)
            text = (
                f"{level.name} of {level.ranks}: {format_quantity(level.share, 'B/s', 3)} per GPU"
            )
            label_curve(top, level.ranks, 0.62, text)
        top.set(xscale="log", xlim=(1, place.ranks), ylim=(-0.5, 0.8), yticks=[])
        top.set_xscale("log", base=2)
        quantity_axis(top.xaxis, "", "rank number")
        bottom.set_xscale("log")
        bottom.invert_yaxis()
        quantity_axis(bottom.xaxis, "s", "communication in a step")
        return inline_svg(fig, alt=self._alt(place)) + (
            f"\n<figcaption>{html.escape(as_sentence(self.spec['title']))}</figcaption>"
        )

    def _alt(self, place: AxisOrder) -> str:
        times = [f"{a.name} {format_quantity(place.axis_time(a.name), 's', 3)}" for a in place.axes]
        return f"From the inside: {place.order}. Communication in a step: {', '.join(times)}."
