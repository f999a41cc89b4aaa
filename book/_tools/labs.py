"""A lab's one source becomes two notebooks: released, for students, and solved, for readers.

A source is `labs/PART/LAB/LAB.md`, a text notebook with nbgrader's cell metadata and its markers
around solutions and hidden tests. The released notebook has a stub in place of each solution, no
hidden test and no output; it is what nbgrader's `generate_assignment` makes, and a test compares
the two. The solved notebook has everything but the markers, executed.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from book._tools import notebooks
from book._tools.layout import write_if_new
from book.notebooks.build import notebook_of

STUBS = {"code": "# YOUR CODE HERE\nraise NotImplementedError()", "markdown": "YOUR ANSWER HERE"}
SOLUTION = "### BEGIN SOLUTION", "### END SOLUTION"
REMEDY = "run: make notebooks"
HIDDEN = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"


class LabError(ValueError):
    """A lab source whose markers do not fit together."""


def released_file(source: Path) -> Path:
    """Where the students' notebook of a lab lies."""
    return source.with_suffix(".ipynb")


def solved_file(source: Path) -> Path:
    """Where the solved notebook of a lab lies."""
    return source.with_name(f"{source.stem}-solved.ipynb")


def files_of(sources: list[Path]) -> list[Path]:
    """The notebooks of pages and labs: of a lab both."""
    both = [
        path for source in sources for path in (source.with_suffix(".ipynb"), solved_file(source))
    ]
    return [path for path in both if path.exists()]


# From source to notebooks


def released(notebook: NotebookNode) -> NotebookNode:
    """The students' notebook: stubs for solutions, no hidden test, no output, tests locked."""
    notebook = deepcopy(notebook)
    for cell in notebook.cells:
        grading = cell.metadata.get("nbgrader", {})
        cell.source = replace_regions(cell.source, HIDDEN, lambda lines: [])
        if grading.get("solution"):
            cell.source = _with_stub(cell)
        if grading.get("locked"):
            cell.metadata |= {"editable": False, "deletable": False}
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def solved(notebook: NotebookNode) -> NotebookNode:
    """The whole notebook without its markers, not yet executed."""
    notebook = deepcopy(notebook)
    for cell in notebook.cells:
        for markers in (SOLUTION, HIDDEN):
            cell.source = replace_regions(cell.source, markers, lambda lines: lines)
    return notebook


def replace_regions(
    text: str, markers: tuple[str, str], replacement: Callable[[list[str]], list[str]]
) -> str:
    """Put ``replacement(lines)`` in place of each region, markers included.

    Raises LabError for a marker without its partner.

    >>> text = "a\\n# from\\nb\\n# to\\nc"
    >>> replace_regions(text, ("# from", "# to"), lambda lines: ["-"])
    'a\\n-\\nc'
    """
    return "\n".join(_replaced(text.split("\n"), markers, replacement))


def _replaced(lines: list[str], markers, replacement) -> Iterator[str]:
    begin, end = markers
    region: list[str] | None = None
    for line in lines:
        marker = line.strip()
        if marker in markers and (marker == begin) != (region is None):
            raise LabError(f"{marker!r} has no partner")
        if marker == begin:
            region = []
        elif marker == end:
            yield from replacement(region)
            region = None
        elif region is None:
            yield line
        else:
            region.append(line)
    if region is not None:
        raise LabError(f"{begin!r} has no partner")


def _with_stub(cell: NotebookNode) -> str:
    stub = STUBS[cell.cell_type].split("\n")

    def indented(region: list[str]) -> list[str]:
        first = next((line for line in region if line.strip()), "")
        indent = first[: len(first) - len(first.lstrip())]
        return [indent + line for line in stub]

    text = replace_regions(cell.source, SOLUTION, indented)
    return text if text != cell.source else "\n".join(stub)


def convert(source: Path) -> NotebookNode:
    """The lab as a notebook, with markers: what nbgrader takes as its source."""
    return notebook_of(source)


def _text(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook) + "\n"


# Commands


def build(sources: list[Path]) -> None:
    """Write both notebooks of each lab."""
    for source in sources:
        notebook = convert(source)
        write_if_new(released_file(source), _text(released(notebook)))
        whole = solved(notebook)
        notebooks.execute(whole, source.parent, source.stem)
        write_if_new(solved_file(source), _text(notebooks.settle(whole, source.stem)))
        print(f"  {source.stem}: released and solved")


def problems(sources: list[Path]) -> list[str]:
    """What `check` finds: notebooks that are missing or were made from another source."""
    found = []
    for source in sources:
        notebook = convert(source)
        for file, made in (
            (released_file(source), released(notebook)),
            (solved_file(source), solved(notebook)),
        ):
            if not file.exists():
                found.append(f"{file.name} is missing; {REMEDY}")
            elif _inputs(nbformat.read(file, 4)) != _inputs(made):
                found.append(
                    f"{file.name} was not built from this {source.name}; run: make notebooks"
                )
            elif file == released_file(source) and file.read_text("utf-8") != _text(made):
                found.append(f"{file.name} has been run: it is handed out without outputs")
    return found


def _inputs(notebook: NotebookNode) -> list:
    """All of a notebook but its outputs."""
    cells = [(c.cell_type, c.id, c.source, c.metadata) for c in notebook.cells]
    return [cells, notebook.metadata.get("dtlib")]


def write_course(folder: Path, sources: list[Path]) -> None:
    """Put the labs, with solutions and hidden tests, where nbgrader looks for assignments."""
    for source in sources:
        write_if_new(
            folder / "source" / source.stem / f"{source.stem}.ipynb", _text(convert(source))
        )
    config = folder / "nbgrader_config.py"
    if not config.exists():
        write_if_new(
            config,
            "c = get_config()\n"
            f"c.CourseDirectory.course_id = {folder.resolve().name!r}\n"
            "# Seconds for a cell; nbgrader's own 30 take a busy machine for an endless loop.\n"
            "c.ExecutePreprocessor.timeout = 600\n"
            "c.ExecutePreprocessor.startup_timeout = 600\n",
        )
