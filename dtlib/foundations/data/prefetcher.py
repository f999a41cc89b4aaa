"""A prefetcher: workers that make batches ready while the GPU computes on earlier ones.

The nouns:

- **Batch**: numbered from 0 in the order in which batches are asked for.
- **Worker**: makes one batch at a time. Which worker gets a batch is decided when it is asked for.
- **Depth**: batches that have been asked for and not been taken. Taking one asks for the next, so
  that the number never changes until the last batch has been asked for.
- **In order**: the GPU takes batches in the order of their numbers, and waits for the next one even
  where later ones are ready. Otherwise it takes whichever is ready first.

Times may be numbers of any kind. With whole numbers or fractions every result is exact.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from dtlib.timeline import Span, Timeline


@dataclass(frozen=True)
class Prefetch:
    """When every batch was asked for, begun, ready and taken, and by which worker it was made."""

    step: float
    asked: tuple
    begun: tuple
    ready: tuple
    taken: tuple
    worker: tuple[int, ...]

    @property
    def started(self):
        """When the GPU took its first batch."""
        return min(self.taken)

    @property
    def stopped(self):
        """When the GPU was done with its last batch."""
        return max(self.taken) + self.step

    @property
    def busy_fraction(self):
        """The share of the time from first to last step in which the GPU computes."""
        return len(self.taken) * self.step / (self.stopped - self.started)

    @property
    def order(self) -> list[int]:
        """The batches in the order in which the GPU took them."""
        return sorted(range(len(self.taken)), key=self.taken.__getitem__)

    def timeline(self, until=None) -> Timeline:
        """A lane for every worker and one for the GPU, up to the time `until` if it is given."""
        until = self.stopped if until is None else until
        fetches = sorted(
            zip(self.worker, self.begun, self.ready, range(len(self.taken)), strict=True)
        )
        spans = [
            Span(0, f"worker {worker}", str(i), begun, ready, "communication")
            for worker, begun, ready, i in fetches
        ]
        spans += [
            Span(0, "GPU", str(i), taken, taken + self.step, "forward")
            for i, taken in enumerate(self.taken)
        ]
        return Timeline(
            (span._replace(stop=min(span.stop, until)) for span in spans if span.start < until),
            names={"communication": "fetch", "forward": "step"},
        )


def prefetch(
    fetches: Sequence, step, workers: int, depth: int, *, in_order: bool = True, turns: bool = False
) -> Prefetch:
    """Run a prefetcher: `workers` make batches, the GPU takes one, computes for `step`, and again.

    Equation: a worker begins when it is free and the batch is asked for; the GPU takes a batch when
    it is ready and the step before is over; batch i + depth is asked for when the i-th is taken.
    Arguments: `fetches`, the time that each batch takes to make; `step`, seconds; `workers` and
    `depth`, counts; `in_order`, whether the GPU takes batches by number; `turns`, whether worker
    i mod `workers` makes batch i, as in PyTorch's loader, and not the worker that is free first.
    Returns a `Prefetch`. Raises ValueError for no batch, no worker, no depth or a negative time.
    Source: the words above, one line each.

    >>> prefetch([2] * 6, 1, workers=2, depth=2).taken
    (2, 3, 4, 5, 6, 7)
    >>> prefetch([2, 9, 2, 2, 2, 2], 1, workers=2, depth=2).taken
    (2, 9, 10, 11, 12, 13)
    >>> prefetch([2, 9, 2, 2, 2, 2], 1, workers=2, depth=2, in_order=False).order
    [0, 2, 3, 4, 1, 5]
    """
    _check(fetches, step, workers, depth)
    batches = len(fetches)
    asked, begun, ready, taken, worker = ([0] * batches for _ in range(5))
    free, outstanding, now = [0] * workers, [], 0

    def ask(i: int, time) -> None:
        w = i % workers if turns else min(range(workers), key=free.__getitem__)
        asked[i], worker[i], begun[i] = time, w, max(time, free[w])
        ready[i] = free[w] = begun[i] + fetches[i]
        heapq.heappush(outstanding, (i if in_order else ready[i], i))

    for i in range(min(depth, batches)):
        ask(i, 0)
    for following in range(depth, depth + batches):
        _, i = heapq.heappop(outstanding)
        taken[i] = max(now, ready[i])
        now = taken[i] + step
        if following < batches:
            ask(following, taken[i])
    return Prefetch(step, *map(tuple, (asked, begun, ready, taken, worker)))


def fetch_times(mean: float, cv: float, count: int, seed: int = 0) -> np.ndarray:
    """`count` times with this mean and this spread, most of them short and a few long.

    Equation: equally likely values of a log-normal distribution, in random order, so that mean
    and spread hold in every sample and not only in the long run.
    Arguments: `mean` seconds; `cv`, standard deviation over mean; `count`; `seed` of the order.
    Returns an array. Raises ValueError for a mean that is not positive or a negative spread.
    Source: quantiles of the log-normal distribution.

    >>> times = fetch_times(2.0, 1.0, 1000)
    >>> f"{times.mean():.6f}, {times.std() / times.mean():.6f}"
    '2.000000, 1.000000'
    """
    if not mean > 0 or not cv >= 0:
        raise ValueError(f"mean {mean!r} must be positive, and cv {cv!r} must not be negative")
    middles = (np.arange(count) + 0.5) / count
    normal = np.array([NormalDist().inv_cdf(q) for q in middles])
    times = np.exp(_shape(normal, cv) * normal)
    return mean * np.random.default_rng(seed).permutation(times / times.mean())


def count_trace(starts: Sequence, stops: Sequence) -> tuple[list, list[int]]:
    """How many intervals are open, as a trace: the times at which it changes, and the new counts.

    Arguments: the starts and the stops of the intervals. Returns times and counts of equal length.

    >>> count_trace([0, 1], [3, 2])
    ([0, 1, 2, 3], [1, 2, 1, 0])
    """
    changes: dict = {}
    for times, sign in ((starts, 1), (stops, -1)):
        for time in times:
            changes[time] = changes.get(time, 0) + sign
    moments = sorted(changes)
    return moments, np.cumsum([changes[time] for time in moments]).tolist()


def area_under(times: Sequence, counts: Sequence[int]):
    """The area under a trace of `count_trace`: counts times the time for which they lasted.

    >>> area_under([0, 1, 2, 3], [1, 2, 1, 0])
    4
    """
    return sum(n * (b - a) for n, (a, b) in zip(counts[:-1], pairwise(times), strict=True))


def _shape(normal: np.ndarray, cv: float) -> float:
    """The factor in the exponent for which a sample has the spread `cv`, by bisection."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        times = np.exp(middle * normal)
        low, high = (middle, high) if times.std() < cv * times.mean() else (low, middle)
    return low


def _check(fetches: Sequence, step, workers: int, depth: int) -> None:
    for name, count in (("workers", workers), ("depth", depth), ("fetches", len(fetches))):
        if count < 1:
            raise ValueError(f"{name}: {count}, but must be at least 1")
    for name, time in (("step", step), ("fetches", min(fetches))):
        if time < 0:
            raise ValueError(f"{name}: {time}, but a time must not be negative")
