"""A lab or a page as one zip that runs: its files, the library of this edition, and how to begin.

The same files give the same bytes, whenever it is made.
"""

import io
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import nbformat

from book._tools.layout import ROOT
from book._tools.listings.library import library_wheel
from book.notebooks.first_cell import taken_along

LEFT_OUT = {"__pycache__", ".ipynb_checkpoints", "node_modules"}
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first day that a zip can name
MODE = 0o644 << 16
START = """# Start here

Python 3.11 or later, on Linux or macOS (Windows through WSL). In this folder:

    python3 -m venv .venv && source .venv/bin/activate
    pip install -r requirements.txt
    jupyter lab {name}.ipynb

`python -m dtlib doctor` says what this machine offers. README.md has the rest.
"""


def archive(source: Path, root: Path = ROOT) -> bytes:
    """The zip of the lab with this source."""
    return _with_library(source.stem, _files(source.parent, source.parent), root)


def page_archive(notebook: Path, root: Path = ROOT) -> bytes:
    """The zip of a page that is a notebook."""
    return _with_library(notebook.stem, _files(notebook, notebook.parent), root)


def _with_library(name: str, files: dict[str, bytes], root: Path) -> bytes:
    wheel = library_wheel(root)
    start = {
        "START.md": START.format(name=name).encode(),
        "requirements.txt": requirements(root, wheel.name).encode(),
        wheel.name: wheel.content,
    }
    return zipped(
        name, start | {file: _with_first_cell(file, text) for file, text in files.items()}
    )


def _with_first_cell(name: str, content: bytes) -> bytes:
    if not name.endswith(".ipynb"):
        return content
    notebook = nbformat.reads(content.decode(), 4)
    return (nbformat.writes(taken_along(notebook, library_wheel())) + "\n").encode()


def requirements(root: Path, library: str) -> str:
    """The library with what ranks need, and the JupyterLab that the book is written with."""
    lines = (root / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return "\n".join([f"./{library}[ranks]", *(s for s in lines if s.startswith("jupyterlab")), ""])


def zipped(folder: str, files: dict[str, bytes]) -> bytes:
    """Files by their names, in one folder of a zip."""
    held = io.BytesIO()
    with ZipFile(held, "w") as made:
        for name, content in sorted(files.items()):
            info = ZipInfo(f"{folder}/{name}", EPOCH)
            info.compress_type = ZIP_STORED if name.endswith(".whl") else ZIP_DEFLATED
            info.external_attr = MODE
            made.writestr(info, content)
    return held.getvalue()


def _files(place: Path, root: Path) -> dict[str, bytes]:
    """The files of a folder, or one file, by their names below ``root``."""
    found = [place] if place.is_file() else place.rglob("*")
    return {
        file.relative_to(root).as_posix(): file.read_bytes()
        for file in found
        if file.is_file() and not LEFT_OUT & set(file.parts) and not file.name.startswith(".")
    }
