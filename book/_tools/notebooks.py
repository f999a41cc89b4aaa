"""Text notebooks (.md) become executed notebooks (.ipynb), one way, the same bytes every time.

`build` skips a notebook that it has built before from the same text, the same library and the same
recordings; `verify` runs the stored ones again and compares their outputs.

A cell is tagged `live` when its output is the reader's own (timings): it runs, its output is not
stored and not compared. An error that a cell tagged `raises-exception` shows is stored as its
last line, because the frames above it name files of the machine that built the book.
"""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from uuid import UUID

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from book._tools.layout import ROOT, public_address, write_if_new

# What makes an execution repeatable, whoever starts it.
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "SOURCE_DATE_EPOCH": "0",
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
}
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


@dataclass(frozen=True)
class Built:
    """What `build` did for one source."""

    source: Path
    seconds: float
    changed: bool


def digest(*parts: object) -> str:
    """A fingerprint of texts, in hexadecimal."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


# From text to notebook


def convert(source: Path, address: str = "") -> NotebookNode:
    """The notebook of a source, not yet executed: stable cell ids, folded solutions."""
    notebook = jupytext.read(source, fmt="md:myst")
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": LANGUAGE,
            "dtlib": {"source": _source_digest(source, address)},
        }
    )
    if address:
        notebook.cells.insert(0, _install_cell(address))
    _fold_solutions(notebook)
    for cell in notebook.cells:
        if "live" in _tags(cell):
            cell.metadata["tags"] = [*cell.metadata["tags"], "nbval-ignore-output"]
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        text = digest(cell.cell_type, cell.source)
        seen[text] = seen.get(text, 0) + 1
        cell.id = digest(source.stem, text, seen[text])[:8]
    return notebook


def _source_digest(source: Path, address: str) -> str:
    return digest(source.read_text(encoding="utf-8"), address)


def _install_cell(address: str) -> NotebookNode:
    """The first cell of a published notebook, for Colab; it does nothing where dtlib is there."""
    source = (
        "try:\n"
        "    import dtlib\n"
        "except ImportError:  # in Colab: install the book's library, once\n"
        f'    %pip install -q "dtlib[ranks] @ git+{address}"'
    )
    tags = ["remove-cell", "nbval-ignore-output"]
    return nbformat.v4.new_code_cell(source, metadata={"tags": tags})


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
    client = NotebookClient(
        notebook,
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


def build_one(source: Path, address: str = "") -> Built:
    """Execute one source and write the notebook beside it, if anything in it changed."""
    start = time.perf_counter()
    notebook = convert(source, address)
    execute(notebook, source.parent, source.stem)
    text = nbformat.writes(settle(notebook, source.stem)) + "\n"
    changed = write_if_new(source.with_suffix(".ipynb"), text)
    return Built(source, time.perf_counter() - start, changed)


# What changed since


class BuiltBefore:
    """Which notebooks this working tree has built, and from what: a local file, never committed.

    A notebook is current when its text, the library, the recordings and these tools are all as
    they were. A fresh clone knows nothing and builds everything once.
    """

    def __init__(self, root: Path = ROOT):
        self.file = root / ".cache" / "notebooks.json"
        inputs = [*root.glob("dtlib/**/*.*"), *root.glob("book/measurements/*.json")]
        inputs = sorted(p for p in inputs if p.suffix in (".py", ".toml", ".js", ".css", ".json"))
        self._inputs = digest(*(p.read_bytes() for p in inputs), Path(__file__).read_bytes())

    def __contains__(self, source: Path) -> bool:
        ready = source.with_suffix(".ipynb")
        if not ready.exists():
            return False
        return self._known().get(source.stem) == self._state(source, ready)

    def add(self, source: Path) -> None:
        known = self._known() | {source.stem: self._state(source, source.with_suffix(".ipynb"))}
        write_if_new(self.file, json.dumps(known, indent=1, sort_keys=True) + "\n")

    def _state(self, source: Path, ready: Path) -> str:
        return digest(self._inputs, source.read_bytes(), ready.read_bytes())

    def _known(self) -> dict[str, str]:
        return json.loads(self.file.read_text()) if self.file.exists() else {}


def record_status(built: Built, root: Path = ROOT) -> None:
    """Note how long a notebook took, where and with what, beside the book's other recordings."""
    packages = ("numpy", "torch", "matplotlib", "sympy")
    torch = version("torch").partition("+")[0]
    status = {
        "seconds": round(built.seconds, 1),
        "date": date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        "python": platform.python_version(),
        "versions": {name: torch if name == "torch" else version(name) for name in packages},
    }
    file = root / "book/measurements/status" / f"{built.source.stem}.json"
    write_if_new(file, json.dumps(status, indent=1) + "\n")


# Commands


def build(sources: list[Path], *, everything: bool = False, jobs: int = 2) -> bool:
    """Build what changed, two notebooks at a time; whether every one succeeded."""
    address, before = public_address(), BuiltBefore()
    todo = [source for source in sources if everything or source not in before]
    print(f"{len(todo)} of {len(sources)} notebooks to build", flush=True)
    good = True
    with ThreadPoolExecutor(jobs) as pool:
        futures = {source: pool.submit(build_one, source, address) for source in todo}
        for source, future in futures.items():
            try:
                built = future.result()
            except NotebookError as error:
                print(error, file=sys.stderr, flush=True)
                good = False
                continue
            if built.changed or not _status_file(source).exists():
                record_status(built)
            before.add(source)
            told = "built" if built.changed else "as before"
            print(f"  {source.stem}: {told}, {built.seconds:.1f} s", flush=True)
    return good


def _status_file(source: Path) -> Path:
    return ROOT / "book/measurements/status" / f"{source.stem}.json"


def problems(sources: list[Path], address: str) -> list[str]:
    """What `check` finds: notebooks that are missing or that another text was the source of."""
    found = []
    for source in sources:
        ready = source.with_suffix(".ipynb")
        name = ready.name
        if not ready.exists():
            found.append(f"{name} is missing; run: make notebooks")
        elif _stored_digest(ready) != _source_digest(source, address):
            found.append(f"{name} was not built from this {source.name}; run: make notebooks")
    return found


def _stored_digest(notebook: Path) -> str | None:
    metadata = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]
    return metadata.get("dtlib", {}).get("source")


def verify(files: list[Path]) -> int:
    """Run stored notebooks again with nbval and compare their outputs; its exit status."""
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-sanitize-with", str(SANITIZE)]
    command += ["--nbval-cell-timeout", str(CELL_TIMEOUT)]
    command += ["--nbval-kernel-startup-timeout", str(CELL_TIMEOUT)]
    command += ["-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile", *map(str, files)]
    return subprocess.call(command, cwd=ROOT, env={**os.environ, **ENVIRONMENT})
