"""Headroom: how much each resource has to spare, as bars that the reader drags across a border."""

from collections.abc import Mapping

from dtlib.explore.controls import Control, Task
from dtlib.explore.kit.setting import (
    MOST_CURVES,
    MOST_SLIDERS,
    OfFormulas,
    Setting,
    check_size,
)
from dtlib.formulas.formula import Formula


class Headroom(OfFormulas):
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
        super().__init__(
            resources,
            setting,
            title=title,
            task=task,
            ends=list(ends),
            grips=[grips[label] for label in resources],
        )

    def headrooms(self, **values: float) -> dict[str, float]:
        """The headroom of every resource at the start, with the values that are given instead."""
        return {k: self._setting.evaluate(f, **values) for k, f in self._formulas.items()}

    def speeds(self, **values: float) -> tuple[float, float]:
        """The share of the peak rate when nothing overlaps, and when everything does."""
        busy = [1 / h for h in self.headrooms(**values).values()]
        return 1 / (1 + sum(busy)), 1 / max(1, *busy)

    def names(self, **state) -> dict:
        return super().names(**state) | {"speed": self.speeds(**state)[1]}
