"""A small table: Markdown on a page, aligned columns in a terminal."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A title, the names of the columns, and rows of cells that are already text.

    Columns named in `page_only` hold what a terminal cannot show, such as LaTeX.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    page_only: tuple[str, ...] = ()

    def _repr_markdown_(self) -> str:
        lines = [f"**{self.title}**", ""]
        lines += [_row(self.columns), _row([":--"] * len(self.columns))]
        return "\n".join(lines + [_row(row) for row in self.rows])

    def __repr__(self) -> str:
        keep = [i for i, column in enumerate(self.columns) if column not in self.page_only]
        rows = [[row[i].replace("`", "") for i in keep] for row in (self.columns, *self.rows)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(keep))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in rows]
        return "\n".join([self.title, *(f"  {line}".rstrip() for line in lines)])


class Tables(tuple):
    """Several tables that are shown one below the other."""

    def _repr_markdown_(self) -> str:
        return "\n\n".join(table._repr_markdown_() for table in self)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))


def _row(cells) -> str:
    return f"| {' | '.join(cells)} |"
