"""Post-training as asynchrony with a queue: generators make samples, a trainer uses them up.

The nouns:

- **Sample**: one rollout, made with the weights of the version that its generator had at its start.
- **Queue**: samples that are made and not used yet.
- **Batch**: the samples of one update; the version grows by one.
- **Cap**: a sample may be used at most so many versions after its start; 0 is on-policy.

`Admission` is the rule, of counts alone; the simulator and real ranks both ask it.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dtlib.formulas.require import require, require_count


@dataclass
class Admission:
    """Who may start a sample, and which samples make a batch.

    Equation: sample n, counted by its start, is used in update n // B, so it may start
    at version v if n // B <= v + cap. Samples are used in the order
    of their starts: a batch waits for its own longest sample, and no sample is older than the cap.
    Without a cap (None) any may start, and a batch takes what is made first.
    Raises ValueError for a batch below 1 or a cap below 0.

    >>> rule = Admission(batch=2, cap=0)
    >>> [rule.start() for _ in range(3)]        # the third would belong to the next update
    [0, 1, None]
    """

    batch: int
    cap: int | None = None
    version: int = 0
    born: list[int] = field(default_factory=list)
    made: list[int] = field(default_factory=list)
    used: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self):
        require_count("Admission", batch=self.batch)
        if self.cap is not None:
            require_count("Admission", least=0, cap=self.cap)

    def start(self) -> int | None:
        """The number of a new sample, or None while none may start."""
        n = len(self.born)
        if self.cap is not None and n // self.batch > self.version + self.cap:
            return None
        self.born.append(self.version)
        return n

    def finish(self, n: int) -> None:
        """Sample n is made."""
        self.made.append(n)

    def take(self) -> list[int] | None:
        """The samples of the next batch, if they are there, for the present version to use."""
        due = range(self.version * self.batch, (self.version + 1) * self.batch)
        ready = [n for n in self.made if n in due] if self.cap is not None else self.made
        if len(ready) < self.batch:
            return None
        batch = ready[: self.batch]
        self.made = [n for n in self.made if n not in batch]
        self.used += [(n, self.version) for n in batch]
        return batch

    def updated(self) -> None:
        """The batch that was taken has made an update."""
        self.version += 1

    @property
    def staleness(self) -> list[int]:
        """Of each sample that was used: versions between its start and its use."""
        return [version - self.born[n] for n, version in self.used]


@dataclass(frozen=True)
class Shares:
    """What a run of generators and a trainer was: `seconds`, and the share of them without work.

    `generators` and `trainer`, idle shares; `staleness`, of each sample that was used, in updates.
    """

    seconds: float
    generators: float
    trainer: float
    staleness: list[int]

    @property
    def mean_staleness(self) -> float:
        """On average over the samples."""
        return sum(self.staleness) / len(self.staleness)


def simulate_rollouts(
    rule: Admission,
    generators: int,
    lengths: Callable[[], float],
    training: float,
    updates: int,
) -> Shares:
    """Generators and one trainer in virtual time, until so many updates are made.

    Arguments: `rule`, a new one; `generators`, their number, each with one sample at a time;
    `lengths`, called for the seconds that a sample takes; `training`, seconds of an update. A
    generator reads new weights before each sample, which takes no time.
    Raises ValueError where generators can never fill a batch.
    """
    require_count("simulate_rollouts", generators=generators, updates=updates)
    now, busy, events = 0.0, 0.0, []
    idle, trains = list(range(generators)), False

    def go_on() -> None:
        nonlocal busy, trains
        while idle and (n := rule.start()) is not None:
            length = lengths()
            busy += length
            heapq.heappush(events, (now + length, n, idle.pop()))
        if not trains and rule.take() is not None:
            trains = True
            heapq.heappush(events, (now + training, -1, -1))

    go_on()
    while rule.version < updates:
        require(bool(events), "simulate_rollouts", "cap", rule.cap, "one that lets a batch fill")
        now, n, generator = heapq.heappop(events)
        if n < 0:
            rule.updated()
            trains = False
        else:
            rule.finish(n)
            idle.append(generator)
        if rule.version < updates:
            go_on()
    busy -= sum(time - now for time, n, _ in events if n >= 0)
    return Shares(now, 1 - busy / (generators * now), 1 - updates * training / now, rule.staleness)


def importance(new: Iterable[float], old: Iterable[float], *, most: float | None = None):
    """What each action counts when the policy that drew it is not the one that learns from it.

    Equation: pi(a) / pi_old(a), truncated at `most`. Arguments: the
    probabilities of the actions under both. Raises ValueError where the old policy never draws what
    the new one does: no weight repairs that.

    >>> importance((0.5, 0.5), (0.8, 0.2), most=2.0)
    [0.625, 2.0]
    """
    weights = []
    for p, q in zip(new, old, strict=True):
        require(q > 0 or p == 0, "importance", "old", q, "above 0 wherever new is")
        ratio = p / q if q else 0.0
        weights.append(ratio if most is None else min(ratio, most))
    return weights
