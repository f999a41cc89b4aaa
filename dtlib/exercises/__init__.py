"""Checks for the reader's own answers: ``check("12.4", my_ring)``.

A check runs what the reader wrote, over a recording transport or on inputs of its own, and judges
what it did. It says what is wrong and where, and keeps the right value to itself.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.exercises.answers.unanswered import Unanswered, attempt
    from dtlib.exercises.engine import check
    from dtlib.exercises.practice.job import PracticeJob
    from dtlib.exercises.practice.link import PracticeLink
    from dtlib.exercises.verdict import NotYet, Passed, UnknownExercise
    from dtlib.exercises.worlds.messages import Comm, record
    from dtlib.exercises.worlds.trace import Message, Trace
    from dtlib.exercises.worlds.world import Deadlock, TransportError

__getattr__, __dir__, __all__ = face(__name__)
