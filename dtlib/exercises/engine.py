"""Finds an exercise, runs its declaration on the reader's answer, and words the verdict."""

from dtlib.contents import chapters
from dtlib.exercises.declarations.declaration import Declaration
from dtlib.exercises.declarations.question import pauses_of, questions_of
from dtlib.exercises.manifest import exercises_of, groups, manifest
from dtlib.exercises.verdict import NotYet, Passed, UnknownExercise
from dtlib.exercises.worlds.world import TransportError


def check(label: str, answer: object) -> Passed:
    """Judge ``answer`` to the exercise ``label``: `Passed`, or `NotYet` with what is wrong.

    Arguments: ``label``, the printed number ("12.1") or the lasting name ("ex-trace-the-ring");
    ``answer``, whatever the exercise asks for: a number in SI units, a text such as
    "35 ms" (`dtlib.exercises.answers.reading`), or your own function.
    Returns a `Passed` that says what was verified. Raises `NotYet` (an ``AssertionError``) with
    what is wrong and where, and `UnknownExercise` for a label that there is not.

    >>> check("12.99", 1.0)
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.UnknownExercise: there is no exercise '12.99'; ...
    """
    shown, declaration = found(label)
    try:
        verified = declaration(answer)
    except NotYet as wrong:
        raise NotYet(wrong.reason, shown) from None
    except TransportError as wrong:
        raise NotYet(str(wrong), shown) from None
    return Passed(shown, verified)


def found(label: str) -> tuple[str, Declaration]:
    """What is printed for a label or a lasting name, and its declaration.

    Raises `UnknownExercise`.

    >>> found("ex-trace-the-ring")[0], found("ask-sent-by-sixteen")[0]
    ('12.1', 'question 1 of chapter 12')
    """
    if str(label).startswith(("ask-", "pause-")):
        return _question(label)
    group = str(label).rpartition(".")[0]
    for exercise in exercises_of(group) or manifest().exercises:
        if label in (exercise.label, exercise.slug):
            return exercise.label, exercise.declaration
    near = [exercise.label for exercise in exercises_of(group)]
    what = f"{group} has {', '.join(near)}" if near else f"checks exist for {', '.join(groups())}"
    raise UnknownExercise(f"there is no exercise {label!r}; {what}")


def _question(slug: str) -> tuple[str, Declaration]:
    for chapter in chapters():
        for kind, asked in ("question", questions_of), ("pause", pauses_of):
            for place, one in enumerate(asked(chapter.number), start=1):
                if one.slug == slug:
                    return f"{kind} {place} of chapter {chapter.number}", one
    raise UnknownExercise(f"no chapter has a question {slug!r}")
