"""Explorer: formulas as curves that the reader moves, with the numbers filled in below."""

from collections.abc import Mapping

import numpy as np

from dtlib.explore.controls import Control, Task
from dtlib.explore.kit.setting import (
    MOST_CURVES,
    MOST_SLIDERS,
    OfFormulas,
    Setting,
    check_size,
    mark,
    one_variable,
)
from dtlib.formulas.formula import Formula

_QUANTITIES = {
    "s": "time",
    "B": "bytes",
    "B/s": "bandwidth",
    "FLOP": "work",
    "FLOP/s": "arithmetic rate",
    "": "value",
}


class Explorer(OfFormulas):
    """Curves of formulas over one variable, with sliders for the others, a probe and a task.

    Arguments: `formulas`, one Formula or a mapping from label to Formula, all of one unit;
    `x`, the variable of the horizontal axis and its range, ``{"n": between(1 * KB, 1 * GB,
    start=1 * MB)}``; `sliders`, up to four more in the same way; `fixed`, values of parameters
    that do not move; `marks`, labels and formulas for positions on the horizontal axis that move
    with the sliders; `guides`, labels and formulas of thin comparison lines; `task`, a `Task`
    over the names of the parameters and the curves; `labels`, names for parameters where the
    notation's meaning does not read well; `y_label`, `y_scale` ("log" or "linear") and
    `y_range` for the vertical axis.
    Raises ValueError for a parameter that nothing gives, a slider that moves nothing, units that
    differ, and a task that is met at the start or not met by its solution.
    """

    def __init__(
        self,
        formulas: Formula | Mapping[str, Formula],
        x: Mapping[str, Control],
        sliders: Mapping[str, Control],
        *,
        title: str,
        fixed: Mapping[str, float] | None = None,
        task: Task | None = None,
        marks: Mapping[str, Formula] | None = None,
        guides: Mapping[str, Formula] | None = None,
        labels: Mapping[str, str] | None = None,
        y_label: str | None = None,
        y_scale: str = "log",
        y_range: tuple[float, float] | None = None,
    ):
        if isinstance(formulas, Formula):
            formulas = {formulas.name.replace("_", " "): formulas}
        one_variable("x", x)
        check_size("sliders", sliders, MOST_SLIDERS)
        check_size("formulas", formulas, MOST_CURVES)
        if y_scale not in ("log", "linear"):
            raise ValueError(f"y_scale {y_scale!r}; allowed are 'log', 'linear'")
        marks, guides = marks or {}, guides or {}
        setting = Setting({**x, **sliders}, fixed or {}, labels or {})
        unit = setting.unit(formulas, {**formulas, **guides, **marks})
        super().__init__(
            formulas,
            setting,
            title=title,
            task=task,
            guides=[{"label": label, "js": f.js()} for label, f in guides.items()],
            marks=[mark(label, f) for label, f in marks.items()],
            y={
                "label": y_label or _QUANTITIES.get(unit, "value"),
                "unit": unit,
                "scale": y_scale,
                "range": list(y_range or _range(formulas, setting, y_scale)),
            },
        )


def _range(formulas: Mapping, setting: Setting, scale: str) -> tuple[float, float]:
    """A little more than all curves at the start; a linear axis begins at 0."""
    name = next(iter(setting.controls))
    grid = np.array(setting.controls[name].values, dtype=float)
    values = [np.ravel(setting.evaluate(f, **{name: grid})) for f in formulas.values()]
    every = np.concatenate([v.astype(float) for v in values])
    every = every[np.isfinite(every) & (every > 0)]
    if scale == "linear":
        return 0.0, float(every.max()) * 1.08
    return float(every.min()) / 1.5, float(every.max()) * 1.5
