"""Fastest: which of several formulas is smallest, over two variables."""

from collections.abc import Mapping

from dtlib.explore.controls import Control, Task
from dtlib.explore.kit.setting import (
    MOST_CURVES,
    OfFormulas,
    Setting,
    check_size,
    one_variable,
)
from dtlib.formulas.formula import Formula

MOST_SLIDERS = 2


class Fastest(OfFormulas):
    """A map of which formula gives the smallest value, with a point that the reader moves.

    Arguments: `formulas`, a mapping from label to Formula, two to four of one unit; `x` and `y`,
    the variables of the axes with their ranges, as for an `Explorer`; `sliders`, up to two more;
    `fixed`, `task` and `labels` as for an `Explorer`; `word`, what the smallest one is called.
    An axis of powers of two gets one band for each of them.
    Where a colour is pale, the next formula is nearly as good: within 1.1 times, within 2 times.
    Raises ValueError as an `Explorer` does.
    """

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
        one_variable("x", x)
        one_variable("y", y)
        check_size("sliders", sliders, MOST_SLIDERS)
        check_size("formulas", formulas, MOST_CURVES)
        setting = Setting({**x, **y, **sliders}, fixed or {}, labels or {})
        unit = setting.unit(formulas, formulas)
        super().__init__(formulas, setting, title=title, task=task, unit=unit, word=word)
