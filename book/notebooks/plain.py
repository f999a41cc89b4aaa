"""The notebook that a reader opens: words instead of markup, exercises as cells.

It is made from the notebook of the book's own text (`book._tools.notebooks.convert`), whose code
cells keep their ids.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from book._tools.layout import ROOT
from book._tools.notebooks import name_cells
from book.notebooks import cells as made
from book.notebooks import sources
from book.notebooks.boxes import Box, opened, parts, quoted, shown
from book.notebooks.stubs import Stub, exercise_text, stub
from book.notebooks.words import Words
from dtlib.contents import Chapter, chapters
from dtlib.exercises.declarations.question import pauses_of, questions_of
from dtlib.exercises.manifest import Exercise, exercises_of

CHECKED = re.compile(r"^```python\n(?:(?!^```).)*?^check\((?:(?!^```).)*^```$\n?", re.M | re.S)
CLAIMS = re.compile(r"^## Claims\n+(.*)\Z", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r"\A# (.+)$", re.MULTILINE)
EXERCISES = re.compile(r"^(?=## Exercises$)", re.MULTILINE)
RUN = (
    "Run the cells from top to bottom in a Python that has the book's library: in the book's "
    "repository `make lab` opens one in JupyterLab, and `pip install '.[ranks]'` adds the library "
    "to one of your own."
)
RANKS = "Ranks are processes on this machine, which the cells start."


def plain(notebook: NotebookNode, source: Path) -> NotebookNode:
    """The notebook without markup: how to run it first, what it cites last.

    Arguments: ``notebook``, what `convert` made of ``source``, a chapter, a page or a lab.
    Raises ValueError for markup that has no words, with the page and the markup.
    """
    writer = _Writer(source)
    for cell in notebook.cells:
        writer.add(cell)
    writer.finish()
    text = {id(cell) for cell in notebook.cells}
    name_cells([cell for cell in writer.cells if id(cell) not in text], f"{source.stem}, plain")
    notebook.cells = writer.cells
    notebook.metadata["dtlib"]["text"] = source.name
    return notebook


def running(chapter: Chapter | None) -> str:
    """How a notebook is run, in words: what it needs, how long it takes."""
    if chapter is None:
        return f"{RUN} {RANKS}"
    gpu = "no GPU is needed" if chapter.hardware == "CPU" else f"hardware: {chapter.hardware}"
    return f"{RUN} {RANKS[:-1]}; {gpu}, and reading takes about {chapter.minutes} minutes."


class _Writer:
    """Cells of the plain notebook, as the cells of the text come in."""

    def __init__(self, source: Path):
        self.source = source
        page = source.with_suffix("")
        self.chapter = next((one for one in chapters() if ROOT / one.page == page), None)
        number = self.chapter.number if self.chapter else ""
        self.exercises = {one.slug: one for one in exercises_of(number)}
        self.questions = questions_of(number) if self.chapter else ()
        self.pauses = [one.slug for one in pauses_of(number)] if self.chapter else []
        self.words = Words(source)
        self.cells: list[NotebookNode] = []
        self.waiting: list[str] = []
        self.doing: Exercise | None = None  # the exercise whose statement we are in
        self.done_here = False  # whether a cell of the page is the one to be repaired
        self.solving = False

    def add(self, cell: NotebookNode) -> None:
        if cell.cell_type == "code":
            self._flush()
            self._add_code(cell)
        elif cell.cell_type != "markdown" or cell.metadata.get("nbgrader"):
            self._flush()
            cell.source = shown(self.words.plain(cell.source))
            self.cells.append(cell)
        else:
            for part in parts(self.words.plain(cell.source)):
                self._add_box(part) if isinstance(part, Box) else self._add_text(part)
            self._flush()

    def finish(self) -> None:
        """The sources come last."""
        cited = sorted(self.words.cited, key=sources.sorting)
        if cited:
            listed = "\n".join(f"- {one}" for one in sources.in_full(cited))
            self.cells.append(new_markdown_cell(f"## Sources\n\n{listed}"))

    def _add_code(self, cell: NotebookNode) -> None:
        if {"remove-input", "hide-input"} & set(cell.metadata.get("tags", [])):
            cell.metadata["jupyter"] = {**cell.metadata.get("jupyter", {}), **made.HIDDEN}
        if self.doing:
            answer = self._stub(self.doing).answer
            if made.defines(cell.source, made.names_in(answer)):
                made.mark_as_stub(cell, self.doing.slug)
                self.done_here = True
        self.cells.append(cell)

    def _add_text(self, text: str) -> None:
        if not self.cells and not self.waiting:
            text = TITLE.sub(self._beginning, text)
        text = CLAIMS.sub(_evidence, shown(text))
        before, *exercises = EXERCISES.split(text, maxsplit=1)
        self.waiting.append(before.strip("\n"))
        if exercises:
            self._flush()
            self.cells += made.question_cells(self.questions)
            self.waiting += exercises

    def _beginning(self, title: re.Match) -> str:
        number = f"{self.chapter.number} · " if self.chapter else ""
        return f"# {number}{title[1]}\n\n*{running(self.chapter)}*"

    def _add_box(self, box: Box) -> None:
        match box.kind:
            case "exercise" | "exercise-start":
                self._begin(box)
                if box.kind == "exercise":
                    self._judge()
            case "exercise-end":
                self._judge()
            case "solution-start":
                self._flush()
                self.solving = True
            case "solution-end":
                self._flush()
                self.solving = False
            case "pause":
                self._flush()
                self.cells += self._pause(box.title)
            case _:
                self.waiting.append(quoted(box))

    def _pause(self, slug: str) -> Iterator[NotebookNode]:
        if slug not in self.pauses:
            raise ValueError(f"{self.source.name}: no pause is declared as {slug!r}")
        place = self.pauses.index(slug)
        return made.pause_cells(pauses_of(self.chapter.number)[place], place + 1)

    def _begin(self, box: Box) -> None:
        """The statement of an exercise is a cell; its call of `check` is a cell of its own."""
        self._flush()
        label = box.options["label"]
        if label not in self.exercises:
            raise ValueError(f"{self.source.name}: no exercise is declared as {label!r}")
        exercise = self.doing = self.exercises[label]
        self.done_here = False
        statement = shown(CHECKED.sub("", box.body))
        self.waiting.append(f"### Exercise {exercise.label} · {box.title}\n\n{statement}".strip())

    def _judge(self) -> None:
        self._flush()
        exercise = self.doing
        stub, *judge = made.stub_cells(self._stub(exercise), exercise.label, exercise.slug)
        self.cells += judge if self.done_here else [stub, *judge]
        self.doing = None

    def _stub(self, exercise: Exercise) -> Stub:
        return stub(exercise_text(self.source, exercise.slug), exercise.declaration)

    def _flush(self) -> None:
        text = "\n\n".join(text for text in self.waiting if text)
        self.waiting = []
        if self.doing:
            text = CHECKED.sub("", text).strip("\n")
        if text:
            self.cells.append(new_markdown_cell(opened("Solution", text) if self.solving else text))


def _evidence(found: re.Match) -> str:
    return f"## Claims\n\n{opened('Each claim, with the test that holds it', found[1])}"
