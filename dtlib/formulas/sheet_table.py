"""A sheet as tables: each line with its value, its share of the sum it is part of, and its formula.

On a page a line shows its equation; in a terminal it shows the formula's name and what feeds it.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dtlib.formulas.table import Table, Tables
from dtlib.formulas.units import format_quantity, readable

if TYPE_CHECKING:
    from dtlib.formulas.sheet import Sheet

_LARGEST = ", the largest"


class LineTable(Table):
    """A table whose column `from` is for a terminal, and `equation` for a page."""

    def _repr_markdown_(self) -> str:
        keep = [i for i, column in enumerate(self.columns) if column != "from"]
        columns = tuple(self.columns[i] for i in keep)
        rows = tuple(tuple(self._on_a_page(i, row[i]) for i in keep) for row in self.rows)
        return Table(self.title, columns, rows)._repr_markdown_()

    def _on_a_page(self, column: int, cell: str) -> str:
        """A value keeps its unit on its line; the largest part of a sum is bold, not named."""
        if self.columns[column] == "value":
            return cell.replace(" ", "\u00a0")
        if cell.endswith(_LARGEST):
            return f"**{cell.removesuffix(_LARGEST)}**"
        return cell


def sheet_tables(sheet: "Sheet", groups: Mapping[str, Iterable[str]] | None = None) -> Tables:
    """The lines of a sheet in titled groups, the largest part of each sum marked.

    Argument: `groups`, titles and names of lines (left out: one group of all).
    Raises KeyError for a name that is no line.

    >>> from dtlib.formulas.sheet import Sheet
    >>> from dtlib.models.work import training_flops
    >>> sheet_tables(Sheet({"params": 30e9, "tokens": 4e6}, {"work": training_flops}))
    Sheet
      line  value      from
      work  720 PFLOP  training_flops(params, tokens)
    """
    groups = groups or {"Sheet": list(sheet.lines)}
    return Tables(_table(sheet, title, list(names)) for title, names in groups.items() if names)


def _table(sheet: "Sheet", title: str, names: list[str]) -> Table:
    values = sheet.values_at()
    rows = [
        (
            sheet.label(name),
            readable(values[name], sheet.unit(name)),
            _share(sheet, name, values),
            _origin(sheet, name),
            _equation(sheet, name),
        )
        for name in names
    ]
    columns = ("line", "value", "part of", "from", "equation")
    keep = [i for i, name in enumerate(columns) if name != "part of" or any(r[i] for r in rows)]
    kept = tuple(tuple(row[i] for i in keep) for row in rows)
    return LineTable(title, tuple(columns[i] for i in keep), kept, page_only=("equation",))


def _share(sheet: "Sheet", name: str, values: Mapping[str, float]) -> str:
    entry = sheet.lines[name]
    if entry.within:
        limit = readable(values[entry.within], entry.unit)
        return f"{'too much for' if values[name] > values[entry.within] else 'within'} {limit}"
    for whole, line in sheet.lines.items():
        if name in line.parts and values[whole]:
            share = format_quantity(values[name] / values[whole], "%", 2)
            largest = values[name] == max(values[part] for part in line.parts)
            return f"{share} of {sheet.label(whole)}" + (_LARGEST if largest else "")
    return ""


def _origin(sheet: "Sheet", name: str) -> str:
    entry = sheet.lines[name]
    if entry.formula is None:
        return " + ".join(entry.parts)
    feeds = [
        parameter if feed == parameter else f"{parameter}={feed}"
        for parameter, feed in sheet.inputs(name).items()
    ]
    return f"{entry.formula.name}({', '.join(feeds)})"


def _equation(sheet: "Sheet", name: str) -> str:
    entry = sheet.lines[name]
    if entry.formula is None:
        return " + ".join(sheet.label(part) for part in entry.parts)
    return f"${entry.formula.equation}$"
