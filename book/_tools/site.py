"""Build the site from the stored notebooks, from nothing, with every warning an error.

    python -m book._tools.site

A second build over an old one would not look at unchanged pages again and so pass over what is
wrong in them; a whole build takes seconds, because no notebook is executed.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

from book._tools.layout import ROOT

JUPYTER_BOOK = str(Path(sys.executable).with_name("jupyter-book"))
OPTIONS = ["-W", "-n", "--keep-going", "-q"]


def main() -> int:
    start = time.perf_counter()
    shutil.rmtree(ROOT / "_build", ignore_errors=True)
    result = subprocess.run(
        [JUPYTER_BOOK, "build", ".", *OPTIONS], cwd=ROOT, capture_output=True, text=True
    )
    if result.returncode:
        print(result.stdout + result.stderr, file=sys.stderr)
        return result.returncode
    files = (ROOT / "_build/html").rglob("*.html")
    pages = sum("_static" not in file.parts for file in files)
    print(f"site: {pages} pages in {time.perf_counter() - start:.1f} s, _build/html/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
