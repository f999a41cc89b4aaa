"""Exercises whose answer is a thing that the reader made: a schedule, a table, a pair of things."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dtlib.exercises.declarations.declaration import Declaration


@dataclass(frozen=True)
class Made(Declaration):
    """An exercise whose answer is an object that keeps a law.

    Arguments: ``law(answer)`` raises `NotYet` with what is wrong, and may return what a right
    answer is told instead of ``verified``; ``solution()`` makes an answer that passes; ``slips``
    maps what a wrong answer must be told, the law's own words, to a function without arguments
    that makes it.

    >>> from dtlib.exercises.declarations.declaration import About
    >>> from dtlib.exercises.verdict import NotYet
    >>> def sorted_law(answer):
    ...     if not isinstance(answer, list) or answer != sorted(answer):
    ...         raise NotYet("that is no list in order")
    >>> exercise = Made("ex-sort", About("Sort", "repair", 1, 5, "sort"), sorted_law,
    ...     lambda: [1, 2], "in order", {"no list in order": lambda: [2, 1]})
    >>> exercise.judge([3, 4])
    'in order'
    """

    law: Callable[[Any], str | None]
    solution: Callable[[], Any]
    verified: str
    slips: Mapping[str, Callable[[], Any]]

    def judge(self, answer: Any) -> str:
        return self.law(answer) or self.verified

    def right(self) -> Any:
        return self.solution()

    def wrong(self) -> Iterator[tuple[Any, str]]:
        for says, make in self.slips.items():
            yield make(), says
