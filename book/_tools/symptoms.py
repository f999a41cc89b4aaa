"""The page 'Symptoms', from `book/symptoms.toml`: what you see, and the number that decides.

A row has what one sees (`sees`, a message in backticks or a curve in words), three `suspects`,
what `decides` between them (a number or a command), the sections that explain (`why`) and how the
message was confirmed (`checked`). `book._tools.generated` writes the page.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from book._tools.entries import anchor_link, fields_problem, repeated
from book._tools.layout import ROOT
from book._tools.prose_numbers import numbers
from book._tools.sections import Place, PlaceError

FIELDS = ("sees", "suspects", "decides", "why")
KNOWN = (*FIELDS, "checked", "slug")
DECIDING = re.compile(r"\d|`[^`]+`")

HEAD = """# Symptoms

You have a message, a curve or a dashboard, and no quantity yet. Each row has what you see, three suspects in the order in which to ask them, the number or the command that decides between them, and the section that explains why. Paste a whole message into the field; numbers and paths in it do not matter. {doc}`before-the-first-step` takes a run that does not start through its four stations.

Three rules come before the table. **Read the first error, not the last**, and read it on every rank: a rank that dies takes its neighbours with it, and they complain about a closed connection. **A hang has a rank that did not come**; look for who is behind, not for who complains. **Before you compare two numbers, ask {ref}`which number it is <book/how-to-read:Which number is it?>`.**

The messages are those of PyTorch 2.13 and NCCL 2.30 unless the row says otherwise; what stands for a rank, an address or a size is printed as `…`. *Provoked* means that we made it happen and kept the text.

<div class="dt-filter" data-label="Words, or a whole message" data-rows="tbody tr" data-noun="symptoms" data-groups="groups"></div>
"""  # noqa: E501


class SymptomError(ValueError):
    """A row that lacks something."""


@dataclass(frozen=True)
class Row:
    """One symptom."""

    sees: str
    suspects: tuple[str, ...]
    decides: str
    why: tuple[str, ...]
    slug: str
    checked: str = ""

    @property
    def anchor(self) -> str:
        """The name of its place on the page."""
        return f"symptom-{self.slug}"

    def problems(self, root: Path) -> Iterator[str]:
        """What is wrong with the row."""
        if len(self.suspects) != 3:
            yield f"has {len(self.suspects)} suspects; three are wanted"
        if not DECIDING.search(self.decides):
            yield "decides nothing: no number and no command in 'decides'"
        if "`" in self.sees and not self.checked:
            yield "prints a message without saying how it was confirmed ('checked')"
        if not self.why:
            yield "names no section"
        for place in self.why:
            try:
                Place.read(place, root).check()
            except PlaceError as error:
                yield str(error)
        for text in (self.sees, self.decides, *self.suspects):
            yield from (problem for number in numbers(text) if (problem := number.problem()))


@dataclass(frozen=True)
class Group:
    """Rows that begin alike: it hangs, it is slow, ..."""

    title: str
    intro: str
    rows: tuple[Row, ...]


def groups(root: Path = ROOT) -> list[Group]:
    """The groups of symptoms in the order of the file.

    Raises SymptomError for a field that is missing or unknown.
    """
    found = tomllib.loads((root / "book/symptoms.toml").read_text(encoding="utf-8"))["group"]
    return [
        Group(group["title"], group["intro"], tuple(_row(row) for row in group["row"]))
        for group in found
    ]


def _row(row: dict) -> Row:
    if problem := fields_problem(row, (*FIELDS, "slug"), KNOWN):
        raise SymptomError(f"row {row.get('slug') or row.get('sees')!r}: {problem}")
    return Row(**row | {"suspects": tuple(row["suspects"]), "why": tuple(row["why"])})


def problems(root: Path = ROOT) -> list[str]:
    """Everything that is wrong, each with its row."""
    try:
        found = groups(root)
    except (SymptomError, tomllib.TOMLDecodeError) as error:
        return [f"symptoms.toml: {error}"]
    rows = [row for group in found for row in group.rows]
    told = [f"two rows are {slug!r}" for slug in repeated([row.slug for row in rows])]
    return told + [f"{row.slug}: {problem}" for row in rows for problem in row.problems(root)]


def symptoms_page(root: Path = ROOT) -> str:
    """The whole page: one table for each group."""
    lines = [HEAD.rstrip()]
    for group in groups(root):
        lines += ["", f"## {group.title}", "", group.intro.strip(), ""]
        lines += [":::{table}", ":class: dt-cards", ""]
        lines += [
            "| What you see | Three suspects | What decides | Why |",
            "| --- | --- | --- | --- |",
        ]
        lines += [_printed(row, root) for row in group.rows]
        lines += [":::"]
    return "\n".join(lines) + "\n"


def _printed(row: Row, root: Path) -> str:
    anchor = anchor_link(row.anchor, "symptom")
    checked = f' <span class="dt-checked">{row.checked}</span>' if row.checked else ""
    suspects = " ".join(f'<span class="dt-suspect">{suspect}</span>' for suspect in row.suspects)
    why = "; ".join(Place.read(place, root).link() for place in row.why)
    cells = (f"{row.sees} {anchor}{checked}", suspects, row.decides, why)
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    """A text as a table's cell: in one line, with its own bars escaped."""
    return " ".join(text.split()).replace("|", r"\|")
