"""A world whose ranks are threads, and the choice between it and one whose ranks are stepped."""

import sys
import threading
from collections.abc import Callable
from typing import Any

from dtlib.exercises.worlds.steps import Steps
from dtlib.exercises.worlds.world import TransportError, Unwound, Wait, World, raised
from dtlib.runtime.patience import join_patiently


def world_of(size: int) -> World:
    """Ranks that run side by side; or, where no thread can be started, one after the other."""
    return (Threads if threads_start() else Steps)(size)


def threads_start() -> bool:
    """Whether this Python has threads; that of a page only has their names."""
    return sys.thread_info.name != "pthread-stubs"


class Threads(World):
    """A world in which each rank is a thread, and one that never ends is reported.

    >>> world = Threads(2)
    >>> there = [False, False]
    >>> def meet(rank):
    ...     with world.lock:
    ...         there[rank] = True
    ...         world.lock.notify_all()
    ...         world.until(rank, lambda: None if there[1 - rank] else 1 - rank, "waits for")
    ...     return rank
    >>> world.run(meet, timeout=10)
    [0, 1]
    >>> world = Threads(2)
    >>> world.run(lambda rank: rank or world.until(0, lambda: 1, "waits for"), timeout=10)
    Traceback (most recent call last):
    dtlib.exercises.worlds.world.Deadlock: deadlock: rank 0 waits for rank 1, which has finished
    """

    def __init__(self, size: int):
        super().__init__(size)
        self.lock = threading.Condition()
        self._stopped = False

    def run(self, program: Callable[[int], Any], timeout: float) -> list:
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
        return self.ended(results)

    def until(self, rank: int, late: Callable[[], int | None], says: str) -> None:
        with self.lock:
            self.go_on()
            self.waiting[rank] = Wait(late, says)
            self._stop_if_stuck()
            while late() is not None and not self._stopped:
                self.lock.wait()
            del self.waiting[rank]
            self.go_on()

    def go_on(self) -> None:
        if self._stopped:
            raise Unwound

    def _rank(self, rank: int, program: Callable[[int], Any], results: list) -> None:
        try:
            results[rank] = program(rank)
        except Unwound:
            return
        except Exception as error:
            self.failures[rank] = raised(rank, error)
        with self.lock:
            self.finished.add(rank)
            self._stop_if_stuck()

    def _stop_if_stuck(self) -> None:
        """Once nobody can go on, end the run: with the failures there are, or with a deadlock."""
        if self.is_stuck():
            self._stop(None if self.failures else self.deadlock())

    def _stop(self, failure: Exception | None) -> None:
        with self.lock:
            if failure and not self.failures:
                self.failures[0] = failure
            self._stopped = True
            self.lock.notify_all()

    def _never_ending(self) -> TransportError:
        with self.lock:
            busy = set(range(self.size)) - self.finished - set(self.waiting)
        return TransportError(
            f"rank {min(busy, default=0)} neither finishes nor waits: does a loop never end?"
        )
