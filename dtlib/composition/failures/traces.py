"""One trace of failures, and what it costs a job that restarts and one whose replicas vote.

The nouns:

- **Trace**: which replica fails in which tick, whatever the job does about it.
- **Voting**: how long the parts of a step take replicas that go on without those that are away.

Times are whole ticks. Those of replicas that vote are counted for each replica, in replica-ticks:
one tick of 64 replicas is 64 of them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from dtlib.composition.failures.account import Account, ticks
from dtlib.composition.failures.fleet import Fleet, Recovery
from dtlib.composition.failures.simulation import simulate_fleet
from dtlib.formulas.require import require, require_count, require_not_negative, require_positive

_FOR_GOOD = 1e12  # seconds that a node lives of which the trace has no failure


class Failure(NamedTuple):
    """In this tick this replica fails."""

    tick: int
    replica: int


def failure_trace(replicas: int, mtbf: float, duration: float, seed: int = 0) -> list[Failure]:
    """Failures at random: exponential times between them, and any replica as likely as another.

    Arguments: `replicas`, how many; `mtbf`, the mean seconds between failures of any of them;
    `duration` in seconds. Raises ValueError for what is not positive.

    >>> failure_trace(replicas=64, mtbf=3600, duration=7200, seed=1)[0]
    Failure(tick=519447831, replica=8)
    """
    require_count("failure_trace", replicas=replicas)
    require_positive("failure_trace", mtbf=mtbf, duration=duration)
    draw, now, trace = Random(seed), 0, []
    while (now := now + max(1, ticks(draw.expovariate(1 / mtbf)))) < ticks(duration):
        trace.append(Failure(now, draw.randrange(replicas)))
    return trace


class _Traced:
    """Lives of nodes: the n-th one lives until the n-th failure, those after them for good."""

    def __init__(self, trace: Sequence[Failure]):
        self.ends = iter(trace)

    def first(self, members: int, random: Random) -> float:
        failure = next(self.ends, None)
        return _FOR_GOOD if failure is None else failure.tick / ticks(1)


def restarts_account(trace: Sequence[Failure], recovery: Recovery, duration: float) -> Account:
    """What a trace costs a job that stops with each failure; a spare is always there.

    It is `simulate_fleet`, told when nodes fail. Raises ValueError as that does.

    >>> recovery = Recovery(interval=100, write_time=0, restart_time=50)
    >>> account = restarts_account([Failure(ticks(130), 0)], recovery, duration=400)
    >>> account.work / ticks(1), account.lost / ticks(1), account.goodput
    (320.0, 30.0, 0.8)
    """
    nodes = max(1, len(trace))
    fleet = Fleet(nodes, gpus_per_node=1, life=_Traced(trace), spares=nodes)
    return simulate_fleet(fleet, recovery, duration)


@dataclass(frozen=True)
class Voting:
    """How replicas go on. All times in seconds.

    A step is `rows` of the global batch, each `row_time` on one replica, shared out among those who
    take part, and a vote of `vote_time`. A failure cuts it short; the others notice after
    `detect_time`, and do it again. The failed one is back after `away_time`, at the end of a step,
    and then all wait for `heal_time`. A failure of one that is away keeps it away anew. Raises
    ValueError for counts below 1, fewer rows than replicas, and negative times.
    """

    replicas: int
    rows: int
    row_time: float
    vote_time: float = 0.0
    detect_time: float = 0.0
    heal_time: float = 0.0
    away_time: float = 0.0

    def __post_init__(self):
        require_count("Voting", replicas=self.replicas, rows=self.rows)
        require(self.rows >= self.replicas, "Voting", "rows", self.rows, "at least the replicas")
        require_positive("Voting", row_time=self.row_time)
        names = ("vote_time", "detect_time", "heal_time", "away_time")
        require_not_negative("Voting", **{name: getattr(self, name) for name in names})


@dataclass(frozen=True)
class QuorumAccount:
    """The time of replicas that vote, in replica-ticks, by what it went into.

    `work` is rows of steps that count. `uneven` is waiting within them for who has a row more,
    `voting` their votes, `lost` the steps that were cut short, by a failure or the end of the run;
    `detecting`, `healing` and `away` are the plan's.
    """

    work: int
    uneven: int
    voting: int
    lost: int
    detecting: int
    healing: int
    away: int
    failures: int

    @property
    def causes(self) -> dict[str, int]:
        """What was not work, in replica-ticks, by its cause."""
        names = ("uneven", "voting", "lost", "detecting", "healing", "away")
        return {name: getattr(self, name) for name in names}

    @property
    def total(self) -> int:
        """All replica-ticks of the run: replicas times its ticks."""
        return self.work + sum(self.causes.values())

    @property
    def goodput(self) -> float:
        """The share of the replicas' time that was work."""
        return self.work / self.total


def quorum_account(trace: Sequence[Failure], plan: Voting, duration: float) -> QuorumAccount:
    """What a trace costs replicas that vote; as `restarts_account`, for others to compare.

    Raises ValueError for a trace that leaves no replica that knows the state.

    >>> plan = Voting(replicas=4, rows=12, row_time=1, away_time=5)
    >>> account = quorum_account([Failure(ticks(4), 2)], plan, duration=15)
    >>> [spent / ticks(1) for spent in (account.work, account.lost, account.away)]
    [48.0, 4.0, 8.0]
    """
    require_positive("quorum_account", duration=duration)
    return _Vote(trace, plan, ticks(duration)).account()


class _Vote:
    """One run. `away`: when those who are not here will be back; `fresh`: who is not yet healed."""

    def __init__(self, trace: Sequence[Failure], plan: Voting, end: int):
        self.trace, self.plan, self.end = sorted(trace), plan, end
        self.now, self.seen = 0, 0
        self.away: dict[int, int] = {}
        self.fresh: set[int] = set()
        self.spent: Counter[str] = Counter()

    def account(self) -> QuorumAccount:
        while self.now < self.end:
            self._lose()
            if self.now < self.end and self._bring_back():
                self._steps()
        names = ("work", "uneven", "voting", "lost", "detecting", "healing", "away")
        return QuorumAccount(*(self.spent[name] for name in names), failures=self.seen)

    @property
    def here(self) -> int:
        return self.plan.replicas - len(self.away)

    def _next_failure(self) -> int:
        return self.trace[self.seen].tick if self.seen < len(self.trace) else self.end

    def _pass(self, what: str, until: int) -> bool:
        """Let time pass; False if a failure or the end of the run cut it short."""
        stop = min(until, self._next_failure(), self.end)
        self.spent[what] += (stop - self.now) * self.here
        self.spent["away"] += (stop - self.now) * len(self.away)
        self.now = stop
        return stop == until

    def _lose(self) -> None:
        """All failures until now, and those that come before they are noticed."""
        while self._next_failure() <= self.now < self.end:
            replica = self.trace[self.seen].replica
            self.seen += 1
            self.away[replica] = self.now + ticks(self.plan.away_time)
            self.fresh.discard(replica)
            left = self.here - len(self.fresh)
            require(left > 0, "quorum_account", "replicas left", left, "at least 1 at all times")
            self._pass("detecting", self.now + ticks(self.plan.detect_time))

    def _bring_back(self) -> bool:
        """Those whose time is over are back and are healed. Whether nobody had to be."""
        back = {replica for replica, tick in self.away.items() if tick <= self.now}
        self.fresh |= back
        for replica in back:
            del self.away[replica]
        if not self.fresh:
            return True
        if self._pass("healing", self.now + ticks(self.plan.heal_time)):
            self.fresh.clear()
        return False

    def _steps(self) -> None:
        """Step after step until somebody is back, a failure, or the end."""
        plan, row = self.plan, ticks(self.plan.row_time)
        share = -(-plan.rows // self.here)
        length = share * row + ticks(plan.vote_time)
        due = -(-(min([*self.away.values(), self.end]) - self.now) // length)
        cut = min(self._next_failure(), self.end)
        whole = min(due, (cut - self.now) // length)
        self.spent["work"] += whole * plan.rows * row
        self.spent["uneven"] += whole * (share * self.here - plan.rows) * row
        self.spent["voting"] += whole * self.here * ticks(plan.vote_time)
        self.spent["away"] += whole * length * len(self.away)
        self.now += whole * length
        if whole < due:
            self._pass("lost", cut)
