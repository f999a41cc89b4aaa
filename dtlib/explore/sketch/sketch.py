"""Sketch: the reader draws a curve before the formula does."""

from collections.abc import Mapping, Sequence

import numpy as np

from dtlib.explore.controls import Control, Task, between
from dtlib.explore.kit.controls import grip
from dtlib.explore.kit.setting import Setting
from dtlib.explore.kit.widget import Widget
from dtlib.explore.mathml import plain
from dtlib.formulas.formula import Formula
from dtlib.formulas.notation import NOTATION
from dtlib.formulas.units import format_quantity

FEWEST_POINTS, MOST_POINTS = 2, 6
UNDRAWN = None


class Sketch(Widget):
    """A bet on a whole curve: the reader draws it, then sees it, with the distance in words.

    Arguments: `key`, under which the browser keeps the drawing; `formula`; `x`, the variable of the
    horizontal axis and its range, whose start is the point that is given; `at`, the values of `x`
    at which the reader moves a point; `fixed`, the values of the formula's other parameters;
    `title`, the question; `y_range`, the ends of the vertical axis, which is logarithmic;
    `guide`, a label and a formula for the line that most people draw, shown with the curve;
    `conclusion`, a sentence that follows the comparison; `labels` and `y_label`, as for `Explorer`.
    A point waits above the plot until it is drawn, and nothing is shown or said of one that is not.
    Raises ValueError for a parameter that nothing gives, fewer than two or more than six points, a
    point that `x` cannot take, and a curve that leaves the axis.
    """

    def __init__(
        self,
        key: str,
        formula: Formula,
        x: Mapping[str, Control],
        at: Sequence[float],
        *,
        title: str,
        fixed: Mapping[str, float],
        y_range: tuple[float, float],
        guide: tuple[str, Formula] | None = None,
        conclusion: str = "",
        labels: Mapping[str, str] | None = None,
        y_label: str = "time",
    ):
        setting = Setting(x, fixed, labels or {})
        lines = {"curve": formula} | (dict([guide]) if guide else {})
        setting.unit({"curve": formula}, lines)
        (variable,) = setting.variables()
        _check_points(at, variable)
        name, (low, high) = variable["name"], y_range
        grid = np.array(variable["values"], dtype=float)
        heights = {line: setting.evaluate(f, **{name: grid}) for line, f in lines.items()}
        if not (low <= heights["curve"].min() and heights["curve"].max() <= high):
            raise ValueError(f"y_range {y_range!r} does not contain the curve")
        levels = (*between(low, high, start=low, scale="log").values, UNDRAWN)
        points = [
            {"name": f"point_{i}", "at": value,
             "where": f"{format_quantity(value, variable['unit'])} {variable['label']}",
             "truth": float(setting.evaluate(formula, **{name: value}))}
            for i, value in enumerate(at)
        ]  # fmt: skip
        super().__init__(
            title=title,
            controls=[
                grip(one["name"], f"Your curve at {one['where']}", levels, UNDRAWN, formula.unit)
                for one in points
            ],
            task=Task(
                f"Start at the dot and sweep across the empty plot, through all {len(at)} columns.",
                f"drawn >= {len(at)}",
                {one["name"]: levels[0] for one in points},
                "That is your bet.",
            ),
            key=key,
            x=variable,
            y={"label": y_label, "unit": formula.unit, "range": [low, high]},
            points=points,
            curve=heights["curve"].tolist(),
            given=float(setting.evaluate(formula)),
            guide=guide and {"label": guide[0], "values": heights[guide[0]].tolist()},
            conclusion=conclusion,
        )

    def names(self, **points) -> dict:
        return {"drawn": sum(level is not UNDRAWN for level in points.values())}


def _check_points(at: Sequence[float], variable: dict) -> None:
    if not FEWEST_POINTS <= len(at) <= MOST_POINTS:
        raise ValueError(f"at: {FEWEST_POINTS} to {MOST_POINTS} points to draw; got {len(at)}")
    for value in at:
        if value not in variable["values"] or value == variable["values"][variable["index"]]:
            name = plain(NOTATION[variable["name"]].latex)
            raise ValueError(f"at: {value!r} is not a value of {name} to draw at")
