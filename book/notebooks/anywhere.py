"""Notebooks where nothing of the book is: a fresh environment, the file, and a copy of the site."""

import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterable
from pathlib import Path

import nbformat

from book._tools.labs import solved_file
from book._tools.layout import ROOT, lab_sources
from book._tools.listings.library import library_wheel
from book.notebooks.first_cell import taken_along

COLAB = ROOT / "book/colab.txt"
NEEDS = ("nbclient", "ipykernel", "pip")  # what a place that runs notebooks has
RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=1800, kernel_name="python3").execute()
"""
LAST = 1500  # characters of an error that are shown


class Place:
    """An environment without the book."""

    def __init__(self, folder: Path):
        """Make it, with nothing in it."""
        venv.create(folder, symlinks=True)
        self.folder = folder
        self.python = folder / "bin/python"

    def install(self, *wanted: str) -> None:
        """Packages from the index, by the pip that runs this."""
        command = [sys.executable, "-m", "pip", "--python", self.python, "install", "--quiet"]
        subprocess.run([*command, *wanted], check=True)

    def borrow(self) -> None:
        """Links to all that is installed here, but for the book's own library."""
        own = Path(sysconfig.get_path("purelib", vars={"base": self.folder}))
        for there in Path(sysconfig.get_path("purelib")).iterdir():
            if "dtlib" not in there.name:
                (own / there.name).symlink_to(there)

    def run(self, notebook: Path, site: str) -> str:
        """Run a notebook in the folder where it lies: '', or what failed."""
        done = subprocess.run(
            [self.python, "-P", "-c", RUN, notebook],
            cwd=notebook.parent,
            env=os.environ | {"DTLIB_SITE": site, "PYTHONPATH": ""},
            capture_output=True,
            text=True,
        )
        return done.stderr[-LAST:] if done.returncode else ""


def notebook_of(source: Path, site: Path) -> nbformat.NotebookNode:
    """What a reader takes along: a page's notebook as the site has it; of a lab the solved one."""
    if source in lab_sources():
        return taken_along(nbformat.read(solved_file(source), 4), library_wheel())
    return nbformat.read(site / "_sources" / source.relative_to(ROOT).with_suffix(".ipynb"), 4)


def run_all(sources: Iterable[Path], site: Path, address: str, colab: bool = False) -> int:
    """Each in a folder of its own, in one fresh environment; the exit status."""
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        place = Place(Path(made, "python"))
        place.install(*NEEDS, *(["-r", str(COLAB)] if colab else []))
        for source in sources:
            file = Path(made, source.stem, f"{source.stem}.ipynb")
            file.parent.mkdir()
            nbformat.write(notebook_of(source, site), file)
            start = time.perf_counter()
            error = place.run(file, address)
            failed += bool(error)
            told = f"failed\n{error}" if error else f"{time.perf_counter() - start:.1f} s"
            print(f"  {source.stem}: {told}", flush=True)
    return min(failed, 1)
