"""Sketch: the reader draws a curve before the formula does."""

from collections.abc import Mapping, Sequence

import numpy as np

from dtlib.explore.controls import Control
from dtlib.explore.kit.setting import Setting
from dtlib.explore.mathml import plain
from dtlib.explore.widget import Widget, script
from dtlib.formulas.formula import Formula
from dtlib.formulas.notation import NOTATION
from dtlib.formulas.units import format_quantity

FEWEST_POINTS, MOST_POINTS = 2, 6


class Sketch(Widget):
    """A bet on a whole curve: the reader draws it, then sees it, with the distance in words.

    Arguments: `key`, under which the browser keeps the drawing; `formula`; `x`, the variable of the
    horizontal axis and its range, whose start is the point that is given; `at`, the values of `x`
    at which the reader moves a point; `fixed`, the values of the formula's other parameters;
    `title`, the question; `y_range`, the ends of the vertical axis, which is logarithmic;
    `guide`, a label and a formula for the line that most people draw, shown with the curve;
    `conclusion`, a sentence that follows the comparison; `labels` and `y_label`, as for `Explorer`.
    Raises ValueError for a parameter that nothing gives, fewer than two or more than six points, a
    point that `x` cannot take, and a curve that leaves the axis.
    """

    _esm = script("quantities.js", "page.js", "storage.js", "sketch.js")
    _css = script("widget.css", "plot.css", "sketch.css")

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
        low, high = y_range
        grid = np.array(variable["values"], dtype=float)
        heights = setting.evaluate(formula, **{variable["name"]: grid})
        if not (low <= heights.min() and heights.max() <= high):
            raise ValueError(f"y_range {y_range!r} does not contain the curve")
        name = variable["name"]
        curve = [float(height) for height in heights]
        spec = {
            "key": key,
            "title": title,
            "x": variable,
            "y": {"label": y_label, "unit": formula.unit, "range": [low, high]},
            "at": list(at),
            "curve": curve,
            "truth": [float(setting.evaluate(formula, **{name: value})) for value in at],
            "given": float(setting.evaluate(formula)),
            "guide": _guide(guide, setting, name, grid),
            "conclusion": conclusion,
        }
        super().__init__(spec=spec)

    def _figure(self) -> str:
        from dtlib.style import INK, figure, inline_svg, label_curve, quantity_axis

        x, y = self.spec["x"], self.spec["y"]
        start = x["values"][x["index"]]
        fig, ax = figure(height=3)
        ax.plot([start], [self.spec["given"]], "o", color=INK)
        given = f"{format_quantity(self.spec['given'], y['unit'])} on {format_quantity(start)}"
        label_curve(ax, start, self.spec["given"], given)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(x["values"][0], x["values"][-1])
        ax.set_ylim(*y["range"])
        ax.grid(True)
        quantity_axis(ax.xaxis, x["unit"], x["label"])
        quantity_axis(ax.yaxis, y["unit"], y["label"])
        alt = f"Empty axes, {y['label']} against {x['label']}, with one point: {given}."
        return inline_svg(fig, alt=alt) + f"\n<figcaption>{self.spec['title']}</figcaption>"


def _check_points(at: Sequence[float], variable: dict) -> None:
    if not FEWEST_POINTS <= len(at) <= MOST_POINTS:
        raise ValueError(f"at: {FEWEST_POINTS} to {MOST_POINTS} points to draw; got {len(at)}")
    for value in at:
        if value not in variable["values"] or value == variable["values"][variable["index"]]:
            name = plain(NOTATION[variable["name"]].latex)
            raise ValueError(f"at: {value!r} is not a value of {name} to draw at")


def _guide(guide, setting: Setting, name: str, grid: np.ndarray) -> dict | None:
    """The comparison line as the script needs it, or nothing."""
    if guide is None:
        return None
    label, formula = guide
    return {"label": label, "values": [float(setting.evaluate(formula, **{name: x})) for x in grid]}
