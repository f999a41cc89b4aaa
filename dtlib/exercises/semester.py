"""A semester with the book: fourteen weeks, each with its chapters and whether they are there."""

from dtlib.contents import chapter
from dtlib.formulas.table import Table

WEEKS = (
    ("What a machine can do", ("1", "2", "3")),
    ("A link, two numbers", ("4", "5")),
    ("Estimating; feeding the data", ("6", "3a")),
    ("Scaling laws", ("7", "8", "9")),
    ("Collectives", ("11", "12")),
    ("The lab: all-reduce from send and receive", ("12",)),
    ("Collectives on real networks", ("13", "13a")),
    ("Data and tensor parallelism", ("14", "15")),
    ("Pipelines", ("16",)),
    ("Sequences and experts", ("17", "18")),
    ("Memory", ("19", "20", "21")),
    ("Composition and failures", ("23", "24", "26")),
    ("Efficiency", ("28", "30", "31")),
    ("Profiling, and a published run", ("32", "34")),
)


def semester_table() -> Table:
    """The weeks of a semester; a chapter that is not written yet is marked as planned."""
    rows = [
        (str(week), subject, "; ".join(map(_chapter, numbers)))
        for week, (subject, numbers) in enumerate(WEEKS, start=1)
    ]
    return Table("A semester, week by week", ("week", "subject", "chapters"), tuple(rows))


def _chapter(number: str) -> str:
    known = chapter(number)
    return f"{number} {known.title}" + ("" if known.is_written() else " (planned)")
