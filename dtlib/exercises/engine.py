"""Finds an exercise, runs its declaration on the reader's answer, and words the verdict."""

from dtlib.exercises.manifest import Exercise, exercises_of, groups, manifest
from dtlib.exercises.verdict import NotYet, Passed, UnknownExercise
from dtlib.exercises.worlds.world import TransportError


def check(label: str, answer: object) -> Passed:
    """Judge ``answer`` to the exercise ``label``: `Passed`, or `NotYet` with what is wrong.

    Arguments: ``label``, the printed number ("12.4") or the lasting name ("ex-ring-by-hand");
    ``answer``, whatever the exercise asks for: a number in SI units, or your own function.
    Returns a `Passed` that says what was verified. Raises `NotYet` (an ``AssertionError``) with
    what is wrong and where, and `UnknownExercise` for a label that there is not.

    >>> check("12.99", 1.0)
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.UnknownExercise: there is no exercise '12.99'; ...
    """
    exercise = _find(label)
    try:
        verified = exercise.declaration(answer)
    except NotYet as wrong:
        raise NotYet(wrong.reason, exercise.label) from None
    except TransportError as wrong:
        raise NotYet(str(wrong), exercise.label) from None
    return Passed(exercise.label, verified)


def _find(label: str) -> Exercise:
    group = str(label).rpartition(".")[0]
    for exercise in exercises_of(group) or manifest().exercises:
        if label in (exercise.label, exercise.slug):
            return exercise
    near = [exercise.label for exercise in exercises_of(group)]
    what = f"{group} has {', '.join(near)}" if near else f"checks exist for {', '.join(groups())}"
    raise UnknownExercise(f"there is no exercise {label!r}; {what}")
