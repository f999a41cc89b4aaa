"""A job of replicas that go on without the one that failed, simulated: a quorum for each step.

It counts in replica-ticks: a microsecond of one replica. So the account of N replicas adds up to N
times the duration, exactly. It jumps over the steps between two events.
"""

import heapq
from dataclasses import dataclass
from random import Random

from dtlib.composition.failures.account import Account, ticks
from dtlib.composition.failures.fleet import Fleet
from dtlib.formulas.require import is_number, require, require_not_negative, require_positive


@dataclass(frozen=True)
class QuorumRecovery:
    """How replicas go on when one fails. All times in seconds.

    A step of all replicas takes `step_time`, and one of fewer takes longer, for the same batch. A
    failure undoes the step under way; `detect_time` later the others do it again. A spare is taken,
    and `heal_time` later it has a peer's state and joins at the next step. Raises ValueError for
    a step time under a microsecond and for negative times.
    """

    step_time: float
    detect_time: float = 0.0
    heal_time: float = 0.0

    def __post_init__(self):
        require_positive("QuorumRecovery", step_time=self.step_time)
        good = ticks(self.step_time) > 0
        require(good, "QuorumRecovery", "step_time", self.step_time, "at least a microsecond")
        require_not_negative(
            "QuorumRecovery", detect_time=self.detect_time, heal_time=self.heal_time
        )


def simulate_quorum(
    fleet: Fleet, recovery: QuorumRecovery, duration: float, seed: int = 0
) -> Account:
    """The account of a job whose replicas are the fleet's nodes; one seed, one account.

    It is in ticks of one replica each, without phases. `lost` is steps that a failure undid,
    `detecting` the replicas that wait until it is noticed, the failed one among them, `waiting` and
    `restarting` what that one misses then. While no replica is left, time passes without work, and
    the state that then comes back is taken to be the last. What is begun at the end counts as work.
    Raises ValueError for a duration under a microsecond.

    >>> from dtlib.composition import Lifetime
    >>> fleet = Fleet(64, 256, Lifetime(mean=50_000 * 3600), spares=2, repair_time=86400)
    >>> recovery = QuorumRecovery(step_time=10, detect_time=5, heal_time=600)
    >>> simulate_quorum(fleet, recovery, duration=30 * 86400, seed=1).total // (64 * 10**6)
    2592000
    """
    good = is_number(duration) and ticks(duration) > 0
    require(good, "simulate_quorum", "duration", duration, "at least a microsecond")
    return _Replicas(fleet, recovery, ticks(duration), Random(seed)).account()


class _Replicas:
    """`failures` and `returns` are heaps of ticks, `free` of the ticks at which spares are."""

    def __init__(self, fleet: Fleet, recovery: QuorumRecovery, end: int, random: Random):
        self.fleet, self.recovery, self.end, self.random = fleet, recovery, end, random
        self.now, self.failed = 0, 0
        self.spent = dict.fromkeys(("work", "lost", "detecting", "waiting", "restarting"), 0)
        self.failures = [self._life() for _ in range(fleet.nodes)]
        heapq.heapify(self.failures)
        self.returns: list[tuple[int, int]] = []
        self.free = [0] * fleet.spares

    def account(self) -> Account:
        """What the replicas' time went into, once the run is over."""
        while self.now < self.end:
            self._join()
            if self.failures:
                self._steps()
            else:
                self.now = min(self.returns[0][0], self.end)
        for _, taken in self.returns:
            self.spent["restarting"] += max(0, self.end - taken)
        return Account(**self.spent, saving=0, failures=self.failed, phases=())

    def _life(self) -> int:
        life = self.fleet.life.first(self.fleet.gpus_per_node, self.random)
        return self.now + max(1, ticks(life))

    def _join(self) -> None:
        while self.returns and self.returns[0][0] <= self.now:
            _, taken = heapq.heappop(self.returns)
            self.spent["restarting"] += self.now - taken
            heapq.heappush(self.failures, self._life())

    def _steps(self) -> None:
        """Whole steps until something happens, or the one in which it does."""
        up = len(self.failures)
        step = -(-ticks(self.recovery.step_time) * self.fleet.nodes // up)
        event = min(self.failures[0], self.end, *(ready for ready, _ in self.returns[:1]))
        whole = (event - self.now) // step
        stop = self.now + (whole or 1) * step
        broken = self.failures[0] < stop and self.failures[0] < self.end
        stop = min(self.failures[0] if broken else stop, self.end)
        self.spent["lost" if broken else "work"] += up * (stop - self.now)
        self.now = stop
        if self.failures[0] <= self.now < self.end:
            self._detect()

    def _detect(self) -> None:
        """Lose replicas until the others have noticed all that failed meanwhile."""
        noticed = self.now
        while self.failures and self.failures[0] <= noticed and self.now < self.end:
            died = self.failures[0]
            self._pass(min(died, self.end))
            if died >= self.end:
                return
            heapq.heappop(self.failures)
            self._lose(died)
            noticed = died + ticks(self.recovery.detect_time)
        self._pass(min(noticed, self.end))

    def _pass(self, until: int) -> None:
        """Those that are left wait."""
        until = max(until, self.now)
        self.spent["detecting"] += len(self.failures) * (until - self.now)
        self.now = until

    def _lose(self, died: int) -> None:
        noticed = died + ticks(self.recovery.detect_time)
        heapq.heappush(self.free, noticed + ticks(self.fleet.repair_time))
        taken = max(noticed, heapq.heappop(self.free))
        heapq.heappush(self.returns, (taken + ticks(self.recovery.heal_time), taken))
        self.failed += 1
        self.spent["detecting"] += min(noticed, self.end) - died
        self.spent["waiting"] += min(taken, self.end) - min(noticed, self.end)
