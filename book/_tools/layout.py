"""Where the book's files lie, and what kind of file each is."""

import re
from collections.abc import Iterable
from pathlib import Path

import yaml

from dtlib.files import write_whole

ROOT = Path(__file__).resolve().parents[2]

WHEELS = "_downloads"  # where the site has the library's wheel
_CODE_CELL = re.compile(r"^(`{3,}|:{3,})\{code-cell\}", re.MULTILINE)


def notebook_sources(root: Path = ROOT) -> list[Path]:
    """Every text notebook: the chapters, and the pages of book/ that have code cells."""
    chapters = sorted(root.glob("chapters/*/*.md"))
    return chapters + [page for page in sorted(root.glob("book/*.md")) if _has_code_cells(page)]


def pages(root: Path = ROOT) -> list[Path]:
    """Every Markdown source of the site."""
    return sorted([*root.glob("chapters/*/*.md"), *root.glob("book/*.md")])


def lab_sources(root: Path = ROOT) -> list[Path]:
    """The source of every lab: the text notebook that is called as its folder."""
    return [f for f in sorted(root.glob("labs/*/*/*.md")) if f.stem == f.parent.name]


def public_address(root: Path = ROOT) -> str:
    """The address of the repository, the one setting `repository.url` in _config.yml, or ''."""
    return (_config(root)["repository"]["url"] or "").rstrip("/")


def site_branch(root: Path = ROOT) -> str:
    """The branch of the repository from which the built site is served."""
    return _config(root)["repository"]["site_branch"]


def site_address(root: Path = ROOT) -> str:
    """The address of the site, `html.baseurl` in _config.yml, with a slash at its end, or ''."""
    return with_slash(_config(root)["html"]["baseurl"])


def with_slash(address: str | None) -> str:
    """An address of a site as links continue it, or '' where there is none.

    >>> with_slash("https://a.org/book"), with_slash("https://a.org/"), with_slash(None)
    ('https://a.org/book/', 'https://a.org/', '')
    """
    return f"{address.rstrip('/')}/" if address else ""


def _config(root: Path) -> dict:
    return yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))


def select(names: Iterable[str], sources: list[Path]) -> list[Path]:
    """The sources with these names, numbers or files; all of them when none is given.

    Raises SystemExit that lists the sources for another name.
    """
    known = {name: source for source in sources for name in _names(source)}
    chosen = []
    for name in names:
        spellings = (name, name.lstrip("0"), str(Path(name).resolve()))
        source = next((known[one] for one in spellings if one in known), None)
        if source is None:
            stems = ", ".join(source.stem for source in sources)
            raise SystemExit(f"no source is called {name!r}; there are {stems}")
        chosen.append(source)
    return chosen or sources


def _names(source: Path) -> list[str]:
    number = source.stem.partition("-")[0].lstrip("0")
    return [source.stem, str(source), *([number] if number[:1].isdecimal() else [])]


def line_of(text: str, position: int) -> int:
    """The line, counted from 1, of a position in a text."""
    return text.count("\n", 0, position) + 1


def write_if_new(path: Path, text: str) -> bool:
    """Write a whole file at once, unless it already holds this text; whether it was written."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    write_whole(path, text)
    return True


def _has_code_cells(page: Path) -> bool:
    return bool(_CODE_CELL.search(page.read_text(encoding="utf-8")))
