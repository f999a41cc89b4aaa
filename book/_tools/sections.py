"""Places that other pages lead to: headings, exercises and labels of chapters and other pages.

A place is written `14: Buckets` (a chapter and one of its headings), `14: sec-unused-parameter`
(a label), `4: ex-bucket-size` (an exercise), `33` (a chapter, written or planned) or, with the
name of a page of book/, `before-the-first-step: The port`.

>>> print(Place.read("4: Whose bandwidth?").link())
{ref}`Chapter 4, Whose bandwidth? <chapters/1-foundations/04-the-alpha-beta-model:Whose bandwidth?>`
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from book._tools.layout import ROOT
from dtlib.contents import chapter

_CODE = re.compile(r"^(?P<fence>`{3,})[^\n]*\n.*?^(?P=fence)`*$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^(?P<marks>#{1,3}) (?P<title>.+)$", re.MULTILINE)
_LABEL = re.compile(r"^\((?P<label>[\w-]+)\)=$", re.MULTILINE)
_EXERCISE = re.compile(r"^:label: (?P<label>ex-[\w-]+)$", re.MULTILINE)


class PlaceError(ValueError):
    """A place that no page has."""


@dataclass(frozen=True)
class Place:
    """A heading, an exercise or a label of a page; without a name, the page itself."""

    page: str
    name: str = ""
    number: str = ""
    root: Path = ROOT

    @classmethod
    def read(cls, text: str, root: Path = ROOT) -> "Place":
        """The place that a text such as `14: Buckets` says.

        Raises PlaceError for a chapter that is not in the plan and a page that book/ has not.
        """
        owner, _, name = (part.strip() for part in text.partition(":"))
        if (root / f"book/{owner}.md").exists():
            return cls(f"book/{owner}", name, "", root)
        try:
            return cls.of_chapter(owner, name, root)
        except KeyError as error:
            raise PlaceError(f"{text!r}: {error.args[0]}") from None

    @classmethod
    def of_chapter(cls, number: str, name: str, root: Path = ROOT) -> "Place":
        """A place in a chapter of the plan."""
        return cls(chapter(number).page, name, number, root)

    def check(self) -> None:
        """Raise PlaceError unless the page has this place; a heading must stand there once."""
        if self.name and self._names.count(self.name) != 1:
            raise PlaceError(f"{self._owner} has {self._names.count(self.name)} {self.name!r}")

    def link(self) -> str:
        """A reference in MyST, with the chapter and the heading as its text.

        A place that is not there leads to its page: `check` is what complains, and a page that is
        generated while a heading changes is whole.
        """
        if not self.name or self._names.count(self.name) != 1:
            return f"{{ref}}`ch-{self.number}`" if self.number else f"{{doc}}`/{self.page}`"
        if self.name.startswith("ex-"):
            return f"{self._owner}, {{numref}}`Exercise {{number}} <{self.name}>`"
        if self.name.startswith("sec-"):
            return f"{{ref}}`{self._owner}, {self._heading_after()} <{self.name}>`"
        return f"{{ref}}`{self._owner}, {self.name} <{self.page}:{self.name}>`"

    @property
    def _owner(self) -> str:
        return f"Chapter {self.number}" if self.number else self._titles[0]

    @cached_property
    def _text(self) -> str:
        path = self.root / f"{self.page}.md"
        if not path.exists():
            raise PlaceError(f"{self.page} is not written, so it has no {self.name!r}")
        return _CODE.sub("", path.read_text(encoding="utf-8"))

    @cached_property
    def _titles(self) -> list[str]:
        return [found["title"].strip() for found in _HEADING.finditer(self._text)]

    @cached_property
    def _names(self) -> list[str]:
        if self.name.startswith("ex-"):
            return [found["label"] for found in _EXERCISE.finditer(self._text)]
        if self.name.startswith("sec-"):
            return [found["label"] for found in _LABEL.finditer(self._text)]
        return self._titles

    def _heading_after(self) -> str:
        """The heading that follows a label."""
        after = self._text.split(f"({self.name})=", 1)[1]
        found = re.search(r"^#{1,4} (?P<title>.+)$", after, re.MULTILINE)
        return found["title"].strip() if found else self.name
