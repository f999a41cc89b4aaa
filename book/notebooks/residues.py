"""Markup of the book's tools that a notebook still shows: there must be none."""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

KINDS = {
    "a role": re.compile(r"\{[a-z:]+\}`"),
    "a fence of colons": re.compile(r"^\s*(?:> ?)*:{3,}", re.MULTILINE),
    "a directive": re.compile(r"^\s*(?:> ?)*`{3,}\{|\{(?:exercise|solution)[-\w]*\}", re.MULTILINE),
    "a data element": re.compile(r"</?data\b|<span data-"),
    "a label": re.compile(r"^\([\w-]+\)=", re.MULTILINE),
    "a label of an equation": re.compile(r"\$\$ \([\w-]+\)\s*$", re.MULTILINE),
    "a comment or a block break": re.compile(r"^(?:% |\+\+\+)", re.MULTILINE),
    "an option": re.compile(r"^:[a-z-]+:", re.MULTILINE),
    "a link into the text": re.compile(r"\]\((?:#|/?[\w./-]+\.md|/book/|/chapters/)"),
    "a definition": re.compile(r"^: ", re.MULTILINE),
}
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
OPENED = re.compile(r"(?<!\})`+")  # a role's own backtick is no code


def residues(notebook: NotebookNode) -> Iterator[str]:
    """What is left in the Markdown cells, as 'cell 3: a role, {ref}`'.

    >>> left = nbformat.v4.new_markdown_cell("see {ref}`ch-12`, and `{ref}`")
    >>> list(residues(nbformat.v4.new_notebook(cells=[left])))
    ['cell 0: a role, {ref}`']
    """
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type != "markdown":
            continue
        text = _without_code(cell.source)
        for kind, pattern in KINDS.items():
            for found in pattern.finditer(text):
                yield f"cell {place}: {kind}, {found[0].strip()}"


def _without_code(text: str) -> str:
    """A text without inline code and blocks of code, in which anything may stand."""
    kept, end = [], 0
    while opening := OPENED.search(text, end):
        code = CODE.match(text, opening.start())
        kept.append(text[end : opening.start()])
        if code is None or code[0].startswith("```{"):
            kept.append(opening[0])
            end = opening.end()
        else:
            end = code.end()
    return "".join([*kept, text[end:]])


def problems(files: list[Path]) -> list[str]:
    """What `check` finds: every residue of the stored notebooks, with its file."""
    return [
        f"{file.name}, {residue}"
        for file in files
        if file.exists()
        for residue in residues(nbformat.read(file, 4))
    ]
