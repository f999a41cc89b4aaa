"""A page for each of the eight parts, written from the plan and from what the chapters hold.

It says what the part asks, one number that carries it, what each chapter exploits, how long that
takes, and what a reader can do afterwards, which is what the chapters' own doors say.
"""

import re
from pathlib import Path

from book._tools.layout import ROOT
from book._tools.parts.doors import able
from dtlib.contents import Chapter, Part, parts

EXERCISE = re.compile(r"^:label: ex-", re.MULTILINE)


def part_pages(root: Path = ROOT) -> dict[Path, str]:
    """The file of every part's page with its text."""
    return {root / f"{part.page}.md": part_page(part, root) for part in parts()}


def part_page(part: Part, root: Path = ROOT) -> str:
    """What the part promises, its chapters, and what can be done after them."""
    lines = [f"(part-{part.number})=", f"# {part.title}", "", part.promise, ""]
    if part.figure:
        lines += [part.figure, ""]
    lines += ["## The chapters", ""]
    for chapter in part.chapters:
        lines += _written(chapter, root) if chapter.is_written(root) else _planned(chapter)
    after = [line for chapter in part.chapters for line in _able(chapter, root)]
    if after:
        lines += ["## Afterwards you can", "", *after]
    return "\n".join(lines).rstrip() + "\n"


def _written(chapter: Chapter, root: Path) -> list[str]:
    text = (root / f"{chapter.page}.md").read_text(encoding="utf-8")
    takes = [f"{chapter.minutes} minutes", chapter.hardware]
    if exercises := len(EXERCISE.findall(text)):
        takes.append(f"{exercises} exercise{'s' * (exercises > 1)}")
    takes += [f"lab `{lab.partition('/')[2]}`" for lab in chapter.labs]
    because = [f"*Because* {chapter.because}.", ""] if chapter.because else []
    return [
        f"::::{{container}} a-chapter motif-{chapter.number}",
        f"[{chapter.number} · {chapter.title}](/{chapter.page}.md)",
        "",
        chapter.promise,
        "",
        *because,
        " · ".join(takes),
        "::::",
        "",
    ]


def _planned(chapter: Chapter) -> list[str]:
    return [
        f"({chapter.label})=",
        "::::{container} a-chapter is-planned",
        f"{chapter.number} · {chapter.title}",
        "",
        chapter.promise,
        "",
        "planned",
        "::::",
        "",
    ]


def _able(chapter: Chapter, root: Path) -> list[str]:
    if not chapter.is_written(root):
        return []
    text = (root / f"{chapter.page}.md").read_text(encoding="utf-8")
    return [f"- {what.rstrip(';.')} ({{ref}}`{chapter.label}`)" for what in able(text)[:1]]
