"""One world of ranks in memory: they wait for one another, never hang, and fail in one way."""

import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from dtlib.errors import DtlibError
from dtlib.exercises.verdict import NotYet

Container = TypeVar("Container", list, dict)


class TransportError(DtlibError, RuntimeError):
    """A rank broke a rule of communication, or raised."""

    @property
    def reason(self) -> str:
        """The first line, as `NotYet` has one."""
        return str(self).splitlines()[0]

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class Deadlock(TransportError):
    """No rank can go on: each waits for another, or for one that has finished."""

    def _render_traceback_(self) -> list[str]:
        return [f"Deadlock: {str(self).removeprefix('deadlock: ')}"]


class World(ABC):
    """Ranks 0 to ``size - 1``; what they share is read and changed under ``lock``.

    After a rank has failed, the others go on as long as they can: so every run ends in the same
    way, with the failure of the lowest rank that failed. `world_of` says which kind there is:
    `Threads`, or `Steps` where there are none.
    """

    lock: Any

    def __init__(self, size: int):
        self.size = size
        self.waiting: dict[int, Wait] = {}
        self.finished: set[int] = set()
        self.failures: dict[int, Exception] = {}

    @abstractmethod
    def run(self, program: Callable[[int], Any], timeout: float) -> list:
        """The results of ``program(rank)``, in order; or the failure, or a rank that never ends."""

    @abstractmethod
    def until(self, rank: int, late: Callable[[], int | None], says: str) -> None:
        """Block ``rank`` as long as ``late()`` names a rank; ``says`` leads to its name."""

    @abstractmethod
    def go_on(self) -> None:
        """Unwind the calling rank if it is not to run on."""

    def diary(self, rank: int, empty: Container) -> Container:
        """``empty``, for what ``rank`` does in this run; a rank that starts anew finds it empty."""
        return empty

    def is_stuck(self) -> bool:
        """Whether somebody waits and nobody can go on."""
        stuck = self._stuck()
        return bool(stuck) and len(stuck) + len(self.finished) == self.size

    def deadlock(self) -> Deadlock:
        """Who waits for whom."""
        return Deadlock(_described(self._stuck()))

    def ended(self, results: list) -> list:
        """``results``, or the failure of the lowest rank that failed."""
        if self.failures:
            failure = self.failures[min(self.failures)]
            raise failure from failure.__cause__
        return results

    def _stuck(self) -> dict[int, "Wait"]:
        return {rank: wait for rank, wait in self.waiting.items() if wait.late() is not None}


class Wait(NamedTuple):
    """For whom a rank waits, if anybody is late, and the words that lead to that rank's name."""

    late: Callable[[], int | None]
    says: str


class Unwound(BaseException):
    """Takes a rank out of the reader's program, through every ``except Exception``."""


def _described(stuck: dict[int, Wait]) -> str:
    """Follow who waits for whom, from the lowest rank on, as long as it leads to something new."""
    sentences, told = [], set()
    for start in sorted(stuck):
        clauses, rank, before = [], start, set(told)
        while rank in stuck and rank not in told:
            told.add(rank)
            wait = stuck[rank]
            rank = wait.late()
            clauses.append(f"{wait.says} rank {rank}")
        if rank not in before:
            tail = "" if rank in stuck else ", which has finished"
            sentences.append(f"rank {start} " + ", which ".join(clauses) + tail)
        told.add(rank)
    return "deadlock: " + "; ".join(sentences)


def refuse_work_of(*packages: str) -> None:
    """Raise `TransportError` when code of one of these packages stands in the calls that led here.

    A check wants to see the reader's own communication.
    """
    for package in packages:
        if called_from(package):
            raise TransportError(f"this communication comes from {package}: write your own")


def called_from(package: str) -> bool:
    """Does code of ``package`` stand in the calls that led here?"""
    frame = sys._getframe()
    while frame:
        if frame.f_globals.get("__name__", "").startswith(package):
            return True
        frame = frame.f_back
    return False


def raised(rank: int, error: Exception) -> Exception:
    """The error of one rank, in one line, with the line of the reader's program."""
    if isinstance(error, TransportError | NotYet):
        return error
    if isinstance(error, NotImplementedError):
        return TransportError("there is nothing here yet: the function raises NotImplementedError")
    line = _readers_line(error)
    where = f", at: {line}" if line else ""
    failure = TransportError(f"rank {rank} raised {type(error).__name__}: {error}{where}")
    failure.__cause__ = error
    return failure


def _readers_line(error: Exception) -> str:
    """The deepest line of the traceback that is neither ours nor an installed package's."""
    ours = Path(__file__).parents[1]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if ours not in path.parents and "site-packages" not in path.parts:
            return frame.line or ""
    return ""
