"""Fastest: which of several formulas is smallest, over two variables."""

import html
from collections.abc import Mapping

import numpy as np

from dtlib.explore.controls import Control, Task
from dtlib.explore.explorer import (
    MOST_CURVES,
    Setting,
    caption,
    check_formulas,
    check_size,
    curve,
    task_spec,
)
from dtlib.explore.widget import Widget, script
from dtlib.foundations.formula import Formula

MOST_SLIDERS = 2


class Fastest(Widget):
    """A map of which formula gives the smallest value, with a point that the reader moves.

    Arguments: `formulas`, a mapping from label to Formula, two to four of one unit; `x` and `y`,
    the variables of the axes with their ranges, as for an `Explorer`; `sliders`, up to two more;
    `fixed`, `task` and `labels` as for an `Explorer`; `word`, what the smallest one is called.
    An axis of powers of two gets one band for each of them.
    Where a colour is pale, the next formula is nearly as good: within 1.1 times, within 2 times.
    Raises ValueError as an `Explorer` does.
    """

    _esm = script("quantities.js", "page.js", "formulas.js", "fastest.js")

    def __init__(
        self,
        formulas: Mapping[str, Formula],
        x: Mapping[str, Control],
        y: Mapping[str, Control],
        sliders: Mapping[str, Control],
        *,
        title: str,
        fixed: Mapping[str, float] | None = None,
        task: Task | None = None,
        labels: Mapping[str, str] | None = None,
        word: str = "fastest",
    ):
        if len(formulas) < 2:
            raise ValueError("formulas: at least two are needed to have a fastest one")
        for name, axis in (("x", x), ("y", y)):
            if len(axis) != 1:
                raise ValueError(f"{name}: one variable and its range; got {', '.join(axis)}")
        check_size("sliders", sliders, MOST_SLIDERS)
        check_size("formulas", formulas, MOST_CURVES)
        setting = Setting({**x, **y, **sliders}, fixed or {}, labels or {})
        check_formulas(formulas, setting, formulas)
        variables = setting.variables()
        spec = {
            "title": title,
            "x": variables[0],
            "vertical": variables[1],
            "sliders": variables[2:],
            "fixed": setting.fixed_values(),
            "curves": [curve(label, f, setting) for label, f in formulas.items()],
            "y": {"unit": next(iter(formulas.values())).unit},
            "task": task_spec(task, setting, formulas),
            "word": word,
        }
        self._formulas, self._setting = dict(formulas), setting
        super().__init__(spec=spec)

    def winners(self) -> np.ndarray:
        """The index of the smallest formula, one row for each value of y, at the start."""
        x, y = (self.spec[axis]["name"] for axis in ("x", "vertical"))
        across = np.array(self._setting.controls[x].values, dtype=float)
        up = np.array(self._setting.controls[y].values, dtype=float)[:, None]
        values = [
            np.broadcast_to(self._setting.evaluate(f, **{x: across, y: up}), (len(up), len(across)))
            for f in self._formulas.values()
        ]
        return np.argmin(values, axis=0)

    def _figure(self) -> str:
        from dtlib.style import PALETTE, figure, inline_svg, quantity_axis

        x, y, winners = self.spec["x"], self.spec["vertical"], self.winners()
        fig, ax = figure(height=3.6)
        for index, (label, color) in enumerate(zip(self._formulas, PALETTE.values(), strict=False)):
            rows, columns = np.nonzero(winners == index)
            across, up = np.array(x["values"])[columns], np.array(y["values"])[rows]
            ax.plot(across, up, "osD^"[index], color=color, markersize=3, linestyle="none")
            if len(rows):
                middle = np.argsort(rows)[len(rows) // 2]
                ax.annotate(
                    label,
                    (across[middle], up[middle]),
                    ha="center",
                    fontweight="bold",
                    bbox={"boxstyle": "round", "fc": "white", "ec": color},
                )
        for axis, set_scale, spec in ((ax.xaxis, ax.set_xscale, x), (ax.yaxis, ax.set_yscale, y)):
            set_scale("linear" if spec["scale"] == "linear" else "log")
            quantity_axis(axis, spec["unit"], spec["label"])
        alt = f"Which is {self.spec['word']}, over {x['label']} and {y['label']}."
        return inline_svg(fig, alt=html.escape(alt)) + caption(self.spec, self._setting)
