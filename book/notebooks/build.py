"""Notebooks are written where something changed: converted, run, stored; and found stale.

`build` skips a notebook that it has built before from the same text, the same library and the same
recordings.
"""

import json
import os
import platform
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from book._tools import notebooks
from book._tools.layout import ROOT, write_if_new
from book._tools.notebooks import NotebookError, digest
from book.notebooks.pages import fold_what_draws
from book.notebooks.plain import plain


@dataclass(frozen=True)
class Built:
    """What `build` did for one source."""

    source: Path
    seconds: float
    changed: bool


def notebook_of(source: Path) -> NotebookNode:
    """The notebook of a source as a reader opens it, not yet run."""
    return plain(notebooks.convert(source), source)


def build_one(source: Path) -> Built:
    """Execute one source and write the notebook beside it, if anything in it changed."""
    start = time.perf_counter()
    notebook = notebook_of(source)
    notebooks.execute(notebook, source.parent, source.stem)
    settled = notebooks.settle(notebook, source.stem)
    fold_what_draws(settled)
    text = nbformat.writes(settled) + "\n"
    changed = write_if_new(source.with_suffix(".ipynb"), text)
    return Built(source, time.perf_counter() - start, changed)


# What changed since

TOOLS = [Path(notebooks.__file__), *sorted(Path(__file__).parent.glob("*.py"))]


class BuiltBefore:
    """Which notebooks this working tree has built, and from what: a local file, never committed.

    A notebook is current when its text, the library, the recordings and these tools are all as
    they were. A fresh clone knows nothing and builds everything once.
    """

    def __init__(self, root: Path = ROOT):
        self.file = root / ".cache" / "notebooks.json"
        inputs = [*root.glob("dtlib/**/*.*"), *root.glob("book/measurements/*.json")]
        inputs = sorted(p for p in inputs if p.suffix in (".py", ".toml", ".js", ".css", ".json"))
        self._inputs = digest(*(p.read_bytes() for p in [*inputs, *TOOLS]))

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
    before = BuiltBefore()
    todo = [source for source in sources if everything or source not in before]
    print(f"{len(todo)} of {len(sources)} notebooks to build", flush=True)
    good = True
    with ThreadPoolExecutor(jobs) as pool:
        futures = {source: pool.submit(build_one, source) for source in todo}
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


def problems(sources: list[Path]) -> list[str]:
    """What `check` finds: notebooks that are missing or that another text was the source of."""
    found = []
    for source in sources:
        ready = source.with_suffix(".ipynb")
        name = ready.name
        if not ready.exists():
            found.append(f"{name} is missing; run: make notebooks")
        elif _inputs(nbformat.read(ready, 4)) != _inputs(notebook_of(source)):
            found.append(f"{name} was not built from this {source.name}; run: make notebooks")
    return found


def _inputs(notebook: NotebookNode) -> list:
    """All of a notebook but what its cells put out, and what was folded because of it."""
    return [
        notebook.metadata.get("dtlib"),
        *((c.cell_type, c.id, c.source) for c in notebook.cells),
    ]
