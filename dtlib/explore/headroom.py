"""Headroom: how much each resource has to spare, as bars that the reader drags across a border."""

from collections.abc import Mapping

from dtlib.explore.controls import Control, Task
from dtlib.explore.kit.setting import (
    MOST_CURVES,
    MOST_SLIDERS,
    Setting,
    caption,
    check_size,
    curve,
    task_spec,
)
from dtlib.explore.widget import Widget, script
from dtlib.formulas.formula import Formula
from dtlib.formulas.units import format_quantity


class Headroom(Widget):
    """One bar for each resource on one logarithmic axis, with the border at 1, and a bar of speed.

    A bar's end is the resource's headroom: the time of the arithmetic over the time for which the
    resource is busy. Left of 1 the arithmetic waits for it. The last bar is the share of the peak
    rate that this leaves, from nothing overlapped (the times add up) to everything (the longest
    one counts).
    Arguments: `resources`, two to four labels and Formulas without unit; `sliders`, up to four
    variables with their ranges; `grips`, for each resource the variable that dragging the end of
    its bar changes; `ends`, the two ends of the axis; `title`, `fixed`, `labels` as for an
    `Explorer`; `task`, over the variables, the resources, and `speed`, the larger of both shares.
    Raises ValueError as an `Explorer` does, for a grip that is no slider, and for a formula that
    has a unit.
    """

    _esm = script("quantities.js", "page.js", "formulas.js", "headroom.js")
    _css = script("widget.css", "plot.css", "headroom.css")

    def __init__(
        self,
        resources: Mapping[str, Formula],
        sliders: Mapping[str, Control],
        grips: Mapping[str, str],
        *,
        title: str,
        ends: tuple[float, float] = (0.01, 100),
        fixed: Mapping[str, float] | None = None,
        task: Task | None = None,
        labels: Mapping[str, str] | None = None,
    ):
        if len(resources) < 2:
            raise ValueError("resources: at least two, or there is nothing to compare")
        check_size("resources", resources, MOST_CURVES)
        check_size("sliders", sliders, MOST_SLIDERS)
        if not 0 < ends[0] < 1 < ends[1]:
            raise ValueError(f"ends {ends!r}: the border, 1, must lie between them")
        setting = Setting(sliders, fixed or {}, labels or {})
        for label, formula in resources.items():
            if formula.unit:
                raise ValueError(f"{label!r} is in {formula.unit}; a headroom has no unit")
        setting.unit(resources, resources)
        for label in resources:
            if grips.get(label) not in setting.controls:
                raise ValueError(
                    f"grips: {label!r} needs one of {', '.join(setting.controls)}; "
                    f"got {grips.get(label)!r}"
                )
        rows = {**resources, "speed": Speed(resources)}
        busy = "+".join(f"1/({formula.js()})" for formula in resources.values())
        spec = {
            "title": title,
            "ends": list(ends),
            "sliders": setting.variables(),
            "fixed": setting.fixed_values(),
            "curves": [curve(label, formula) for label, formula in resources.items()],
            "grips": [grips[label] for label in resources],
            "overlapped": rows["speed"].js(),
            "serial": f"1/(1+{busy})",
            "task": task_spec(task, setting, rows),
        }
        self._resources, self._setting = dict(resources), setting
        super().__init__(spec=spec)

    def headrooms(self, **values: float) -> dict[str, float]:
        """The headroom of every resource at the start, with the values that are given instead."""
        return {k: self._setting.evaluate(f, **values) for k, f in self._resources.items()}

    def speeds(self, **values: float) -> tuple[float, float]:
        """The share of the peak rate when nothing overlaps, and when everything does."""
        busy = [1 / h for h in self.headrooms(**values).values()]
        return 1 / (1 + sum(busy)), 1 / max(1, *busy)

    def _figure(self) -> str:
        import numpy as np

        from dtlib.style import BACKWARD, FORWARD, INK, figure, inline_svg

        found = self.headrooms()
        fig, ax = figure(height=0.75 + 0.5 * len(found))
        low, high = self.spec["ends"]
        for row, (_, value) in enumerate(found.items()):
            end, color = np.clip(value, low, high), FORWARD if value >= 1 else BACKWARD
            hatch = "" if value >= 1 else "//"
            ax.barh(row, end - 1, left=1, height=0.5, color=color, alpha=0.6, hatch=hatch)
            side = "left" if value >= 1 else "right"
            text = f" {format_quantity(value, '×', 2)} "
            ax.text(end, row, text, va="center", ha=side, fontweight="bold")
        ax.axvline(1, color=INK, linewidth=1.2)
        ax.set(xscale="log", xlim=(low, high), yticks=range(len(found)), yticklabels=list(found))
        ax.set_xlabel("headroom: time of the arithmetic / time of the resource")
        ax.invert_yaxis()
        serial, overlapped = self.speeds()
        shares = f"{serial:.0%} to {overlapped:.0%} of the peak rate"
        values = ", ".join(f"{k} {format_quantity(v, '×', 2)}" for k, v in found.items())
        text = caption(self.spec | {"x": {"name": ""}}, self._setting)
        return inline_svg(fig, alt=f"Headrooms: {values}. {shares}.") + text


class Speed:
    """The share of the peak rate with perfect overlap, as a task's condition may name it."""

    unit = ""

    def __init__(self, resources: Mapping[str, Formula]):
        self._resources = resources
        names = [name for formula in resources.values() for name in formula.parameters]
        self.parameters = tuple(dict.fromkeys(names))

    def __call__(self, **values: float) -> float:
        each = [
            formula(**{name: values[name] for name in formula.parameters})
            for formula in self._resources.values()
        ]
        return min(1, *each)

    def js(self) -> str:
        """The same in JavaScript, over the names of the variables."""
        return f"Math.min(1, {', '.join(formula.js() for formula in self._resources.values())})"
