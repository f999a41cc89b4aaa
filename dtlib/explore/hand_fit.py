"""HandFit: measured points, and a curve that the reader bends until it meets them."""

from collections.abc import Mapping, Sequence

import numpy as np

from dtlib.explore.controls import Control
from dtlib.explore.kit.setting import Setting, caption, check_size, curve
from dtlib.explore.widget import Widget, script
from dtlib.formulas.formula import Formula
from dtlib.formulas.units import format_quantity

MOST_SLIDERS = 4
MARGIN = 1.6


class HandFit(Widget):
    """A fit by hand: points that stay, one curve that sliders move, and what separates them.

    Arguments: `formula`; `x`, the variable of the horizontal axis with its range; `points`, pairs
    of a value of it and what was measured there; `sliders`, the parameters to move, and `fixed`,
    those that stay; `title`; `below`, the mean error that the task asks for, as a share; `solution`
    values of sliders that reach it; `found`, what the widget then answers; `source` of the points;
    `labels` as for an `Explorer`.
    The error is the mean of |curve / measured - 1|. Below the curve the residuals stand alone.
    Raises ValueError for a parameter that nothing gives, points that are not positive, and a task
    that is met at the start or not met by its solution.
    """

    _esm = script("quantities.js", "page.js", "formulas.js", "hand_fit.js")
    _css = script("widget.css", "plot.css", "hand_fit.css")

    def __init__(
        self,
        formula: Formula,
        x: Mapping[str, Control],
        points: Sequence[tuple[float, float]],
        sliders: Mapping[str, Control],
        *,
        title: str,
        below: float,
        solution: Mapping[str, float],
        found: str,
        source: str,
        fixed: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
    ):
        if len(x) != 1:
            raise ValueError(f"x: one variable and its range; got {', '.join(x) or 'none'}")
        check_size("sliders", sliders, MOST_SLIDERS)
        setting = Setting({**x, **sliders}, fixed or {}, labels or {})
        setting.unit({"curve": formula}, {"curve": formula})
        self._formula, self._setting, self._name = formula, setting, next(iter(x))
        self._points = np.array(points, dtype=float).reshape(-1, 2)
        if not (len(self._points) and (self._points > 0).all()):
            raise ValueError("points: pairs of positive numbers, at least one")
        for name, value in solution.items():
            if name not in sliders or value not in setting.controls[name].values:
                raise ValueError(f"solution: {name} cannot take the value {value!r}")
        if self.error() < below:
            raise ValueError(f"below {below!r}: the start has an error of {self.error():.3g}")
        if not self.error(**solution) < below:
            raise ValueError(f"solution: its error is {self.error(**solution):.3g}, not {below!r}")
        variables = setting.variables()
        heights = self._points[:, 1]
        spec = {
            "title": title,
            "x": variables[0],
            "sliders": variables[1:],
            "fixed": setting.fixed_values(),
            "curves": [curve("curve", formula)],
            "points": self._points.tolist(),
            "y": {
                "label": "time",
                "unit": formula.unit,
                "range": [float(heights.min()) / MARGIN, float(heights.max()) * MARGIN],
            },
            "below": below,
            "text": f"Move the curve until the mean error is below {format_quantity(below, '%')}.",
            "found": found,
            "source": source,
            "task": None,
        }
        super().__init__(spec=spec)

    def error(self, **values) -> float:
        """The mean relative error at the start, or with the values that are given instead."""
        measured = self._points[:, 1]
        return float(np.mean(np.abs(self._curve(self._points[:, 0], **values) / measured - 1)))

    def _curve(self, at: np.ndarray, **values) -> np.ndarray:
        return np.asarray(self._setting.evaluate(self._formula, **values, **{self._name: at}))

    def _figure(self) -> str:
        from dtlib.style import FORWARD, INK, figure, inline_svg, label_curve, quantity_axis

        x, y = self.spec["x"], self.spec["y"]
        grid = np.array(x["values"], dtype=float)
        heights = self._curve(grid)
        fig, ax = figure(height=3.2)
        ax.loglog(grid, heights, color=FORWARD)
        ax.plot(*self._points.T, "o", color=INK, markersize=4)
        label_curve(ax, grid[-1], np.clip(heights[-1], *y["range"]), "curve", FORWARD)
        ax.set_ylim(*y["range"])
        ax.grid(True)
        quantity_axis(ax.xaxis, x["unit"], x["label"])
        quantity_axis(ax.yaxis, y["unit"], y["label"])
        error = format_quantity(self.error(), "%")
        alt = f"Measured points and a curve that misses them by {error} on average."
        return inline_svg(fig, alt=alt) + caption(self.spec, self._setting)
