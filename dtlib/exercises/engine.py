"""Finds the grader of an exercise, runs it on the reader's answer, and words the verdict."""

import importlib
from collections.abc import Callable

from dtlib.exercises.manifest import Exercise, exercises_of, manifest
from dtlib.exercises.verdict import NotYet, Passed, UnknownExercise
from dtlib.exercises.worlds.world import TransportError

Grader = Callable[[object], str]

_graders: dict[str, Grader] = {}


def grader(slug: str) -> Callable[[Grader], Grader]:
    """Register a function as the grader of the exercise ``slug``.

    A grader takes the reader's answer and returns what it verified, or raises `NotYet`.
    """

    def register(function: Grader) -> Grader:
        if slug in _graders:
            raise ValueError(f"exercise {slug!r} has two graders")
        _graders[slug] = function
        return function

    return register


def check(label: str, answer: object) -> Passed:
    """Judge ``answer`` to the exercise ``label``: `Passed`, or `NotYet` with what is wrong.

    Arguments: ``label``, the printed number ("12.4") or the lasting name ("ex-ring-by-hand");
    ``answer``, whatever the exercise asks for: a number in SI units, or your own function.
    Returns a `Passed` that says what was verified. Raises `NotYet` (an ``AssertionError``) with
    what is wrong and where, and `UnknownExercise` for a label that has no check.

    >>> check("12.99", 1.0)
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.UnknownExercise: there is no exercise '12.99'; ...
    """
    exercise = _find(label)
    grade = find_grader(exercise)
    try:
        verified = grade(answer)
    except NotYet as wrong:
        raise NotYet(wrong.reason, exercise.label) from None
    except TransportError as wrong:
        raise NotYet(str(wrong), exercise.label) from None
    return Passed(exercise.label, verified)


def find_grader(exercise: Exercise) -> Grader:
    """The grader of ``exercise``: its declaration, or from the module of its chapter or lab."""
    if not exercise.check:
        raise UnknownExercise(
            f"exercise {exercise.label} ({exercise.title}) asks for words, which no "
            "program can judge: compare yours with the solution below it"
        )
    if exercise.declaration:
        return exercise.declaration
    importlib.import_module(exercise.module)
    return _graders[exercise.slug]


def _find(label: str) -> Exercise:
    group = str(label).rpartition(".")[0]
    for exercise in exercises_of(group) or manifest().exercises:
        if label in (exercise.label, exercise.slug):
            return exercise
    exercises = manifest().exercises
    near = [e.label for e in exercises if e.group == group]
    if near:
        raise UnknownExercise(f"there is no exercise {label!r}; {group} has {', '.join(near)}")
    groups = dict.fromkeys(e.group for e in exercises)
    raise UnknownExercise(f"there is no exercise {label!r}; checks exist for {', '.join(groups)}")
