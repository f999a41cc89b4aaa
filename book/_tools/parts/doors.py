"""The door at a chapter's end: what its reader can now do, and the problem that remains.

A door stands before the exercises, as an aside of the class `door`: at most three lines in the
reader's verbs, then a paragraph that begins with 'What remains.' and refers to another chapter.
"""

import re
from pathlib import Path

from book._tools.layout import ROOT
from dtlib.contents import Chapter, chapters

DOOR = re.compile(
    r"^:::\{admonition\} What you can now do\n:class: door\n\n(?P<text>.*?)^:::$",
    re.DOTALL | re.MULTILINE,
)
ABLE = re.compile(r"^- (?P<what>.+)$", re.MULTILINE)
REMAINS = re.compile(r"^\*\*What remains\.\*\* .*\{ref\}`ch-(?P<number>\w+)`", re.MULTILINE)
MOST = 3


def able(page: str) -> list[str]:
    """What the reader of a chapter can do at its end, line by line."""
    return [line["what"] for door in DOOR.finditer(page) for line in ABLE.finditer(door["text"])]


def fault(page: str, number: str) -> str:
    """What is wrong with the door of a chapter's text, or nothing."""
    found = list(DOOR.finditer(page))
    if len(found) != 1:
        return f"has {len(found)} doors, but must have one"
    if not page[found[0].end() :].lstrip().startswith("## Exercises"):
        return "has its door elsewhere than before the exercises"
    if not 1 <= len(able(page)) <= MOST:
        return f"says {len(able(page))} things that its reader can do, allowed are 1 to {MOST}"
    remains = REMAINS.search(found[0]["text"])
    if remains is None or remains["number"] == number:
        return "does not say 'What remains.' with a reference to another chapter"
    return ""


def problems(root: Path = ROOT) -> list[str]:
    """The written chapters whose door is not as it should be."""
    return [
        f"{chapter.page}.md {wrong}"
        for chapter in chapters()
        if chapter.is_written(root) and (wrong := fault(_text(chapter, root), chapter.number))
    ]


def _text(chapter: Chapter, root: Path) -> str:
    return (root / f"{chapter.page}.md").read_text(encoding="utf-8")
