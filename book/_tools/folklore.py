"""The folklore of the chapters: claims that a computation refutes, from `book/folklore/*.toml`.

A chapter's file has an entry for each claim: `claim`, `answer` (with its numbers), `section` (a
heading or an exercise of the chapter) and `kind`. `folklore` was said where a reader can look:
`source` is its key in references.bib and `where` the place in it. A `question` is tempting to
think, and has neither. `box` is the title of the box in the chapter, where it is not the claim.
`refutes` says which of the answer's numbers, counted from 1, is right where the claim is wrong: it
stands large on the card, and beside the box in its chapter. `book._tools.generated` writes the page
of all.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from book._tools.entries import anchor_link, fields_problem, repeated
from book._tools.layout import ROOT
from book._tools.prose_numbers import numbers
from book._tools.sections import Place, PlaceError
from dtlib.contents import Chapter, chapters, parts

KINDS = ("folklore", "question")
NEEDED = ("claim", "answer", "section", "kind")
KNOWN = (*NEEDED, "source", "where", "box", "refutes")
BOX = re.compile(
    r"^(?P<fence>:{3,})\{admonition\} (?P<title>[^\n]*)\n:class: folklore\n"
    r"(?P<body>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
CITED = re.compile(r"\{cite(?::\w+)?\}`(?P<keys>[^`]+)`")
BIB_KEY = re.compile(r"^@\w+\{(?P<key>[^,\s]+),", re.MULTILINE)

HEAD = """# Folklore

Things that are said, printed and repeated about distributed training, and that a computation refutes. Each card has the claim, the number that is right, and the section that computes it. What is marked *said* has who says it and where; what is marked *tempting* has no source, and nobody is accused: it is tempting to think so, and we did. The numbers on this page are computed like all others: point at one to see its formula.

If you find one of these in a text that you otherwise trust, do not think less of the text. Each of them sounds right, and most were right once, for another machine or under a condition that got lost on the way.

<div class="dt-filter" data-label="Words" data-rows=".dt-card" data-noun="claims" data-facets="where kind"></div>
"""  # noqa: E501


class FolkloreError(ValueError):
    """An entry that lacks something, or has what its kind may not have."""


@dataclass(frozen=True)
class Entry:
    """One claim and what is right."""

    chapter: Chapter
    claim: str
    answer: str
    section: str
    kind: str
    source: str = ""
    where: str = ""
    box: str = ""
    refutes: int = 0

    @property
    def right_number(self) -> str:
        """The number that refutes the claim, as the answer prints it, or ''."""
        found = list(numbers(self.answer)) if self.refutes else []
        return found[self.refutes - 1].text if 0 < self.refutes <= len(found) else ""

    @property
    def anchor(self) -> str:
        """The name of its place on the page of all."""
        words = re.findall(r"[a-z0-9]+", self.claim.casefold())
        return f"folklore-{self.chapter.number}-{'-'.join(words[:7])}"

    @property
    def place(self) -> Place:
        """The section that computes it."""
        return Place.of_chapter(self.chapter.number, self.section)

    def problems(self, keys: set[str]) -> Iterator[str]:
        """What is wrong with the entry itself."""
        if self.kind not in KINDS:
            yield f"kind is {self.kind!r}; allowed are {', '.join(KINDS)}"
        if self.kind == "folklore" and not (self.source and self.where):
            yield "folklore needs a source and where it stands in it; without them it is a question"
        if self.kind == "question" and (self.source or self.where):
            yield "a question has no source; with one it is folklore"
        if self.source and self.source not in keys:
            yield f"source {self.source!r} is not in references.bib"
        if self.refutes and not self.right_number:
            yield f"refutes is {self.refutes}, and the answer has no such number"
        try:
            self.place.check()
        except PlaceError as error:
            yield str(error)
        yield from (problem for number in numbers(self.answer) if (problem := number.problem()))


def read(file: Path, chapter: Chapter) -> list[Entry]:
    """The entries of a chapter's file.

    Raises FolkloreError for a file that is no TOML and for a field that is missing or unknown.
    """
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8")).get("entry", [])
    except tomllib.TOMLDecodeError as error:
        raise FolkloreError(f"{file.name}: {error}") from error
    for position, entry in enumerate(found, 1):
        if problem := fields_problem(entry, NEEDED, KNOWN):
            raise FolkloreError(f"{file.name}, entry {position}: {problem}")
    return [Entry(chapter, **entry) for entry in found]


def entries(root: Path = ROOT) -> list[Entry]:
    """All entries, in the order of the chapters."""
    found = []
    for chapter in chapters():
        file = root / "book/folklore" / f"{chapter.file_name}.toml"
        if file.exists():
            found += read(file, chapter)
    return found


def bib_keys(root: Path = ROOT) -> set[str]:
    """Every key of references.bib."""
    text = (root / "book/references.bib").read_text(encoding="utf-8")
    return {match["key"] for match in BIB_KEY.finditer(text)}


def plain(title: str) -> str:
    """A title without what a box and an index write differently.

    >>> plain("Folklore: 'half precision halves all.'") == plain("Half precision halves all")
    True
    """
    words = re.sub(r"^[A-Z][\w ]*: (?=')|^Folklore: ", "", title)
    return " ".join(re.sub(r"['’‘`.]", "", words).casefold().split())


@dataclass(frozen=True)
class Box:
    """A box of the class `folklore` in a chapter."""

    title: str
    cited: frozenset[str]

    def problems(self, known: list[Entry]) -> Iterator[str]:
        """What its chapter's entries and the box do not agree on."""
        names = plain(self.title)
        mine = [entry for entry in known if names in (plain(entry.claim), plain(entry.box))]
        if not mine:
            yield f"box {self.title!r} has no entry in the chapter's file of book/folklore"
        for entry in mine:
            if entry.source and entry.source not in self.cited:
                yield f"box {self.title!r} does not cite {entry.source!r}, its entry's source"


def boxes(page: str) -> list[Box]:
    """The folklore boxes of a chapter's text."""
    return [
        Box(
            match["title"],
            frozenset(
                key.strip()
                for cited in CITED.finditer(match["body"])
                for key in cited["keys"].split(",")
            ),
        )
        for match in BOX.finditer(page)
    ]


def problems(root: Path = ROOT) -> list[str]:
    """Everything that is wrong, each with its chapter and its claim."""
    try:
        found = entries(root)
    except FolkloreError as error:
        return [str(error)]
    keys, told = bib_keys(root), []
    for entry in found:
        name = f"chapter {entry.chapter.number}, {entry.claim!r}"
        told += [f"{name}: {problem}" for problem in entry.problems(keys)]
    told += [f"two claims share {name!r}" for name in repeated([one.anchor for one in found])]
    known = {chapter.file_name for chapter in chapters()}
    files = (root / "book/folklore").glob("*.toml")
    told += [f"{file.name} is no chapter's file" for file in files if file.stem not in known]
    for chapter in chapters():
        if not chapter.is_written(root):
            continue
        mine = [entry for entry in found if entry.chapter.number == chapter.number]
        for box in boxes((root / f"{chapter.page}.md").read_text(encoding="utf-8")):
            told += [f"chapter {chapter.number}: {problem}" for problem in box.problems(mine)]
    return told


def entry_of_box(title: str, known: list[Entry]) -> Entry | None:
    """The entry that a box with this title stands for."""
    names = plain(title)
    return next((one for one in known if names in (plain(one.claim), plain(one.box))), None)


def folklore_page(root: Path = ROOT) -> str:
    """The page of all claims, a card each, chapter by chapter."""
    owners = {one.number: part.caption for part in parts() for one in part.chapters}
    lines, last = [HEAD.rstrip()], None
    for entry in entries(root):
        chapter = entry.chapter
        if chapter != last:
            lines += ["", f"## {chapter.number} · [{chapter.title}](#{chapter.label})"]
            last = chapter
        lines += ["", *_card(entry, owners[chapter.number])]
    return "\n".join(lines) + "\n"


def _card(entry: Entry, part: str) -> list[str]:
    """The claim, struck through; what is right, the number first; who says it and who computes."""
    end = "" if entry.claim.endswith(("?", "!", ".")) else "."
    kind = "said" if entry.source else "tempting"
    where = f"{part}|{entry.chapter.number} {entry.chapter.title}"
    facts = f'<span class="dt-facts" data-where="{where}" data-kind="{kind}"></span>'
    anchor = anchor_link(entry.anchor, "claim")
    right = f'<span class="dt-right">{entry.right_number}</span> ' if entry.right_number else ""
    said = f"Said in {{cite:t}}`{entry.source}`, {entry.where}. " if entry.source else ""
    return [
        ":::{container} dt-card",
        f'{facts}<del>{entry.claim}{end}</del> <span class="dt-kind">{kind}</span> {anchor}',
        "",
        f"{right}{_of_one_line(entry.answer)}",
        "",
        f"{said}{entry.place.link()}.",
        ":::",
    ]


def _of_one_line(text: str) -> str:
    return " ".join(text.split())
