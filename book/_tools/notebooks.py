"""A text (.md) becomes a notebook and is run, the same bytes every time; `verify` runs it again.

A cell is tagged `live` when its output is the reader's own (timings): it runs, its output is not
stored and not compared. An error that a cell tagged `raises-exception` shows is stored as its
last line, because the frames above it name files of the machine that built the book.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from copy import deepcopy
from functools import cache
from pathlib import Path
from uuid import UUID

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from book._tools.layout import ROOT
from book.kernels import named_sockets

# What makes an execution repeatable, whoever starts it.
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "SOURCE_DATE_EPOCH": "0",
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
}
MACHINE = "%load_ext dtlib"  # says what this machine has
CELL_TIMEOUT = 1800  # seconds, against hanging: a busy machine is slow
LANGUAGE = {
    "name": "python",
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "codemirror_mode": {"name": "ipython", "version": 3},
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}
WIDGETS = "application/vnd.jupyter.widget-state+json"
RANDOM_ID = re.compile(
    r"(?<![0-9a-f])(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9a-f])"
)
SANITIZE = ROOT / "tests/book/nbval_sanitize.cfg"


class NotebookError(RuntimeError):
    """A notebook that cannot be stored: says which file and cell, and what is wrong with it."""


def digest(*parts: object) -> str:
    """A fingerprint of texts, in hexadecimal."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


# From text to notebook


def convert(source: Path) -> NotebookNode:
    """The notebook of a source, not yet executed: stable cell ids, folded solutions."""
    return deepcopy(_converted(source, source.read_text(encoding="utf-8")))


@cache
def _converted(source: Path, text: str) -> NotebookNode:
    """The same for the same text, which several tools of a process ask for."""
    notebook = jupytext.read(source, fmt="md:myst")
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": LANGUAGE,
            "dtlib": {"source": source_digest(source)},
        }
    )
    _fold_solutions(notebook)
    for cell in notebook.cells:
        if "live" in _tags(cell) or cell.source.startswith(MACHINE):
            cell.metadata["tags"] = sorted({*_tags(cell), "live", "nbval-ignore-output"})
    name_cells(notebook.cells, source.stem)
    return notebook


def name_cells(cells: list[NotebookNode], name: str) -> None:
    """Give cells ids that come from their text, and from ``name``; equal ones are counted."""
    seen: dict[str, int] = {}
    for cell in cells:
        text = digest(cell.cell_type, cell.source)
        seen[text] = seen.get(text, 0) + 1
        cell.id = digest(name, text, seen[text])[:8]


def source_digest(source: Path) -> str:
    """What the text of a notebook was."""
    return digest(source.read_text(encoding="utf-8"))


def _fold_solutions(notebook: NotebookNode) -> None:
    """Fold the cells between solution-start and solution-end in JupyterLab and in Colab."""
    inside = False
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            start, end = cell.source.rfind("{solution-start}"), cell.source.rfind("{solution-end}")
            inside = start > end or (inside and end < 0)
        elif inside:
            cell.metadata["jupyter"] = {"source_hidden": True, "outputs_hidden": True}
            cell.metadata["cellView"] = "form"


def _tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


# Execution


def execute(notebook: NotebookNode, folder: Path, name: str) -> None:
    """Run every cell in a fresh kernel that starts in `folder`."""
    with named_sockets() as config:
        client = NotebookClient(
            notebook,
            config=config,
            timeout=CELL_TIMEOUT,
            startup_timeout=CELL_TIMEOUT,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": str(folder)}},
        )
        try:
            client.execute(env={**os.environ, **ENVIRONMENT})
        except CellExecutionError as error:
            raise NotebookError(f"{name}: a cell failed\n{error}") from None
    notebook.metadata["language_info"] = nbformat.from_dict(LANGUAGE)


def settle(notebook: NotebookNode, name: str) -> NotebookNode:
    """The executed notebook without anything that differs from run to run or names a machine.

    Raises NotebookError when an output shows a path of this machine or went to stderr.
    """
    for number, cell in enumerate(notebook.cells):
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        if "live" in _tags(cell):
            cell.outputs, cell.execution_count = [], None
        for output in cell.outputs:
            _settle_output(output, f"{name}, cell {number}")
    return _settle_ids(notebook, name)


def _settle_output(output: NotebookNode, place: str) -> None:
    if output.output_type == "error":
        message = "\n".join(output.traceback[-1:]) or f"{output.ename}: {output.evalue}"
        output.traceback = [message]
    if output.output_type == "stream" and output.name == "stderr":
        raise NotebookError(f"{place} wrote to stderr:\n{output.text}")
    for home in {str(ROOT), str(Path.home()), sys.prefix} - {"/"}:
        if re.search(re.escape(home) + r"(?![\w-])", json.dumps(output)):
            raise NotebookError(f"{place}: an output names {home}, a path of this machine")


def _settle_ids(notebook: NotebookNode, name: str) -> NotebookNode:
    """Number the random ids of widgets and charts in the order in which they appear."""
    keep = notebook.metadata.pop("dtlib")
    order: dict[str, int] = {}

    def meet(found: object) -> list[str]:
        ids = RANDOM_ID.findall(json.dumps(found, sort_keys=True))
        fresh = [identity for identity in dict.fromkeys(ids) if identity not in order]
        order.update({identity: len(order) + i for i, identity in enumerate(fresh)})
        return fresh

    state = notebook.metadata.get("widgets", {}).get(WIDGETS, {}).get("state", {})
    shown = meet([cell.get("outputs", []) for cell in notebook.cells])
    waiting = [identity for identity in shown if identity in state]
    while waiting:
        waiting += [i for i in meet(state[waiting.pop(0)]) if i in state]
    for model in [model for model in state if model not in order]:
        del state[model]

    def settled(match: re.Match) -> str:
        if match.group() not in order:
            return match.group()
        fixed = digest(name, "id", order[match.group()])[:32]
        return str(UUID(fixed)) if "-" in match.group() else fixed

    notebook = nbformat.reads(RANDOM_ID.sub(settled, nbformat.writes(notebook)), 4)
    if state:
        models = notebook.metadata["widgets"][WIDGETS]["state"]
        notebook.metadata["widgets"][WIDGETS]["state"] = dict(sorted(models.items()))
    else:
        notebook.metadata.pop("widgets", None)
    notebook.metadata["dtlib"] = keep
    return notebook


# Again


def verify(files: list[Path]) -> int:
    """Run stored notebooks again with nbval and compare their outputs; its exit status."""
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-sanitize-with", str(SANITIZE)]
    command += ["--nbval-cell-timeout", str(CELL_TIMEOUT)]
    command += ["--nbval-kernel-startup-timeout", str(CELL_TIMEOUT)]
    command += [
        "-p",
        "book.kernels",
        "-p",
        "no:cacheprovider",
        "-n",
        "2",
        "--dist",
        "loadfile",
        *map(str, files),
    ]
    return subprocess.call(command, cwd=ROOT, env={**os.environ, **ENVIRONMENT})
