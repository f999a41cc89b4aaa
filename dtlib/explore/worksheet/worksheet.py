"""Worksheet: the totals of a sheet as bars, whose parts open and whose inputs move."""

from collections.abc import Mapping, Sequence

from dtlib.explore.controls import Control, Task, control
from dtlib.explore.kit.controls import slider
from dtlib.explore.kit.lines import sheet_lines, sheet_names
from dtlib.explore.kit.setting import MOST_SLIDERS, check_size
from dtlib.explore.kit.widget import Widget
from dtlib.explore.mathml import mathml, plain
from dtlib.formulas.notation import NOTATION
from dtlib.formulas.sheet import Sheet


class Worksheet(Widget):
    """A live `Sheet`: each total is a bar, and a part that is pressed opens to its equation.

    An opened line shows the numbers of the moment, and leads on to the lines that feed it. A bar is
    measured against the quantity that its total should stay within, or else against its start.
    Arguments: `sheet`; `inputs`, the given quantities that move and their ranges, at most four,
    ``{"dp": between(1, 128, start=16)}``, which replace the sheet's own values at the start;
    `title`; `task`, a `Task` over the names of the sheet; `hidden`, lines without a bar or a row of
    their own; `open_`, the line that is open at the start, one at most; `labels`, other words for
    names of the sheet.
    Raises ValueError for an input that the sheet is not given or that no line needs, for a line
    that is not there, for a sheet without a total, and for a task that is met at the start or not
    met by its solution.
    """

    def __init__(
        self,
        sheet: Sheet,
        inputs: Mapping[str, Control],
        *,
        title: str,
        task: Task | None = None,
        hidden: Sequence[str] = (),
        open_: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
    ):
        moving = {name: control(given) for name, given in inputs.items()}
        check_size("inputs", moving, MOST_SLIDERS)
        check_size("open_", open_, 1)
        _check_names(sheet, moving, task, [*hidden, *open_])
        self._sheet = sheet.replaced(**{name: c.start for name, c in moving.items()})
        self._inputs = list(moving)
        words = dict(labels or {})

        def label(name: str) -> str:
            return words.get(name) or sheet.label(name)

        bars = [name for name, entry in sheet.lines.items() if entry.parts and name not in hidden]
        if not bars:
            raise ValueError("sheet: it has no total to show, so there is no bar")
        super().__init__(
            title=title,
            controls=[_slider(sheet, name, label(name), c) for name, c in moving.items()],
            task=task,
            given={name: g.value for name, g in sheet.given.items() if name not in moving},
            lines=sheet_lines(sheet, label),
            known=sheet_names(sheet, label),
            bars=bars,
            results=[name for name in _results(sheet) if name not in hidden],
            start={"open": next(iter(open_), None)},
        )

    def names(self, **state) -> dict:
        return self._sheet.values_at(**{name: state[name] for name in self._inputs})


def _slider(sheet: Sheet, name: str, label: str, c: Control) -> dict:
    """The slider of an input, with its symbol where the notation has one."""
    made = slider(name, label, c.values, c.start, sheet.unit(name))
    if name not in NOTATION:
        return made
    letters = NOTATION[name].latex
    return made | {"symbol": mathml(letters), "plain": plain(letters)}


def _results(sheet: Sheet) -> list[str]:
    """The lines that no other line needs, other than totals."""
    needed = {x for name in sheet.lines for x in sheet.inputs(name).values()}
    return [name for name, entry in sheet.lines.items() if not entry.parts and name not in needed]


def _check_names(sheet: Sheet, inputs: Mapping, task: Task | None, lines: Sequence[str]) -> None:
    for name in inputs:
        if name not in sheet.given:
            given = ", ".join(sheet.given)
            raise ValueError(f"inputs: {name!r} is not given in the sheet; given are {given}")
        if not any(name in sheet.feeds(key) for key in sheet.lines):
            raise ValueError(f"inputs: {name!r} moves nothing: no line depends on it")
    for name in task.solution if task else ():
        if name not in inputs:
            raise ValueError(f"solution: {name!r} is no input; inputs are {', '.join(inputs)}")
    for name in lines:
        if name not in sheet.lines:
            raise ValueError(f"no line {name!r} in the sheet; there are {', '.join(sheet.lines)}")
