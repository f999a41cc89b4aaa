"""Worksheet: a sheet of formulas that the reader opens line by line, and whose inputs move."""

import html
from collections.abc import Mapping, Sequence

from dtlib.explore.controls import Control, Task, control
from dtlib.explore.kit.setting import called_formulas, check_size
from dtlib.explore.kit.source import as_sentence
from dtlib.explore.mathml import mathml, plain
from dtlib.explore.widget import Widget, script
from dtlib.formulas.formula import Formula
from dtlib.formulas.notation import NOTATION
from dtlib.formulas.sheet import Sheet
from dtlib.formulas.units import readable

MOST_SLIDERS = 6


class Worksheet(Widget):
    """A live `Sheet`: every line opens to its equation with the numbers of the moment filled in.

    Arguments: `sheet`; `inputs`, the given quantities that move and their ranges, at most six,
    ``{"dp": between(1, 128, start=16)}``, which replace the sheet's own values at the start;
    `title`; `task`, a `Task` over the names of the sheet; `headline`, the lines that the sentence
    below speaks of (all totals, or the last line); `hidden`, lines that are computed and not
    shown; `open_`, lines that are open at the start; `labels`, other words for names of the sheet.
    Bars compare the parts of a total, and a line with the quantity that it should stay within.
    Raises ValueError for an input that the sheet is not given or that no shown line needs, for a
    line that is not there, and for a task that is met at the start or not met by its solution.
    """

    _esm = script("quantities.js", "page.js", "sheet.js", "worksheet.js")
    _css = script("widget.css", "plot.css", "worksheet.css")

    def __init__(
        self,
        sheet: Sheet,
        inputs: Mapping[str, Control],
        *,
        title: str,
        task: Task | None = None,
        headline: Sequence[str] = (),
        hidden: Sequence[str] = (),
        open_: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
    ):
        controls = {name: control(given) for name, given in inputs.items()}
        check_size("inputs", controls, MOST_SLIDERS)
        _check_names(sheet, controls, [*headline, *hidden, *open_])
        self._sheet = sheet.replaced(**{name: c.start for name, c in controls.items()})
        self._labels, self._hidden = dict(labels or {}), frozenset(hidden)
        lines = [self._line(name, open_) for name in sheet.lines]
        totals = [line["key"] for line in lines if "sum" in line and not line["hidden"]]
        spec = {
            "title": title,
            "inputs": [self._input(name, c) for name, c in controls.items()],
            "fixed": [self._fixed(name) for name in sheet.given if name not in controls],
            "lines": lines,
            "names": list(sheet),
            "headline": list(headline) or totals or [lines[-1]["key"]],
            "task": _task(task, self._sheet, controls),
        }
        super().__init__(spec=spec)

    def _label(self, name: str) -> str:
        return self._labels.get(name) or self._sheet.label(name)

    def _input(self, name: str, c: Control) -> dict:
        letters = _letters(name)
        return {
            "name": name,
            "label": self._label(name),
            "symbol": mathml(letters),
            "plain": plain(letters),
            "unit": self._sheet.unit(name),
            "values": list(c.values),
            "index": c.index,
            "scale": c.scale,
        }

    def _fixed(self, name: str) -> dict:
        given = self._sheet.given[name]
        facts = {"name": name, "label": self._label(name), "unit": given.unit}
        return facts | {"value": given.value, "source": given.source}

    def _line(self, name: str, open_: Sequence[str]) -> dict:
        entry = self._sheet.lines[name]
        wholes = [key for key, line in self._sheet.lines.items() if name in line.parts]
        facts = {
            "key": name,
            "label": self._label(name),
            "unit": entry.unit,
            "within": entry.within,
            "part": next((key for key in wholes if key not in self._hidden), ""),
            "needs": self._sheet.feeds(name),
            "open": name in open_,
            "hidden": name in self._hidden,
        }
        if entry.formula is None:
            return facts | {"sum": list(entry.parts)}
        feeds = [*self._sheet.inputs(name).values()]
        return facts | line_equation(entry.formula) | {"feeds": feeds}

    def _figure(self) -> str:
        values = self._sheet.values_at()
        rows = [
            f"<tr><th scope='row'>{html.escape(line['label'])}</th>"
            f"<td class='dt-figure-value'>{readable(values[line['key']], line['unit'])}</td>"
            f"<td>{self._printed(line)}</td></tr>"
            for line in self.spec["lines"]
            if not line["hidden"]
        ]
        given = ", ".join(
            f"{self._label(name)} {readable(entry.value, entry.unit)}"
            for name, entry in self._sheet.given.items()
        )
        caption = html.escape(f"{as_sentence(self.spec['title'])} Computed for {given}.")
        table = "\n".join(rows)
        return (
            f'<table class="dt-sheet-table">\n<tbody>\n{table}\n</tbody></table>\n'
            f"<figcaption>{caption}</figcaption>"
        )

    def _printed(self, line: dict) -> str:
        if "sum" in line:
            return "= " + " + ".join(html.escape(self._label(part)) for part in line["sum"])
        return f"<math>{line['symbol']}<mo>=</mo>{line['body']}</math>"


def line_equation(formula: Formula) -> dict:
    """What the script needs to know of a formula: how to compute it and how to write it."""
    inner = called_formulas(formula)
    places = {NOTATION[name].latex: name for name in formula.parameters}
    places |= {f.symbol: f.name for f in inner if f.symbol not in places}
    return {
        "params": list(formula.parameters),
        "letters": [mathml(NOTATION[name].latex) for name in formula.parameters],
        "js": formula.js(),
        "symbol": mathml(formula.symbol),
        "body": mathml(formula.latex, places),
        "places": [[name, name, NOTATION[name].unit] for name in formula.parameters]
        + [[f.name, f.js(), f.unit] for f in inner],
        "conditions": formula.conditions,
    }


def _letters(name: str) -> str:
    """The symbol of an input; a quantity that is not in the notation has none."""
    return NOTATION[name].latex if name in NOTATION else ""


def _check_names(sheet: Sheet, controls: Mapping, lines: Sequence[str]) -> None:
    for name in controls:
        if name not in sheet.given:
            given = ", ".join(sheet.given)
            raise ValueError(f"inputs: {name!r} is not given in the sheet; given are {given}")
        if not any(name in sheet.feeds(key) for key in sheet.lines):
            raise ValueError(f"inputs: {name!r} moves nothing: no line depends on it")
    for name in lines:
        if name not in sheet.lines:
            raise ValueError(f"no line {name!r} in the sheet; there are {', '.join(sheet.lines)}")


def _task(task: Task | None, sheet: Sheet, controls: Mapping[str, Control]) -> dict | None:
    """The task for the script. Raises ValueError when it is met at the start, or never."""
    if task is None:
        return None
    for name, value in task.solution.items():
        if name not in controls or value not in controls[name].values:
            raise ValueError(f"solution: {name} cannot take the value {value!r}")
    return task.checked(sheet.values_at)
