"""The code cells of a page as they stand in its source, and what the book stores of each."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from book._tools.notebooks import convert
from book.cells.needs import Cell, Names, Step
from book.notebooks.stubs import exercise_text, stub
from dtlib.contents import chapters
from dtlib.exercises.declarations.on_page import asked_on_page
from dtlib.exercises.manifest import exercises_of

COLOURS = re.compile(r"\x1b\[[\d;]*m")
SOLUTION = re.compile(r"\{solution-(start|end)\} ?(ex-[\w-]+)?")
FIGURE = re.compile(r"<svg|dt-figure|dt-place")
WIDGET = "application/vnd.jupyter.widget-view+json"


@cache
def names_of(source: Path) -> Names:
    """The cells of a page and the statements in them."""
    found, slug = [], ""
    for cell in convert(source).cells:
        if cell.cell_type == "code":
            found.append(Cell(cell.id, cell.source, slug, tuple(cell.metadata.get("tags", ()))))
        for start, begun in SOLUTION.findall(cell.source):
            slug = begun if start == "start" else ""
    return Names(tuple(found))


def exercises(source: Path) -> Iterator[tuple[str, str]]:
    """The code exercises of a chapter: the slug of each, and what its reader begins with."""
    number = next((c.number for c in chapters() if c.page.endswith(f"/{source.stem}")), "")
    for exercise in exercises_of(number):
        if asked_on_page(exercise.declaration)["kind"] == "code":
            text = exercise_text(source, exercise.slug)
            yield exercise.slug, stub(text, exercise.declaration).code


def before_exercise(names: Names, slug: str, code: str) -> list[Step]:
    """What an exercise takes from the page, of the names in its stub and in its solution."""
    solution = [step for step in names.steps if step.solves == slug]
    place = solution[0].place if solution else len(names.steps)
    used = "\n".join([code, *(step.what.text for step in solution)])
    return names.for_code(used, place)


def stored(source: Path) -> dict[str, list[dict]]:
    """The outputs that the notebook beside a source holds, by cell."""
    notebook = json.loads(source.with_suffix(".ipynb").read_text(encoding="utf-8"))
    return {c["id"]: c["outputs"] for c in notebook["cells"] if c["cell_type"] == "code"}


def printed(outputs: list[dict]) -> str:
    """What outputs say in plain text: what was printed, the value, the last line of an error.

    >>> printed([{"output_type": "stream", "text": ["a\\n"]}])
    'a\\n'
    """
    return "".join(map(_printed, outputs))


def _printed(output: dict) -> str:
    if output["output_type"] == "stream":
        return "".join(output["text"])
    if output["output_type"] == "error":
        return COLOURS.sub("", "\n".join(output["traceback"]))
    return "".join(output["data"].get("text/plain", ""))


def is_shown(cell: Cell, outputs: list[dict]) -> bool:
    """Whether a cell is there for what stands below it: a figure, a widget, a listing, the head."""
    if {"remove-input", "remove-cell"} & set(cell.tags):
        return True
    data = [output["data"] for output in outputs if "data" in output]
    drawn = any(WIDGET in one or FIGURE.search("".join(one.get("text/html", ""))) for one in data)
    listing = any("text/markdown" in one and "text/html" not in one for one in data)
    return drawn or listing


def texts(steps: list[Step]) -> list[str]:
    return [step.what.text for step in steps]
