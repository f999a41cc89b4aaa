"""Every listed answer of a group, judged: runs in CPython and, unchanged, in the page's engine.

A group is a chapter or a lab. Its answers are what the declarations give, right ones, stubs and
wrong ones, and those of a file that lists `RIGHT` and `WRONG`, which no slip derives. What no page
can judge is left out, as its declaration says.
"""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dtlib.exercises.declarations.declaration import Declaration
from dtlib.exercises.declarations.question import pauses_of, questions_of
from dtlib.exercises.manifest import exercises_of


class Row(NamedTuple):
    """One answer: to which exercise, which of those that are listed, and what it is told."""

    slug: str
    which: str
    told: str


def replay(group: str, more: Path | None = None) -> list[Row]:
    """The verdicts on all answers of a chapter ("12") or a lab; ``more`` is the file of others."""
    listed = _listed(more) if more else {}
    return [
        Row(one.slug, which, verdict(one, answer))
        for one in (*judged(group), *questions_of(group), *pauses_of(group))
        for which, answer in (*_derived(one), *listed.get(one.slug, []))
    ]


def judged(group: str) -> list[Declaration]:
    """The exercises of a group that need nothing that a page lacks."""
    declared = [exercise.declaration for exercise in exercises_of(group)]
    return [one for one in declared if not one.about.needs]


def verdict(declaration: Declaration, answer: Any) -> str:
    """What an answer is told, on one line; addresses of objects are left out.

    >>> from dtlib.exercises.manifest import exercises_of
    >>> verdict(exercises_of("17")[3].declaration, "35 ms")[:7]
    'NotYet:'
    """
    try:
        told = f"passed: {declaration.judge(answer)}"
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
    return re.sub(r"0x[0-9a-f]+", "0x", told)


def _derived(declaration: Declaration) -> Iterator[tuple[str, Any]]:
    yield "right", declaration.right()
    for number, stub in enumerate(declaration.stubs()):
        yield f"stub {number}", stub
    for number, (answer, _) in enumerate(declaration.wrong()):
        yield f"slip {number}", answer


def _listed(file: Path) -> dict[str, list[tuple[str, Any]]]:
    """The answers of a file, by exercise."""
    spec = importlib.util.spec_from_file_location("listed", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    by_slug: dict[str, list[tuple[str, Any]]] = {}
    for kind in ("RIGHT", "WRONG"):
        for number, (slug, answer, *_) in enumerate(getattr(module, kind, [])):
            by_slug.setdefault(slug, []).append((f"{kind.lower()} {number}", answer))
    return by_slug
