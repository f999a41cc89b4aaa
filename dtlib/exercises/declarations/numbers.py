"""Exercises that ask for numbers and choices, each with its value and its slips."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dtlib.exercises.answers.reading import read_choice, read_number
from dtlib.exercises.declarations.declaration import Declaration
from dtlib.exercises.judge import items, number
from dtlib.exercises.verdict import NotYet

_SLIP = 0.003  # how near a known wrong value must be, as in `number`
_FACTORS = (8.0, 1 / 8, 1e3, 1e-3, -1.0, 1.024**3, 100.0)


@dataclass(frozen=True)
class Asked:
    """One number that is asked for; ``slips`` maps each known wrong value to its hint.

    >>> Asked("idle", 0.5, slips={0.501: "the same"})
    Traceback (most recent call last):
    ...
    ValueError: idle: the slip 0.501 would pass, it lies within 1 % of the value
    """

    name: str
    value: float
    unit: str = ""
    slips: Mapping[float, str] = field(default_factory=dict)
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        for slip in self.slips:
            if math.isclose(slip, self.value, rel_tol=self.tolerance):
                raise ValueError(
                    f"{self.name}: the slip {slip:g} would pass, it lies within "
                    f"{100 * self.tolerance:g} % of the value"
                )

    def judge(self, answer: Any) -> None:
        """Raise `NotYet` unless ``answer``, a number or a text such as "35 ms", is the value."""
        number(
            read_number(answer, self.name, self.unit) if isinstance(answer, str) else answer,
            self.value,
            self.name,
            self.unit,
            tolerance=self.tolerance,
            mistakes=self.slips,
        )

    def wrong(self) -> Iterator[tuple[float, str]]:
        """Wrong values with what must be said of them: each slip, then factors and the sign."""
        yield from self.slips.items()
        for factor in _FACTORS:
            value = self.value * factor
            near = any(math.isclose(value, slip, rel_tol=_SLIP) for slip in self.slips)
            if not near and not math.isclose(value, self.value, rel_tol=self.tolerance):
                yield value, self.name


@dataclass(frozen=True)
class Chosen:
    """One choice that is asked for: a word, truth value or number ``among`` others with hints.

    >>> Chosen("kind", "sum", {"max": "what is the maximum of one rank?"}).judge("max")
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: kind: what is the maximum of one rank?
    """

    name: str
    value: str | int
    among: Mapping[str | int, str]

    def judge(self, answer: Any) -> None:
        """Raise `NotYet` unless ``answer`` is the right choice."""
        if getattr(answer, "shape", None) == ():
            answer = answer.item()
        if isinstance(answer, str):
            answer = read_choice(answer, self.name, (self.value, *self.among))
        allowed = sorted([self.value, *self.among])
        if type(answer) is not type(self.value) or answer not in allowed:
            raise NotYet(f"{self.name} must be one of {allowed}, got {answer!r}")
        if answer != self.value:
            raise NotYet(f"{self.name}: {self.among[answer]}")

    def wrong(self) -> Iterator[tuple[str | int | None, str]]:
        """Each other choice with its hint, and what is no choice."""
        yield from self.among.items()
        yield None, "must be one of"


def one_of(choices: tuple, **right: tuple) -> list[Chosen]:
    """Things that are asked for among the same choices: each with its value and its one hint.

    >>> one_of(("sum", "max"), a=("max", "who is the largest?"))[0].among
    {'sum': 'who is the largest?'}
    """
    return [
        Chosen(name, value, {other: hint for other in choices if other != value})
        for name, (value, hint) in right.items()
    ]


@dataclass(frozen=True)
class Numbers(Declaration):
    """An exercise whose answer is a tuple of numbers and choices, or a dict where ``keyed``.

    Where one thing is asked for, not keyed, the answer is that thing itself.

    Arguments: ``asked``, what is asked for, in order; ``verified``, what a right answer is told;
    ``keyed``, the answer is a dict from their names.

    >>> from dtlib.exercises.declarations.declaration import About
    >>> idle = Numbers("ex-idle", About("Idle", "compute", 1, 5, "count"),
    ...                [Asked("first", 3), Asked("all", 7.5, slips={8: "not your own"})], "both")
    >>> idle((3, 7.5))
    'both'
    >>> idle((3, 8))
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: all: not your own
    """

    asked: list[Asked | Chosen]
    verified: str
    keyed: bool = False

    def judge(self, answer: Any) -> str:
        for asked, given in zip(self.asked, self._given(answer), strict=True):
            asked.judge(given)
        return self.verified

    def right(self) -> Any:
        return self._answer({a.name: a.value for a in self.asked})

    def wrong(self) -> Iterator[tuple[Any, str]]:
        right = {a.name: a.value for a in self.asked}
        for asked in self.asked:
            for value, says in asked.wrong():
                yield self._answer({**right, asked.name: value}), says

    def secrets(self) -> list[float]:
        numbers = [a.value for a in self.asked if isinstance(a, Asked)]
        return [value for value in numbers if value not in (0, 2)]  # they name halves and pairs

    def _answer(self, values: Mapping[str, float]) -> Any:
        if self.keyed:
            return dict(values)
        return tuple(values.values()) if len(values) > 1 else next(iter(values.values()))

    def _given(self, answer: Any) -> list:
        names = [a.name for a in self.asked]
        if not self.keyed and len(names) == 1:
            return [answer]
        if not self.keyed:
            return items(answer, f"({', '.join(names)})", len(names))
        if not isinstance(answer, dict) or set(answer) != set(names):
            raise NotYet(f"pass a dict with the keys {', '.join(names)}")
        return [answer[name] for name in names]
