"""Exercises whose answer is a program that every rank runs, in memory."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dtlib.exercises.declarations.declaration import Declaration, no_library, not_implemented
from dtlib.exercises.judge import function, items
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.world import TransportError


@dataclass(frozen=True)
class OnRanks(Declaration):
    """An exercise whose answer is a program that every rank runs; or a tuple of such functions.

    Arguments: ``signature``, as the page names it, one for each function; ``reference``, a right
    answer; ``law(answer, P)`` runs it on P ranks and raises `NotYet`, or lets the world's error
    pass, for every P of ``sizes``, and what it returns stands for {} in ``verified``; ``slips``
    maps the words that the law must say to a wrong answer, or to keywords with which the reference
    goes wrong.

    >>> from dtlib.exercises.declarations.declaration import About
    >>> from dtlib.exercises.worlds import record_team
    >>> def total(comm, x, op="sum"):
    ...     return comm.all_reduce(x, op)
    >>> def law(answer, P):
    ...     import torch
    ...     if record_team(answer, P, torch.ones(1))[0] != P:
    ...         raise NotYet("who is in the sum?")
    >>> exercise = OnRanks("ex-sum", About("Sum", "design", 1, 5, "add"), "total(comm, x)", total,
    ...     law, "the sum", slips={"who is in it?": {"op": "max"}})
    >>> exercise.judge(lambda comm, x: x)
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: P = 2: who is in the sum?
    """

    signature: str | tuple[str, ...]
    reference: Any
    law: Callable[[Any, int], str | None]
    verified: str
    slips: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[int, ...] = (2, 4)

    def __call__(self, answer: Any) -> str:
        for program in answer if isinstance(answer, tuple) else (answer,):
            no_library(program)
        return self.judge(answer)

    def judge(self, answer: Any) -> str:
        self._check(answer)
        for P in self.sizes:
            try:
                found = self.law(answer, P)
            except (NotYet, TransportError) as wrong:
                raise NotYet(f"P = {P}: {wrong.reason}") from None
        return self.verified.format(found)

    def right(self) -> Any:
        return self.reference

    def wrong(self) -> Iterator[tuple[Any, str]]:
        for says, slip in self.slips.items():
            yield partial(self.reference, **slip) if isinstance(slip, dict) else slip, says

    def stubs(self) -> list:
        return [*super().stubs(), not_implemented]

    def _check(self, answer: Any) -> None:
        if isinstance(self.signature, str):
            function(answer, self.signature)
            return
        names = ", ".join(signature.partition("(")[0] for signature in self.signature)
        given = items(answer, f"({names})", len(self.signature))
        for program, signature in zip(given, self.signature, strict=True):
            function(program, signature)
