"""The table of the replay: for each group, how many verdicts are the same in both Pythons."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from book._engine.replay import answers
from book._engine.replay.answers import Row
from book._engine.replay.page import PagePython, python_in_page
from book._tools.layout import ROOT
from dtlib.contents import chapter, padded
from dtlib.exercises.manifest import exercises_of, groups
from dtlib.formulas.table import Table

LISTED = ROOT / "tests/exercises/wrong"
AT_ONCE = 200  # rows that one run of the page prints


@dataclass(frozen=True)
class Compared:
    """A group's verdicts in both: those of CPython, and those of the page where they differ."""

    group: str
    rows: tuple[Row, ...]
    differing: tuple[tuple[Row, str], ...]

    def cells(self) -> tuple[str, ...]:
        """Its row in the table."""
        exercises = exercises_of(self.group)
        outside = [f"{e.label} needs {e.needs}" for e in exercises if e.needs]
        counts = len(exercises), len(exercises) - len(outside), len(self.rows)
        same = len(self.rows) - len(self.differing)
        return (self.group, *map(str, counts), str(same), ", ".join(outside))


def compared(group: str, python: PagePython) -> Compared:
    """Judge all answers of a chapter or a lab here and in the page."""
    file = _listed(group)
    more = file if file.exists() else None
    here = answers.replay(group, more)
    there = in_page(group, more, python)
    keys = [[row[:2] for row in rows] for rows in (here, there)]
    if keys[0] != keys[1]:
        raise AssertionError(f"{group}: the page has {len(there)} answers, not {len(here)}")
    pairs = zip(here, there, strict=True)
    return Compared(
        group, tuple(here), tuple((one, other.told) for one, other in pairs if one != other)
    )


def in_page(group: str, more: Path | None, python: PagePython) -> list[Row]:
    """The rows of `answers.replay`, from the engine of a page."""
    sources = {"answers.py": Path(answers.__file__).read_text(encoding="utf-8")}
    listed = "folder / 'listed.py'" if more else None
    if more:
        sources["listed.py"] = more.read_text(encoding="utf-8")
    python.run(
        "import json, pathlib, sys, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "folder = pathlib.Path('/tmp/replay')\n"
        "folder.mkdir(exist_ok=True)\n"
        f"for name, text in {sources!r}.items():\n"
        "    _ = (folder / name).write_text(text, encoding='utf-8')\n"
        "sys.path.append('/tmp/replay')\n"
        "import answers\n"
        f"rows = answers.replay({group!r}, {listed})\n"
    )
    count = int(python.run("print(len(rows))"))
    found = []
    for start in range(0, count, AT_ONCE):
        found += json.loads(python.run(f"print(json.dumps(rows[{start}:{start + AT_ONCE}]))"))
    return [Row(*row) for row in found]


def replay(names: Sequence[str], engine: str) -> int:
    """Compare some groups, all where none is named; print the table, and each difference."""
    unknown = [name for name in names if name not in groups()]
    if unknown:
        raise SystemExit(f"replay {unknown[0]}: it is one of {', '.join(groups())}")
    found = []
    with python_in_page(engine) as python:
        for group in names or groups():
            found.append(compared(group, python))
            python.restart()
            print(*found[-1].cells(), sep="\t", flush=True)
    differing = [(each.group, *pair) for each in found for pair in each.differing]
    for group, row, told in differing:
        print(f"\n{group}: {row.slug}, {row.which}\n  CPython: {row.told}\n  page:    {told}")
    print(table(found))
    return 1 if differing else 0


def table(found: Sequence[Compared]) -> Table:
    """What was compared, and in how many answers both say the same, word for word."""
    columns = ("of", "exercises", "judged in the page", "verdicts", "same", "only with torch")
    return Table("The same verdicts", columns, tuple(each.cells() for each in found))


def _listed(group: str) -> Path:
    if group[0].isdigit():
        return LISTED / "chapters" / chapter(group).room / f"ch{padded(group)}.py"
    return LISTED / "labs" / f"{group.replace('-', '_')}.py"
