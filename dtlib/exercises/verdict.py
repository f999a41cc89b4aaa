"""What a check answers: passed, not yet, or that there is no such exercise."""

from dataclasses import dataclass

from dtlib.errors import DtlibError


@dataclass(frozen=True)
class Passed:
    """The verdict of a check that found nothing wrong: what it verified, in one line.

    >>> Passed("12.4", "all 56 sends carry the right chunk")
    12.4 passed: all 56 sends carry the right chunk
    """

    label: str
    verified: str

    def __repr__(self) -> str:
        return f"{self.label} passed: {self.verified}"


class NotYet(DtlibError, AssertionError):
    """The answer is not right yet. The message says what is wrong, never what is right.

    Notebooks print it as one line, without a traceback: the reader's mistake is in the reader's
    cell, not in the frames of this library.
    """

    def __init__(self, reason: str, label: str = ""):
        super().__init__(f"{label}: {reason}" if label else reason)
        self.reason = reason
        self.label = label

    def __repr__(self) -> str:
        return f"Not yet. {self}"

    def _render_traceback_(self) -> list[str]:
        return [repr(self)]


class UnknownExercise(DtlibError, LookupError):
    """No exercise has this label."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]
