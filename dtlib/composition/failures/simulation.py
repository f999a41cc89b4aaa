"""A job on a fleet, simulated: how the time passes in work, failure, detection, spare and restart.

It jumps from one failure to the next: 90 days of 100,000 GPUs take under a second. A phase lasts
until its own end, the next failure or the end of the run, whichever is first; times are whole
ticks. A failure in the tick in which a phase ends comes after it.
"""

import heapq
from random import Random

from dtlib.composition.failures.account import Account, Phase, ticks
from dtlib.composition.failures.fleet import Fleet, Recovery
from dtlib.formulas.require import is_number, require


def simulate_fleet(fleet: Fleet, recovery: Recovery, duration: float, seed: int = 0) -> Account:
    """The account of a job that runs on the fleet for `duration` seconds; one seed, one account.

    All GPUs of the job age while it is down, too. A failure that comes while the job is down begins
    a new detection, and the job then needs one more spare. What is not saved at the end counts as
    work. Raises ValueError for a duration under a microsecond.

    >>> from dtlib.composition import Lifetime
    >>> fleet = Fleet(128, 8, Lifetime(mean=25_000 * 3600), spares=2, repair_time=2 * 86400)
    >>> recovery = Recovery(interval=600, write_time=15, detect_time=30, restart_time=120)
    >>> simulate_fleet(fleet, recovery, duration=30 * 86400, seed=1).table()
    31 failures in 30 d
      item        time    share
      work        21 d    68.47%
      saving      12 h    1.71%
      lost        94 min  0.22%
      detecting   16 min  0.04%
      waiting     8.8 d   29.49%
      restarting  32 min  0.07%
    """
    good = is_number(duration) and ticks(duration) > 0
    require(good, "simulate_fleet", "duration", duration, "at least a microsecond")
    return _Run(fleet, recovery, ticks(duration), Random(seed)).account()


class _Run:
    """One run of a job on a fleet, from its start to the tick `end`.

    `failures` and `repairs` are heaps of the ticks at which the job's nodes fail and failed ones
    are spares again. `missing` is how many nodes the job has lost and not replaced; `cold` says
    that a node taken since the last start had to be waited for.
    """

    def __init__(self, fleet: Fleet, recovery: Recovery, end: int, random: Random):
        self.fleet, self.recovery, self.end, self.random = fleet, recovery, end, random
        self.now, self.spares, self.missing, self.cold = 0, fleet.spares, 0, False
        self.work, self.saving, self.lost_nodes = 0, 0, 0
        self.phases: list[Phase] = []
        self.failures = [self._life() for _ in range(fleet.nodes)]
        heapq.heapify(self.failures)
        self.repairs: list[int] = []

    def account(self) -> Account:
        """What the time went into, once the run is over."""
        while self.now < self.end:
            self._work()
            self._recover()
        spent = dict.fromkeys(("lost", "detecting", "waiting", "restarting"), 0)
        for what, start, stop in self.phases:
            if what != "kept":
                spent[what] += stop - start
        return Account(
            self.work, self.saving, **spent, failures=self.lost_nodes, phases=tuple(self.phases)
        )

    def _life(self) -> int:
        """The tick in which a node that joins the job now will fail."""
        life = self.fleet.life.first(self.fleet.gpus_per_node, self.random)
        return self.now + max(1, ticks(life))

    def _next_failure(self) -> int:
        """Its tick; the end of the run where no node is left that could fail."""
        return self.failures[0] if self.failures else self.end

    def _pass(self, what: str, until: int) -> bool:
        """Let time pass in one phase; False if a failure or the end of the run cut it short."""
        stop = min(until, self._next_failure(), self.end)
        if stop > self.now:
            self.phases.append(Phase(what, self.now, stop))
        self.now = stop
        return stop == until

    def _work(self) -> None:
        """Work and save until a failure, which leaves the last safe checkpoint, or to the end."""
        work, write = ticks(self.recovery.interval), ticks(self.recovery.write_time)
        stop = min(self._next_failure(), self.end)
        elapsed = stop - self.now
        if stop < self.end:
            safe = max(0, (elapsed - ticks(self.recovery.persist_lag)) // (work + write))
            rest, saved = 0, safe
        else:
            saved, rest = divmod(elapsed, work + write)
        self.work += saved * work + min(rest, work)
        self.saving += saved * write + max(0, rest - work)
        self._pass("kept", self.now + saved * (work + write) + rest)
        self._pass("lost", stop)

    def _recover(self) -> None:
        """From a failure to the next work, through the failures on the way."""
        while self.now < self.end:
            self._lose_node()
            if self._detect() and self._replace() and self._restart():
                return

    def _lose_node(self) -> None:
        heapq.heappop(self.failures)
        self.lost_nodes += 1
        self.missing += 1
        noticed = self.now + ticks(self.recovery.detect_time)
        heapq.heappush(self.repairs, noticed + ticks(self.fleet.repair_time))

    def _detect(self) -> bool:
        return self._pass("detecting", self.now + ticks(self.recovery.detect_time))

    def _replace(self) -> bool:
        """Take spares for all that is missing; wait for repairs where there are too few."""
        self._take_spares()
        while self.missing:
            self.cold = True
            if not self._pass("waiting", self.repairs[0]):
                return False
            self._take_spares()
        return True

    def _take_spares(self) -> None:
        while self.repairs and self.repairs[0] <= self.now:
            heapq.heappop(self.repairs)
            self.spares += 1
        taken = min(self.missing, self.spares)
        self.spares, self.missing = self.spares - taken, self.missing - taken
        for _ in range(taken):
            heapq.heappush(self.failures, self._life())

    def _restart(self) -> bool:
        swap = self.recovery.swap_time
        time = self.recovery.restart_time if swap is None or self.cold else swap
        done = self._pass("restarting", self.now + ticks(time))
        self.cold = self.cold and not done
        return done
