"""Fastest: which of several formulas is smallest, over two variables."""

from collections.abc import Mapping

import numpy as np

from dtlib.explore.controls import Control, Task
from dtlib.explore.kit.setting import (
    MOST_CURVES,
    Setting,
    caption,
    check_size,
    curve,
    task_spec,
)
from dtlib.explore.widget import Widget, script
from dtlib.formulas.formula import Formula

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
    _css = script("widget.css", "plot.css")

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
        setting.unit(formulas, formulas)
        variables = setting.variables()
        spec = {
            "title": title,
            "x": variables[0],
            "vertical": variables[1],
            "sliders": variables[2:],
            "fixed": setting.fixed_values(),
            "curves": [curve(label, f) for label, f in formulas.items()],
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
        across, up = _edges(x), _edges(y)
        for index, (label, color) in enumerate(zip(self._formulas, PALETTE.values(), strict=False)):
            widest = (0, 0, 0)
            for row, line in enumerate(winners == index):
                runs = [(across[a], across[b], b - a) for a, b in _runs(line)]
                bars = [(low, high - low) for low, high, _ in runs]
                look = {"facecolor": color, "alpha": 0.55, "hatch": _HATCHES[index]}
                ax.broken_barh(bars, (up[row], up[row + 1] - up[row]), linewidth=0, **look)
                widest = max([widest, *((n, low, row) for low, _, n in runs)])
            if widest[0]:
                _, low, row = widest
                ax.text(low, y["values"][row], f" {label}", va="center", fontweight="bold")
        for axis, set_scale, spec in ((ax.xaxis, ax.set_xscale, x), (ax.yaxis, ax.set_yscale, y)):
            set_scale("linear" if spec["scale"] == "linear" else "log")
            quantity_axis(axis, spec["unit"], spec["label"])
        ax.set(xlim=(across[0], across[-1]), ylim=(up[0], up[-1]))
        alt = f"Which is {self.spec['word']}, over {x['label']} and {y['label']}."
        return inline_svg(fig, alt=alt) + caption(self.spec, self._setting)


_HATCHES = ["", "//", "\\\\", "xx"]


def _edges(variable: dict) -> np.ndarray:
    """The borders between the values of an axis, half a step beyond its ends."""
    values = np.array(variable["values"], dtype=float)
    values = values if variable["scale"] == "linear" else np.log(values)
    middle = (values[1:] + values[:-1]) / 2
    edges = np.concatenate([[2 * values[0] - middle[0]], middle, [2 * values[-1] - middle[-1]]])
    return edges if variable["scale"] == "linear" else np.exp(edges)


def _runs(line: np.ndarray) -> list[tuple[int, int]]:
    """Where a row of truth values is true: first and one past the last, for each stretch."""
    steps = np.flatnonzero(np.diff(np.concatenate([[0], line.astype(int), [0]])))
    return list(zip(steps[::2].tolist(), steps[1::2].tolist(), strict=True))
