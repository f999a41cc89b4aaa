"""A link to practise measuring on: its alpha and beta are known to the check alone."""

import random

from dtlib.errors import DtlibError

RANKS = 8


class BudgetSpent(DtlibError, RuntimeError):
    """The link's time is up."""


class PracticeLink:
    """A link with a clock of its own: nothing really moves, and every run takes the same time.

    Arguments: ``alpha``, seconds per message; ``beta``, bytes/s; ``cold``, seconds that the first
    call of each size takes longer; ``jitter``, mean relative delay of a call; ``spikes``, share of
    the calls that wait another 20 alpha; ``budget``, seconds after which calls raise `BudgetSpent`;
    ``seed`` of the jitter.

    >>> link = PracticeLink(alpha=2e-6, beta=50e9)
    >>> start = link.clock()
    >>> link.round_trip(100_000)
    >>> f"{link.clock() - start:.2g} s"
    '8e-06 s'
    """

    def __init__(
        self,
        alpha: float,
        beta: float,
        *,
        cold: float = 0.0,
        jitter: float = 0.0,
        spikes: float = 0.0,
        budget: float = float("inf"),
        seed: int = 0,
    ):
        self._alpha, self._beta = alpha, beta
        self._cold, self._jitter, self._spikes, self._budget = cold, jitter, spikes, budget
        self._random = random.Random(seed)
        self._warm: set[tuple[str, float]] = set()
        self._now = 0.0

    def clock(self) -> float:
        """Seconds on the link's clock."""
        return self._now

    def round_trip(self, n: float) -> None:
        """Send ``n`` bytes to the other end and wait until they are back."""
        self._spend("round trip", n, 2 * self._alpha + 2 * n / self._beta)

    def all_reduce(self, n: float) -> None:
        """A ring all-reduce of ``n`` bytes per rank, over 8 ranks on links like this one."""
        rounds = 2 * (RANKS - 1)
        self._spend("all-reduce", n, rounds * (self._alpha + n / RANKS / self._beta))

    def _spend(self, what: str, n: float, seconds: float) -> None:
        if n < 0:
            raise ValueError(f"a message has at least 0 bytes, got {n}")
        if (what, n) not in self._warm:
            self._warm.add((what, n))
            seconds += self._cold
        if self._jitter:
            seconds *= 1 + self._random.expovariate(1 / self._jitter)
        if self._random.random() < self._spikes:
            seconds += 20 * self._alpha
        self._now += seconds
        if self._now > self._budget:
            raise BudgetSpent(f"the link's {self._budget:g} seconds are spent")
