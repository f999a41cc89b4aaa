"""What every declaration of an exercise has, whatever it asks for."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from dtlib.exercises.verdict import NotYet


class About(NamedTuple):
    """What an instructor wants to know of an exercise.

    ``covers`` names what it takes up of the sources: true/false items (A), proofs (B) and programs
    (C) as in dtlib/contents.toml; worked examples (Ex); exercise k of source chapter N (xN.k).
    ``needs`` names a package without which no answer can be judged, and which a page lacks.
    """

    title: str
    kind: str
    stars: int
    minutes: int
    skill: str
    covers: tuple[str, ...] = ()
    needs: str = ""


def no_library(answer: Any) -> None:
    """Raise `NotYet` for a function or class of the library: an answer is the reader's own work.

    An object that the reader made of the library's nouns, such as a schedule, is the reader's.

    >>> from dtlib.foundations import message_time
    >>> no_library(message_time)
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: that is the library's own message_time: write your own
    """
    if callable(answer) and str(getattr(answer, "__module__", "")).partition(".")[0] == "dtlib":
        name = getattr(answer, "__name__", type(answer).__name__)
        raise NotYet(f"that is the library's own {name}: write your own")


def not_implemented(*args: Any) -> None:
    """What a cell holds before the reader has written a function."""
    raise NotImplementedError


@dataclass(frozen=True)
class Declaration(ABC):
    """An exercise: called with an answer it returns what it verified, or raises `NotYet`.

    ``slug`` is its lasting name; its number is its place in the module of its chapter.
    """

    slug: str
    about: About

    def __call__(self, answer: Any) -> str:
        """Judge the reader's own answer; the library's is none."""
        no_library(answer)
        return self.judge(answer)

    @abstractmethod
    def judge(self, answer: Any) -> str:
        """What was verified; raises `NotYet` with what is wrong."""

    @abstractmethod
    def right(self) -> Any:
        """An answer that passes."""

    @abstractmethod
    def wrong(self) -> Iterator[tuple[Any, str]]:
        """Wrong answers, each with the words that the reader must be told."""

    def stubs(self) -> list:
        """What a cell holds before the reader has written anything, and other non-answers."""
        return [..., None, float("nan"), "35 furlongs", lambda *args: None]

    def secrets(self) -> list[float]:
        """Numbers that no verdict may show."""
        return []
