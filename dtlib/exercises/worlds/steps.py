"""A world without threads: its ranks take turns, and who must wait starts again when it may go on.

A program of blocking calls cannot be left in the middle without a thread of its own. So a rank that
has to wait is unwound, and when what it waits for has come it runs again from its beginning: what
it had received by then is still there, and the calls that led here return at once. That is the
same run as long as a program does what it receives; what it prints is printed once.
"""

import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any, TextIO

from dtlib.exercises.worlds.world import Unwound, Wait, World, raised


class Steps(World):
    """A world that runs in one thread, each rank in its turn, the lowest first.

    >>> world, there = Steps(2), [False, False]
    >>> def meet(rank):
    ...     there[rank] = True
    ...     world.until(rank, lambda: None if there[1 - rank] else 1 - rank, "waits for")
    ...     print("rank", rank)
    ...     return rank
    >>> world.run(meet, timeout=10)
    rank 1
    rank 0
    [0, 1]
    """

    def __init__(self, size: int):
        super().__init__(size)
        self.lock = _NoLock()
        self._running = -1
        self._diaries: dict[int, list] = defaultdict(list)

    def run(self, program: Callable[[int], Any], timeout: float) -> list:
        results: list = [None] * self.size
        printed = [_Once(sys.stdout) for _ in range(self.size)]
        while ready := [rank for rank in range(self.size) if self._may_run(rank)]:
            for rank in ready:
                with redirect_stdout(printed[rank].again()):
                    self._turn(rank, program, results)
        if self.is_stuck() and not self.failures:
            raise self.deadlock()
        return self.ended(results)

    def until(self, rank: int, late: Callable[[], int | None], says: str) -> None:
        self.go_on()
        if late() is not None:
            self.waiting[rank] = Wait(late, says)
            raise Unwound

    def go_on(self) -> None:
        if self._running in self.waiting:
            raise Unwound

    def diary(self, rank: int, empty: list | dict) -> list | dict:
        self._diaries[rank].append(empty)
        return empty

    def _may_run(self, rank: int) -> bool:
        waits = rank in self.waiting and self.waiting[rank].late() is not None
        return rank not in self.finished and not waits

    def _turn(self, rank: int, program: Callable[[int], Any], results: list) -> None:
        """Run a rank from its beginning: to its end, or to where it must wait."""
        self._running = rank
        self.waiting.pop(rank, None)
        for diary in self._diaries[rank]:
            diary.clear()
        failure = None
        try:
            results[rank] = program(rank)
        except Unwound:
            pass
        except Exception as error:
            failure = raised(rank, error)
        if rank not in self.waiting:
            self.finished.add(rank)
            self.failures |= {rank: failure} if failure else {}


class _NoLock:
    """What the lock of a world is where nobody runs beside another."""

    def __enter__(self) -> None:
        """Nobody has to be kept out."""

    def __exit__(self, *error: object) -> None:
        """Nobody has to be let in."""

    def notify_all(self) -> None:
        """Nobody is asleep: who waits is asked when its turn comes."""


class _Once:
    """What a rank prints, without what it has printed in its earlier turns."""

    def __init__(self, out: TextIO):
        self._out, self._said, self._again = out, 0, 0

    def again(self) -> "_Once":
        self._again = self._said
        return self

    def write(self, text: str) -> int:
        fresh = text[self._again :]
        self._again = max(0, self._again - len(text))
        self._said += len(fresh)
        self._out.write(fresh)
        return len(text)

    def flush(self) -> None:
        self._out.flush()
