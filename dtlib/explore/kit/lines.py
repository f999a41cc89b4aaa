"""Lines of a sheet, as a widget's script needs to know them: see `lines.js`."""

from collections.abc import Callable

from dtlib.explore.kit.setting import curve
from dtlib.explore.mathml import mathml
from dtlib.formulas.notation import NOTATION
from dtlib.formulas.sheet import Sheet


def sheet_lines(sheet: Sheet, label: Callable[[str], str]) -> list[dict]:
    """What the script needs to know of every line, in order: how it is computed and written.

    `label` gives the words for a name.
    """
    return [_line(sheet, name, label(name)) for name in sheet.lines]


def _line(sheet: Sheet, name: str, label: str) -> dict:
    entry = sheet.lines[name]
    facts = {"key": name, "label": label, "unit": entry.unit, "within": entry.within}
    if entry.formula is None:
        return facts | {"sum": list(entry.parts)}
    formula = entry.formula
    return curve(label, formula) | facts | {
        "params": list(formula.parameters),
        "letters": [mathml(NOTATION[one].latex) for one in formula.parameters],
        "feeds": list(sheet.inputs(name).values()),
        "conditions": formula.conditions,
    }  # fmt: skip


def sheet_names(sheet: Sheet, label: Callable[[str], str]) -> dict[str, dict]:
    """What every name of a sheet is called, in which unit it is, and who knows it."""
    sources = {name: given.source for name, given in sheet.given.items()}
    return {
        name: {"label": label(name), "unit": sheet.unit(name), "source": sources.get(name, "")}
        for name in sheet
    }
