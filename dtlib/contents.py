"""The book's plan: its parts and chapters, and what of each is there.

>>> chapter("12").title
'Ring and tree algorithms'
>>> [part.title for part in parts()][:3]
['Foundations', 'Scaling laws', 'Collectives']
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Chapter:
    """One chapter: what it promises, what it teaches from, and where its file is or will be."""

    number: str
    slug: str
    title: str
    promise: str
    folder: str
    modules: tuple[str, ...]
    because: str = ""  # the property that it exploits, as the end of a sentence
    labs: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    minutes: int = 0
    hardware: str = ""

    @property
    def label(self) -> str:
        """The label that a reference to the chapter names, written or not.

        >>> chapter("13a").label
        'ch-13a'
        """
        return f"ch-{self.number}"

    @property
    def file_name(self) -> str:
        """The name of the chapter's file: two digits, a letter where there is one, the slug.

        >>> chapter("4").file_name, chapter("3a").file_name
        ('04-the-alpha-beta-model', '03a-feeding-the-data')
        """
        return f"{padded(self.number)}-{self.slug}"

    @property
    def page(self) -> str:
        """The page's address in the repository and in the site, without an extension."""
        return f"chapters/{self.folder}/{self.file_name}"

    @property
    def room(self) -> str:
        """The name of its part as that of a package.

        >>> chapter("12").room, chapter("7").room
        ('collectives', 'scaling_laws')
        """
        return self.folder.partition("-")[2].replace("-", "_")

    @property
    def tests(self) -> tuple[str, ...]:
        """Where the chapter's modules are tested: the room of that name, or a file of its own.

        >>> chapter("31").tests
        ('tests/efficiency', 'tests/test_timeline.py')
        """
        rooms = [Path(module).parts for module in self.modules]
        places = {f"test_{room[0]}" if len(room) == 1 else room[0] for room in rooms}
        return tuple(f"tests/{place}" for place in sorted(places))

    def is_written(self, root: Path = ROOT) -> bool:
        """Whether the chapter's source is in this copy of the repository."""
        return (root / f"{self.page}.md").exists()


@dataclass(frozen=True)
class Part:
    """One of the eight parts, with its chapters in order."""

    folder: str
    title: str
    promise: str
    question: str
    chapters: tuple[Chapter, ...]
    figure: str = ""  # one number that carries the part, in a sentence

    @property
    def number(self) -> int:
        return int(self.folder.partition("-")[0])

    @property
    def caption(self) -> str:
        """The part's heading in the table of contents."""
        return f"{self.number} · {self.title}"

    @property
    def page(self) -> str:
        """The address of the part's own page, without an extension.

        >>> parts()[2].page
        'book/part-3-collectives'
        """
        return f"book/part-{self.folder}"


@cache
def parts() -> tuple[Part, ...]:
    """The eight parts of the book."""
    contents = files("dtlib").joinpath("contents.toml").read_text(encoding="utf-8")
    return tuple(_part(entry) for entry in tomllib.loads(contents)["part"])


def chapters() -> tuple[Chapter, ...]:
    """The chapters of all parts, in the order of the book.

    >>> len(chapters())
    40
    """
    return tuple(chapter for part in parts() for chapter in part.chapters)


def chapter(number: str) -> Chapter:
    """The chapter of a number such as "4", "04" or "13a"; raises KeyError for any other."""
    known = {chapter.number: chapter for chapter in chapters()}
    try:
        return known[str(number).lstrip("0")]
    except KeyError:
        raise KeyError(f"no chapter {number!r}; there are {', '.join(known)}") from None


def padded(number: str) -> str:
    """A chapter's number as files bear it: two digits, and a letter where there is one.

    >>> padded("4"), padded("3a"), padded("12")
    ('04', '03a', '12')
    """
    letters = len(number.lstrip("0123456789"))
    return number.zfill(2 + letters)


def written(root: Path = ROOT) -> list[Chapter]:
    """The chapters that this copy of the repository has."""
    return [chapter for chapter in chapters() if chapter.is_written(root)]


def _part(entry: dict) -> Part:
    folder = entry["folder"]
    return Part(
        folder=folder,
        title=entry["title"],
        promise=entry["promise"],
        question=entry["question"],
        figure=entry.get("figure", ""),
        chapters=tuple(_chapter(folder, chapter) for chapter in entry["chapter"]),
    )


def _chapter(folder: str, entry: dict) -> Chapter:
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}
    return Chapter(folder=folder, **values)
