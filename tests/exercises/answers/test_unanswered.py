"""An answer that waits stops no notebook, and never earns a point."""

import re
from pathlib import Path

import pytest

from dtlib.exercises import NotYet, Passed, Unanswered, UnknownExercise, attempt, check
from dtlib.exercises.answers.unanswered import unanswered
from dtlib.exercises.declarations.numbers import Numbers
from dtlib.exercises.manifest import manifest

ROOT = Path(__file__).resolve().parents[3]


class Empty:
    def step(self): ...


class Begun:
    def step(self):
        self.steps = 1


def ring(P):
    """A stub, with what it will do."""


def begun(P):
    return P - 1


WAITING = [..., (..., ...), {"a": ..., "b": ...}, [ring], ring, (ring, ...), Empty, lambda P: ...]
MADE = [None, (), {}, (1, ...), begun, (begun, ring), Begun, int, "", 0, len, lambda P: 3]


def test_only_what_nobody_has_begun_waits():
    assert [unanswered(one) for one in WAITING] == [True] * len(WAITING)
    assert [unanswered(one) for one in MADE] == [False] * len(MADE)


@pytest.mark.parametrize("exercise", manifest().exercises, ids=lambda one: one.slug)
def test_what_waits_earns_no_point(exercise):
    declaration = exercise.declaration
    stub = ring
    if isinstance(declaration, Numbers) and len(declaration.asked) > 1:
        names = [one.name for one in declaration.asked]
        stub = dict.fromkeys(names, ...) if declaration.keyed else (...,) * len(names)
    for answer in (..., stub):
        assert attempt(exercise.slug, answer) == Unanswered(exercise.label)
        with pytest.raises(NotYet):
            check(exercise.slug, answer)


def test_an_attempt_returns_what_check_raises():
    wrong = attempt("17.4", (7.5, 15.5, ...))
    assert repr(
        wrong
    ) == "Not yet. 17.4: tiles of one query row must be a number, got Ellipsis" or (
        isinstance(wrong, NotYet) and "got Ellipsis" in repr(wrong)
    )
    assert wrong.__traceback__ is None
    assert isinstance(attempt("17.4", (7.5, 15.5, 8)), Passed)
    for label in ("17.99", "ask-nothing"):
        with pytest.raises(UnknownExercise):
            attempt(label, ...)


def test_questions_are_checked_by_their_lasting_name():
    assert repr(attempt("ask-fewest-for-sixteen", ...)) == (
        "question 2 of chapter 12 waits for your answer"
    )
    assert "factor of 1,000" in repr(attempt("ask-sent-by-sixteen", "1.875 MB"))
    assert isinstance(check("ask-sent-by-sixteen", "1.875 GB"), Passed)


def graders_that_wait(root: Path) -> list[str]:
    """The labs that let an answer wait where it is marked."""
    pages = sorted(root.glob("labs/*/*/*.md"))
    return [page.name for page in pages if re.search(r"\battempt\(", page.read_text("utf-8"))]


def test_labs_are_marked_by_check_alone(tmp_path):
    assert len(list(ROOT.glob("labs/*/*/*.md"))) > 10
    assert graders_that_wait(ROOT) == []
    lab = tmp_path / "labs/3-collectives/lenient/lenient.md"
    lab.parent.mkdir(parents=True)
    lab.write_text('attempt("lenient.1", predicted)')
    assert graders_that_wait(tmp_path) == ["lenient.md"]
