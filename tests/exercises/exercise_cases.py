"""What every check is put through: a stub and wrong answers must fail, the solution must pass.

A test file lists its exercises and derives a class from `EveryExercise`; `conftest.py` then runs
each of the four tests on each of them.
"""

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from dtlib.exercises import NotYet, Passed, check
from dtlib.foundations import formulas

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


class EveryExercise:
    """The tests that every exercise of `cases` must hold."""

    cases: ClassVar[dict[str, Case]]

    def test_the_solution_passes(self, slug, case):
        for answer in [case.solution, *case.also_right]:
            verdict = check(slug, answer)
            assert isinstance(verdict, Passed)
            assert re.fullmatch(r"[\w-]+\.\d+ passed: [^\n]+", repr(verdict))

    def test_the_stub_fails(self, slug, case):
        stubs = [case.stub, None, float("nan"), "35 ms", lambda *args: None]
        for stub in stubs + ([not_implemented] if callable(case.solution) else []):
            with pytest.raises(NotYet):
                check(slug, stub)

    def test_wrong_answers_fail_and_learn_why(self, slug, case):
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

    def test_no_formula_of_the_library_is_an_answer(self, slug, case):
        if callable(case.solution):
            for own in formulas().values():
                with pytest.raises(NotYet):
                    check(slug, own)
