"""What every check is put through: a stub and wrong answers must fail, the solution must pass."""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from dtlib.exercises import NotYet, Passed, check

NUMBER = re.compile(r"\d[\d_,]*\.?\d*(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Case:
    """The solution of an exercise, its stub, and wrong answers with what their message must say."""

    solution: Any
    wrong: list[tuple[Any, str]]
    stub: Any = ...
    also_right: list = field(default_factory=list)
    secret: list[float] = field(default_factory=list)


def not_implemented(*args):
    """The stub of every exercise that asks for a function."""
    raise NotImplementedError


def solution_passes(slug: str, case: Case) -> None:
    for answer in [case.solution, *case.also_right]:
        verdict = check(slug, answer)
        assert isinstance(verdict, Passed)
        assert re.fullmatch(r"[\w-]+\.\d+ passed: [^\n]+", repr(verdict))


def stub_fails(slug: str, case: Case) -> None:
    stubs = [case.stub, None, float("nan"), "35 ms", lambda *args: None]
    for stub in stubs + ([not_implemented] if callable(case.solution) else []):
        with pytest.raises(NotYet):
            check(slug, stub)


def wrong_answers_fail(slug: str, case: Case) -> None:
    assert case.wrong, "an exercise without a listed wrong answer"
    for answer, says in case.wrong:
        with pytest.raises(NotYet, match=says) as caught:
            check(slug, answer)
        message = str(caught.value)
        assert "\n" not in message, message
        assert len(message) < 300, message
        shown = [float(m.replace(",", "")) for m in NUMBER.findall(message)]
        for secret in case.secret:
            assert not any(abs(s / secret - 1) < 0.02 for s in shown), message
