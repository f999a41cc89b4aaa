"""Where a chapter's exercises and quick questions are declared: in the room of its part."""

from importlib import import_module
from importlib.util import find_spec

from dtlib.contents import chapter, padded


def module_of(what: str, number: str) -> str:
    """The module of a chapter's "chapters" (its exercises) or "questions"; "" where there is none.

    A lab, which has a name in place of a number, has no questions, nor has a page without one.

    >>> module_of("questions", "12")
    'dtlib.exercises.questions.collectives.ch12'
    >>> [module_of("questions", name) for name in ("37", "all-reduce", "")]
    ['', '', '']
    """
    if not number[:1].isdigit():
        return ""
    room = f"dtlib.exercises.{what}.{chapter(number).room}"
    module = f"{room}.ch{padded(number)}"
    return module if find_spec(room) and find_spec(module) else ""


def declared(module: str, kind: type) -> list:
    """What of a kind a module defines, in its order; nothing of no module."""
    things = vars(import_module(module)).values() if module else ()
    return [thing for thing in things if isinstance(thing, kind)]
