"""Exercises that ask for a function: run beside a reference, and compared with known slips."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

from dtlib.exercises.answers.reading import read_formula
from dtlib.exercises.declarations.declaration import Declaration, not_implemented
from dtlib.exercises.judge import Limit, call, function, number
from dtlib.exercises.verdict import NotYet
from dtlib.formulas.require import is_number


def same_number(given: Any, right: float, *args: Any) -> None:
    """The law of a function that returns a number: equal but for rounding."""
    number(given, right, "the result", tolerance=1e-9)


@dataclass(frozen=True)
class Function(Declaration):
    """An exercise whose answer is a function that does what ``reference`` does.

    Arguments: ``signature``, as the page names it; ``cases()`` yields pairs of a place, for the
    verdict, and the arguments; ``law(given, right, *arguments)`` raises `NotYet` with the
    difference; ``slips`` maps a hint to a wrong function, or to keywords with which the reference
    goes wrong. Keywords of several slips are tried together too. The first differing case is
    reported, unless the answer does what a slip does everywhere.

    >>> from dtlib.exercises.declarations.declaration import About
    >>> def area(a, b, sides=2):
    ...     return a * (b if sides == 2 else 1)
    >>> exercise = Function("ex-area", About("Area", "compute", 1, 5, "multiply"),
    ...     "area(a, b)", area, lambda: [("", (2, 3))], same_number, "one",
    ...     slips={"one side": {"sides": 1}})
    >>> exercise.judge(lambda a, b: a)
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: one side
    """

    signature: str
    reference: Callable
    cases: Callable[[], Iterator[tuple[str, tuple]]]
    law: Callable[..., None]
    verified: str
    slips: Mapping[str, Callable | dict] = field(default_factory=dict)

    def judge(self, answer: Any) -> str:
        function(answer, self.signature)
        for where, args in self.cases():
            right = self.reference(*args)
            given = call(answer, *args)
            try:
                self.law(given, right, *args)
            except NotYet as wrong:
                place = f"{where or self._spelled(args)}: {wrong.reason}"
                raise NotYet(self._hint(answer) or place) from None
        return self.verified

    def right(self) -> Callable:
        return self.reference

    def wrong(self) -> Iterator[tuple[Callable, str]]:
        for says, other in self._wrong():
            yield other, says

    def stubs(self) -> list:
        return [*super().stubs(), not_implemented]

    def _wrong(self) -> Iterator[tuple[str, Callable]]:
        keywords = {hint: slip for hint, slip in self.slips.items() if isinstance(slip, dict)}
        for hint, slip in self.slips.items():
            if hint not in keywords:
                yield hint, slip
        for count in range(1, len(keywords) + 1):
            for hints in combinations(keywords, count):
                together = {k: v for hint in hints for k, v in keywords[hint].items()}
                yield "; ".join(hints), partial(self.reference, **together)

    def _hint(self, answer: Callable) -> str:
        return next((hint for hint, other in self._wrong() if self._alike(answer, other)), "")

    def _alike(self, answer: Callable, other: Callable) -> bool:
        try:
            for _, args in self.cases():
                self.law(call(answer, *args), call(other, *args), *args)
        except NotYet:
            return False
        return True

    def _spelled(self, args: tuple) -> str:
        named = zip(self._names(), args, strict=True)
        return ", ".join(f"{name} = {value:.4g}" for name, value in named)

    def _names(self) -> list[str]:
        return self.signature[self.signature.index("(") + 1 : -1].split(", ")


@dataclass(frozen=True)
class Formula(Function):
    """A function of numbers; ``limits`` are corners of its inputs that isolate one term each.

    ``cases`` yields ("", arguments) as in `Function`, ``law`` is `same_number`. An answer that is
    wrong, by no known slip, is told the hint of the first limit in which it is wrong already; one
    that is no number, that it is none.
    """

    limits: tuple[Limit, ...] = ()

    def judge(self, answer: Any) -> str:
        if isinstance(answer, str) and self.of_numbers():
            answer = read_formula(answer, self.signature, [args for _, args in self.cases()])
        return super().judge(answer)

    def of_numbers(self) -> bool:
        """Whether all that it is tried on are numbers: then it may be answered by a text."""
        return all(is_number(value) for _, args in self.cases() for value in args)

    def _hint(self, answer: Callable) -> str:
        known = super()._hint(answer)
        if known or not all(is_number(call(answer, *args)) for _, args in self.cases()):
            return known
        wrong = (limit for limit in self.limits if not self._holds(answer, limit))
        return next((f"wrong already when {x.name}: {x.hint}" for x in wrong), "")

    def _holds(self, answer: Callable, limit: Limit) -> bool:
        def cornered(function: Callable) -> Callable:
            return lambda *args: function(
                *{**dict(zip(names, args, strict=True)), **limit.inputs}.values()
            )

        names = self._names()
        return self._alike(cornered(answer), cornered(self.reference))
