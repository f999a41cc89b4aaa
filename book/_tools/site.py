"""Build the site from the stored notebooks, from nothing, with every warning an error.

A second build over an old one would not look at unchanged pages again and so pass over what is
wrong in them; a whole build takes seconds, because no notebook is executed.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

from book._engine.build import FOLDER, NO_ENGINE
from book._press import search
from book._tools.layout import ROOT

JUPYTER_BOOK = str(Path(sys.executable).with_name("jupyter-book"))
OPTIONS = ["-W", "-n", "--keep-going", "-q"]


def build() -> int:
    """Build it whole; the exit status."""
    shutil.rmtree(ROOT / "_build", ignore_errors=True)
    return build_on(".")


def build_on(folder: str) -> int:
    """Build what has changed since the last build into a folder, all of it the first time."""
    start = time.perf_counter()
    command = [JUPYTER_BOOK, "build", ".", "--path-output", folder, *OPTIONS]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode:
        print(result.stdout + result.stderr, file=sys.stderr)
        return result.returncode
    built = ROOT / folder / "_build/html"
    pages = sum("_static" not in file.parts for file in built.rglob("*.html"))
    seconds = time.perf_counter() - start
    if not (built / search.FOLDER).is_dir():
        print(search.NO_PAGEFIND)
    if not (built / FOLDER).is_dir():
        print(NO_ENGINE)
    print(f"site: {pages} pages in {seconds:.1f} s, {built.relative_to(ROOT)}/index.html")
    return 0
