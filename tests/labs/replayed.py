"""nbgrader's autograder, with outputs that are there instead of a second run of the same cells."""

import nbformat
from nbgrader.converters import Autograde
from nbgrader.preprocessors import Execute

from book._tools import labs
from book._tools.layout import lab_sources, select


class Replayed(Execute):
    """A solved notebook gets the outputs that step "notebooks" compares; others are run.

    Raises ValueError when it is not, cell by cell, the one that was run.
    """

    def preprocess(self, nb, resources, retries=None):
        if resources["nbgrader"]["student"] != "diligent":
            return super().preprocess(nb, resources, retries)
        (source,) = select([resources["nbgrader"]["assignment"]], lab_sources())
        replay(nb, nbformat.read(labs.solved_file(source), 4))
        return nb, resources


def replay(notebook, ran) -> None:
    """Put the outputs of the notebook that was run into the one that would be.

    Its tests come from the lab's source, with the markers of those that are hidden: comments.
    """
    for number, (cell, other) in enumerate(zip(notebook.cells, ran.cells, strict=True)):
        source = labs.replace_regions(cell.source, labs.HIDDEN, lambda lines: lines)
        if (cell.cell_type, source) != (other.cell_type, other.source):
            raise ValueError(f"cell {number} is not the one that was run")
        if "nbval-ignore-output" in other.metadata.get("tags", []) and graded(cell):
            raise ValueError(f"cell {number} is graded, and nobody compares its output")
        if cell.cell_type == "code":
            cell.outputs = other.outputs


def graded(cell) -> bool:
    """Whether nbgrader gives marks for what a cell does."""
    return cell.metadata.get("nbgrader", {}).get("grade", False)


def grades_from_outputs(config) -> None:
    """Let a course's `autograde` take the outputs of the solved notebooks from where they are."""
    steps = Autograde().autograde_preprocessors
    config.Autograde.autograde_preprocessors = [
        Replayed if step is Execute else step for step in steps
    ]
