"""A clock for waiting: it tells slow ranks from ranks that hang.

On a busy machine a rank may want to go on and get no processor. A machine that is suspended, or
a job that is stopped for a while, does nothing at all. A clock on the wall would take either for a
hang; this one stands still meanwhile.
"""

import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path

# Who waits looks at the clock at least so often, in seconds. If not, he was stopped himself.
LONGEST_LOOK = 1.0


class Patience:
    """Seconds since it was made, less those in which the hindered one of some processes waited.

    What counts is the longest wait of one thread for a processor, which Linux records. Where
    nothing is recorded, it is a clock like any other, but for one thing: between two looks it
    goes on by `LONGEST_LOOK` at most, since a process that looks later has slept, and the machine
    with it.
    """

    def __init__(self, processes: Iterable[int]) -> None:
        self._processes = list(processes)
        self._awake, self._looked = 0.0, time.monotonic()
        self._waited = self._waits()

    def elapsed(self) -> float:
        """The seconds so far, in which each of the processes could have gone on."""
        awake = self._look()
        waits = self._waits()
        longest = max((wait - self._waited.get(at, 0.0) for at, wait in waits.items()), default=0.0)
        return awake - min(longest, awake)

    def left(self, seconds: float) -> float:
        """How long to wait until the next look; 0 or less when so many seconds are over.

        As long as they are not over for this process, no other's waits need to be read.
        """
        rest = seconds - self._look()
        return min(rest if rest > 0 else seconds - self.elapsed(), LONGEST_LOOK)

    def _look(self) -> float:
        """The seconds in which this process was awake, or could have been."""
        now = time.monotonic()
        self._awake += min(now - self._looked, LONGEST_LOOK)
        self._looked = now
        return self._awake

    def _waits(self) -> dict[str, float]:
        return {
            thread: wait
            for process in self._processes
            for thread, wait in seconds_without_processor(process).items()
        }


def join_patiently(threads: Iterable[threading.Thread], seconds: float) -> None:
    """Wait for threads of this process, for so many seconds in which it had a processor."""
    patience = Patience([os.getpid()])
    for thread in threads:
        while thread.is_alive() and (rest := patience.left(seconds)) > 0:
            thread.join(max(rest, 0.01))


def seconds_without_processor(process: int) -> dict[str, float]:
    """For each thread of a process, the seconds in which it wanted a processor and had none."""
    threads = Path(f"/proc/{process}/task")
    try:
        names = os.listdir(threads)
    except OSError:
        return {}  # the process has ended, or this system has no such files
    waits = {}
    for name in names:
        try:
            _, waiting, _ = (threads / name / "schedstat").read_text().split()
        except (OSError, ValueError):
            continue  # the thread has ended, or this kernel does not count
        waits[name] = int(waiting) / 1e9
    return waits
