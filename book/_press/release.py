"""An edition to give away: the library's wheel, the site, the book on paper, and their checksums.

The version stands in one place, `dtlib.__version__`; the changelog and CITATION.cff name it.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from book._press import pdf
from book._tools import browser
from book._tools.layout import ROOT
from book._tools.listings.lab_archive import zipped
from book._tools.listings.library import library_wheel
from dtlib import __version__

BOOK = "the-algebra-of-distributed-training"
SUMS = "SHA256SUMS"
CHANGES = re.compile(r"^## (\S+)", re.MULTILINE)


def problems(root: Path = ROOT) -> Iterator[str]:
    """Where another version is named than the library's."""
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))["version"]
    if cited != __version__:
        yield f"CITATION.cff: version {cited}, but dtlib.__version__ is {__version__}"
    newest = CHANGES.search((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    told = newest[1].rstrip(",") if newest else "none"
    if told != __version__:
        yield f"CHANGELOG.md: its first edition is {told}, but dtlib.__version__ is {__version__}"


def write(site: Path, folder: Path) -> Iterator[str]:
    """Write all files into a folder; a line for each.

    Raises SystemExit where there is no built site, or where versions differ.
    """
    if not (site / "index.html").is_file():
        raise SystemExit(f"{site}: there is no built site; build one with: make site")
    if wrong := list(problems()):
        raise SystemExit("\n".join(wrong))
    folder.mkdir(parents=True, exist_ok=True)
    named, wheel = f"{BOOK}-{__version__}", library_wheel()
    (folder / wheel.name).write_bytes(wheel.content)
    (folder / f"{named}.zip").write_bytes(zipped(named, files_of(site)))
    with browser.running() as chromium:
        pdf.write(chromium, site, folder / f"{named}.pdf", pdf.book())
    sums = checksums(folder)
    (folder / SUMS).write_text(sums, encoding="utf-8")
    yield from sums.splitlines()


def files_of(site: Path) -> dict[str, bytes]:
    """All files of a folder, by their names in it."""
    found = (file for file in site.rglob("*") if file.is_file())
    return {file.relative_to(site).as_posix(): file.read_bytes() for file in found}


def checksums(folder: Path) -> str:
    """A line for each file but the sums themselves, as `sha256sum --check` reads it."""
    files = sorted(file for file in folder.iterdir() if file.name != SUMS)
    return "".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in files)
