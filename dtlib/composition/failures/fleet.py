"""A fleet that a job runs on for months, and how the job saves and comes back. The nouns:

- **Lifetime**: how long a GPU works until it fails. A node fails with the first of its GPUs.
- **Fleet**: the nodes that the job needs, spare ones, and the repair of those that failed.
- **Recovery**: how often the job saves, and what follows on a failure.
"""

import math
from dataclasses import dataclass
from random import Random

from dtlib.composition.failures.account import ticks
from dtlib.formulas.require import require, require_count, require_not_negative, require_positive
from dtlib.foundations.cost.preemption import gang_mtbf


@dataclass(frozen=True)
class Lifetime:
    """How long one GPU works until it fails: a Weibull life of the given mean, in seconds.

    At shape 1 it is exponential: the GPU has no memory. Below 1 the young fail most often, above 1
    the old. `age`, in seconds, is how long each GPU has worked before it joins the job. Raises
    ValueError for a mean or a shape that is not positive, and for a negative age.
    """

    mean: float
    shape: float = 1.0
    age: float = 0.0

    def __post_init__(self):
        require_positive("Lifetime", mean=self.mean, shape=self.shape)
        require_not_negative("Lifetime", age=self.age)

    def first(self, members: int, random: Random) -> float:
        """The seconds until the first of several GPUs of this life fails.

        Equation: ((age/s)^k + E/members)^(1/k) s - age, for an exponential E of mean 1, the shape k
        and the scale s = mean / Gamma(1 + 1/k): one survives the age t with exp(-(t/s)^k).
        """
        scale = self.mean / math.gamma(1 + 1 / self.shape)
        spent = (self.age / scale) ** self.shape
        return scale * (spent + random.expovariate(members)) ** (1 / self.shape) - self.age


@dataclass(frozen=True)
class Recovery:
    """How a job saves, and how it comes back from a failure. All times in seconds.

    The job works for `interval` and stops for `write_time` to save; that checkpoint survives a
    failure `persist_lag` later. A failure is noticed after `detect_time`, a spare is taken, and the
    job is back at its last safe checkpoint after `restart_time`: stop and restart. With hot spares
    the program already runs on them, and it takes `swap_time` instead, unless the job had to wait
    for a node: that one is cold. Raises ValueError for an interval that is not positive, for a
    negative time, and for a lag over the interval: one checkpoint must be safe before the next.
    """

    interval: float
    write_time: float
    persist_lag: float = 0.0
    detect_time: float = 0.0
    restart_time: float = 0.0
    swap_time: float | None = None

    def __post_init__(self):
        require_positive("Recovery", interval=self.interval)
        require(
            ticks(self.interval) > 0,
            "Recovery",
            "interval",
            self.interval,
            "at least a microsecond",
        )
        names = ("write_time", "persist_lag", "detect_time", "restart_time")
        times = {name: getattr(self, name) for name in names}
        if self.swap_time is not None:
            times["swap_time"] = self.swap_time
        require_not_negative("Recovery", **times)
        good = self.persist_lag <= self.interval
        require(good, "Recovery", "persist_lag", self.persist_lag, "at most the interval")


@dataclass(frozen=True)
class Fleet:
    """The nodes that a job needs, with their GPUs, and those that can take a failed one's place.

    `life` is that of one GPU. A node that failed comes back as a spare, as good as any other,
    `repair_time` seconds after its failure is noticed. A spare neither ages nor fails until it is
    taken. Raises ValueError for counts that are no whole numbers (at least 1; spares, at least 0)
    and a repair time that is negative.

    >>> Fleet(nodes=2048, gpus_per_node=8, life=Lifetime(mean=50_000 * 3600), spares=16).mtbf / 3600
    3.0517578125
    """

    nodes: int
    gpus_per_node: int
    life: Lifetime
    spares: int
    repair_time: float = 0.0

    def __post_init__(self):
        require_count("Fleet", nodes=self.nodes, gpus_per_node=self.gpus_per_node)
        require_count("Fleet", least=0, spares=self.spares)
        require_not_negative("Fleet", repair_time=self.repair_time)

    @property
    def mtbf(self) -> float:
        """The mean seconds between failures of the job, if lives are exponential."""
        return gang_mtbf(self.life.mean, self.nodes * self.gpus_per_node)
