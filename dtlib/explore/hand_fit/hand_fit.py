"""HandFit: measured points, and a curve that the reader bends until it meets them."""

from collections.abc import Mapping, Sequence

import numpy as np

from dtlib.explore.controls import Control, Task
from dtlib.explore.kit.setting import OfFormulas, Setting, check_size, one_variable
from dtlib.formulas.formula import Formula
from dtlib.formulas.units import format_quantity

MOST_SLIDERS = 4
MARGIN = 1.6


class HandFit(OfFormulas):
    """A fit by hand: points that stay, one curve that sliders move, and what separates them.

    Arguments: `formula`; `x`, the variable of the horizontal axis with its range; `points`, pairs
    of a value of it and what was measured there; `sliders`, the parameters to move, and `fixed`,
    those that stay; `title`; `below`, the mean error that the task asks for, as a share; `solution`
    values of sliders that reach it; `found`, what the widget then answers; `source` of the points;
    `labels` as for an `Explorer`; `measured`, what the points are, and `sides`, what a curve below
    them and above them is.
    The error is the mean of |curve / measured - 1|. Below the curve the residuals stand alone.
    Raises ValueError for a parameter that nothing gives, points that are not positive, and a task
    that is met at the start or not met by its solution.
    """

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
        measured: str = "time",
        sides: tuple[str, str] = ("fast", "slow"),
    ):
        one_variable("x", x)
        check_size("sliders", sliders, MOST_SLIDERS)
        self._points = np.array(points, dtype=float).reshape(-1, 2)
        if not (len(self._points) and (self._points > 0).all()):
            raise ValueError("points: pairs of positive numbers, at least one")
        plane = Setting({**x, **sliders}, fixed or {}, labels or {})
        unit = plane.unit({"curve": formula}, {"curve": formula})
        variable, *_ = plane.variables()
        self._name, start = variable["name"], plane.start[variable["name"]]
        heights = self._points[:, 1]
        super().__init__(
            {"curve": formula},
            Setting(sliders, {**(fixed or {}), self._name: start}, labels or {}),
            title=title,
            task=Task(
                f"Move the curve until the mean error is below {format_quantity(below, '%')}.",
                f"error < {below!r}",
                solution,
                found,
            ),
            x=variable,
            points=self._points.tolist(),
            y={
                "label": measured,
                "unit": unit,
                "range": [float(heights.min()) / MARGIN, float(heights.max()) * MARGIN],
            },
            source=source,
            sides=list(sides),
        )

    def error(self, **values) -> float:
        """The mean relative error at the start, or with the values that are given instead."""
        at, measured = self._points.T
        curve = self._setting.evaluate(self._formulas["curve"], **values | {self._name: at})
        return float(np.mean(np.abs(curve / measured - 1)))

    def names(self, **state) -> dict:
        return super().names(**state) | {"error": self.error(**state)}
