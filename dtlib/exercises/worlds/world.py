"""One world of ranks in memory: threads that share a lock, wait for one another, and never hang."""

import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dtlib.errors import DtlibError
from dtlib.exercises.verdict import NotYet
from dtlib.runtime.patience import join_patiently


class TransportError(DtlibError, RuntimeError):
    """A rank broke a rule of communication, or raised."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class Deadlock(TransportError):
    """No rank can go on: each waits for another, or for one that has finished."""

    def _render_traceback_(self) -> list[str]:
        return [f"Deadlock: {str(self).removeprefix('deadlock: ')}"]


class World:
    """Ranks 0 to ``size - 1``, each a thread; what they share is read and changed under ``lock``.

    After a rank has failed, the others go on as long as they can: so every run ends in the same
    way, with the failure of the lowest rank that failed.

    >>> world = World(2)
    >>> there = [False, False]
    >>> def meet(rank):
    ...     with world.lock:
    ...         there[rank] = True
    ...         world.lock.notify_all()
    ...         world.until(rank, lambda: None if there[1 - rank] else 1 - rank, "waits for")
    ...     return rank
    >>> world.run(meet, timeout=10)
    [0, 1]
    >>> world = World(2)
    >>> world.run(lambda rank: rank or world.until(0, lambda: 1, "waits for"), timeout=10)
    Traceback (most recent call last):
    dtlib.exercises.worlds.world.Deadlock: deadlock: rank 0 waits for rank 1, which has finished
    """

    def __init__(self, size: int):
        self.size = size
        self.lock = threading.Condition()
        self._waiting: dict[int, _Wait] = {}
        self._finished: set[int] = set()
        self._failures: dict[int, Exception] = {}
        self._stopped = False

    def run(self, program: Callable[[int], Any], timeout: float) -> list:
        """The results of ``program(rank)``, in order; or the failure, or a rank that never ends."""
        results: list = [None] * self.size
        threads = [
            threading.Thread(target=self._rank, args=(rank, program, results), daemon=True)
            for rank in range(self.size)
        ]
        for thread in threads:
            thread.start()
        join_patiently(threads, timeout)
        if any(thread.is_alive() for thread in threads):
            self._stop(self._never_ending())
        if self._failures:
            failure = self._failures[min(self._failures)]
            raise failure from failure.__cause__
        return results

    def until(self, rank: int, late: Callable[[], int | None], says: str) -> None:
        """Block ``rank`` as long as ``late()`` names a rank; ``says`` leads to its name."""
        with self.lock:
            self.go_on()
            self._waiting[rank] = _Wait(late, says)
            self._stop_if_stuck()
            while late() is not None and not self._stopped:
                self.lock.wait()
            del self._waiting[rank]
            self.go_on()

    def go_on(self) -> None:
        """Unwind the calling rank if the run has been ended meanwhile."""
        if self._stopped:
            raise _Stopped

    def _rank(self, rank: int, program: Callable[[int], Any], results: list) -> None:
        try:
            results[rank] = program(rank)
        except _Stopped:
            return
        except Exception as error:
            self._failures[rank] = raised(rank, error)
        with self.lock:
            self._finished.add(rank)
            self._stop_if_stuck()

    def _stop_if_stuck(self) -> None:
        """Once nobody can go on, end the run: with the failures there are, or with a deadlock."""
        stuck = {r: w for r, w in self._waiting.items() if w.late() is not None}
        if stuck and len(stuck) + len(self._finished) == self.size:
            self._stop(None if self._failures else Deadlock(_described(stuck)))

    def _stop(self, failure: Exception | None) -> None:
        with self.lock:
            if failure and not self._failures:
                self._failures[0] = failure
            self._stopped = True
            self.lock.notify_all()

    def _never_ending(self) -> TransportError:
        with self.lock:
            busy = set(range(self.size)) - self._finished - set(self._waiting)
        return TransportError(
            f"rank {min(busy, default=0)} neither finishes nor waits: does a loop never end?"
        )


class _Wait(NamedTuple):
    late: Callable[[], int | None]
    says: str


class _Stopped(BaseException):
    """Unwinds a rank when the run is ended."""


def _described(stuck: dict[int, _Wait]) -> str:
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
