"""What the labels of the book are called in words: 'Chapter 12', 'Theorem 12.1', '(12.4)'.

The numbers are those of the site: a chapter's is in its file name; its equations and its theorems
are counted in the order of the page, its exercises in the order of their declarations.
"""

import re
from functools import cache
from pathlib import Path

from book._tools.layout import ROOT, pages
from dtlib.contents import chapters
from dtlib.exercises.manifest import exercises_of

HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
EQUATION = re.compile(r"^\$\$ \((eq-[\w-]+)\)$", re.MULTILINE)
THEOREM = re.compile(r"^:::+\{prf:(\w+)\}[^\n]*\n:label: (\S+)$", re.MULTILINE)
SECTION = re.compile(r"^\(([\w-]+)\)=\n+#+ +(.+)$", re.MULTILINE)


@cache
def names() -> dict[str, str]:
    """Every label of the book and what it is called.

    >>> names()["ch-13a"], names()["thm-all-reduce-bytes"], names()["eq-ring-all-reduce-time"]
    ('Chapter 13a', 'Theorem 12.2', '12.2')
    """
    known = {f"ch-{chapter.number}": f"Chapter {chapter.number}" for chapter in chapters()}
    for page in pages():
        known |= dict(SECTION.findall(page.read_text(encoding="utf-8")))
    for chapter in chapters():
        if (ROOT / f"{chapter.page}.md").exists():
            text = (ROOT / f"{chapter.page}.md").read_text(encoding="utf-8")
            known |= numbered(text, chapter.number)
            known |= {one.slug: one.label for one in exercises_of(chapter.number)}
    return known


def numbered(text: str, chapter: str) -> dict[str, str]:
    """The equations and theorems of a chapter's text, by label.

    >>> numbered("$$ (eq-a)\\n:::{prf:theorem} It\\n:label: thm-b", "13a")
    {'eq-a': '13a.1', 'thm-b': 'Theorem 13a.1'}
    """
    known = {label: f"{chapter}.{n}" for n, label in enumerate(EQUATION.findall(text), start=1)}
    counted: dict[str, int] = {}
    for kind, label in THEOREM.findall(text):
        counted[kind] = counted.get(kind, 0) + 1
        known[label] = f"{kind.capitalize()} {chapter}.{counted[kind]}"
    return known


def title_of(document: str, page: Path) -> str:
    """The title of a page that ``page`` names: '/book/hardware', or 'hardware' beside it."""
    folder = ROOT if document.startswith("/") else page.parent
    file = folder / f"{document.lstrip('/').removesuffix('.md')}.md"
    return HEADING.search(file.read_text(encoding="utf-8"))[1]
