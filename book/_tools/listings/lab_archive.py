"""A lab or a page as one zip that runs: its files, the library of this edition, and how to begin.

The same files give the same bytes, whenever and wherever it is made.
"""

import io
import tomllib
from functools import cache
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from book._tools.layout import ROOT

LIBRARY = ("pyproject.toml", "README.md", "LICENSE", "dtlib", "book/measurements")
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
    library = f"dtlib-{_version(root)}.zip"
    start = {
        "START.md": START.format(name=name).encode(),
        "requirements.txt": requirements(root, library).encode(),
        library: library_archive(root),
    }
    return zipped(name, start | files)


@cache
def library_archive(root: Path = ROOT) -> bytes:
    """The library as pip installs it, the same in every zip."""
    found = {}
    for place in LIBRARY:
        found |= _files(root / place, root)
    return zipped(f"dtlib-{_version(root)}", found)


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
            info.compress_type = ZIP_STORED if name.endswith(".zip") else ZIP_DEFLATED
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


def _version(root: Path) -> str:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
