"""What the site shows of a page: the book's own text, with the outputs of the stored notebook."""

import json
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from book._tools.notebooks import convert

VIEW = "application/vnd.jupyter.widget-view+json"
DRAWN = ('class="dt-figure', 'class="dt-place', VIEW)  # what an output that is a figure contains


def with_outputs(text: NotebookNode, stored: NotebookNode) -> NotebookNode:
    """The notebook of a text with what was stored of its cells, which are known by their ids."""
    outputs = {cell.id: cell for cell in stored.cells if cell.cell_type == "code"}
    for cell in text.cells:
        if cell.cell_type == "code" and cell.id in outputs:
            cell.outputs = outputs[cell.id].outputs
            cell.execution_count = outputs[cell.id].execution_count
    if "widgets" in stored.metadata:
        text.metadata["widgets"] = stored.metadata["widgets"]
    return text


def page_notebook(source: Path) -> NotebookNode:
    """The notebook that the page of a text is made from; without outputs where none is stored."""
    file = source.with_suffix(".ipynb")
    stored = nbformat.read(file, 4) if file.exists() else nbformat.v4.new_notebook()
    return with_outputs(convert(source), stored)


def fold_what_draws(notebook: NotebookNode) -> None:
    """Fold the code of cells whose output is a figure or a widget, as the page does."""
    for cell in notebook.cells:
        made = json.dumps(cell.get("outputs", [])).replace('\\"', '"')
        if any(mark in made for mark in DRAWN):
            cell.metadata["jupyter"] = {**cell.metadata.get("jupyter", {}), "source_hidden": True}
