"""Answers that are not made yet, and the check that lets a notebook run on over them."""

import inspect
from dataclasses import dataclass
from dis import get_instructions
from types import FunctionType
from typing import Any

from dtlib.exercises.engine import check, found
from dtlib.exercises.verdict import NotYet, Passed


@dataclass(frozen=True)
class Unanswered:
    """The verdict of an answer that its reader has not begun.

    >>> Unanswered("12.3")
    12.3 waits for your answer
    """

    label: str

    def __repr__(self) -> str:
        return f"{self.label} waits for your answer"


def attempt(label: str, answer: object) -> Passed | NotYet | Unanswered:
    """Judge ``answer`` as `check` does, and return the verdict where `check` would raise.

    A page's notebook may so be run from its first cell to its last, whatever is answered. Marks are
    given by `check`: it raises, and knows no answer that is merely waited for.

    Raises `UnknownExercise` for a label that there is not.

    >>> attempt("17.4", ...)
    17.4 waits for your answer
    >>> attempt("17.4", (8, 15.5, 8))
    Not yet. 17.4: (a): a rank's own block is skipped by nobody
    """
    shown, _ = found(label)
    if unanswered(answer):
        return Unanswered(shown)
    try:
        return check(label, answer)
    except NotYet as wrong:
        return wrong.with_traceback(None)


def unanswered(answer: Any) -> bool:
    """Whether there is nothing but ``...``: as a value, in a collection, in bodies of functions.

    >>> def ring(P):
    ...     '''What will be a ring.'''
    ...     ...
    >>> unanswered(ring), unanswered((..., ring)), unanswered((3, ...)), unanswered(lambda P: P)
    (True, True, False, False)
    """
    if isinstance(answer, FunctionType):
        return not _does_something(answer)
    if isinstance(answer, type):
        methods = [one for one in vars(answer).values() if inspect.isfunction(one)]
        return bool(methods) and not any(map(_does_something, methods))
    if isinstance(answer, dict):
        answer = tuple(answer.values())
    if isinstance(answer, tuple | list):
        return bool(answer) and all(map(unanswered, answer))
    return answer is ...


def _does_something(function: FunctionType) -> bool:
    """Whether there is more in a body than a docstring and ``...``."""
    steps = [step for step in get_instructions(function) if step.opname != "RESUME"]
    idle = [step.argval for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")]
    return len(steps) > 2 or idle not in ([None], [...])
