"""Schedules of what a run has consumed: rates and batches that do not ask how many ranks there are.

The nouns are `SampleSchedule`, a rate's factor, and `BatchRamp`, a batch; both are functions of the
samples that all ranks together have seen. A schedule that counts calls, or one rank's samples, says
something else on every number of ranks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from dtlib.formulas.require import require, require_count, require_not_negative


@dataclass(frozen=True)
class SampleSchedule:
    """A rate that rises over `warm` samples, stays, and falls to zero over the last `decay`.

    All are samples of all ranks, of `total`. Raises ValueError where they do not fit into it.

    >>> schedule = SampleSchedule(total=1000, warm=100, decay=200)
    >>> [schedule.factor(consumed) for consumed in (0, 50, 100, 800, 900, 1000)]
    [0.0, 0.5, 1.0, 1.0, 0.5, 0.0]
    """

    total: int
    warm: int = 0
    decay: int = 0

    def __post_init__(self):
        require_count("SampleSchedule", total=self.total)
        require_count("SampleSchedule", 0, warm=self.warm, decay=self.decay)
        together, allowed = self.warm + self.decay, f"at most {self.total}, the total"
        require(together <= self.total, "SampleSchedule", "warm + decay", together, allowed)

    def factor(self, consumed: float) -> float:
        """The share of the peak rate after so many samples; 0 beyond the total."""
        require_not_negative("SampleSchedule.factor", consumed=consumed)
        left = max(self.total - consumed, 0)
        rising = min(consumed / self.warm, 1.0) if self.warm else 1.0
        falling = min(left / self.decay, 1.0) if self.decay else float(left > 0)
        return min(rising, falling)


@dataclass(frozen=True)
class BatchRamp:
    """A batch that grows in stages: `stages` are (samples consumed from which on, batch).

    The first begins at 0. Raises ValueError for stages that do not, that are out of order, and
    for batches that are no counts.

    >>> ramp = BatchRamp(((0, 4), (16, 8)))
    >>> ramp.batch(15), ramp.batch(16), list(ramp.steps(total=40))
    (4, 8, [4, 4, 4, 4, 8, 8, 8])
    """

    stages: tuple[tuple[int, int], ...]

    def __post_init__(self):
        starts = [start for start, _ in self.stages]
        allowed = "samples that begin at 0 and rise from stage to stage"
        rising = starts[:1] == [0] and all(a < b for a, b in pairwise(starts))
        require(rising, "BatchRamp", "starts of stages", starts, allowed)
        for _, batch in self.stages:
            require_count("BatchRamp", batch=batch)

    def batch(self, consumed: int) -> int:
        """Samples of the next step, of all ranks, after so many."""
        return next(batch for start, batch in reversed(self.stages) if start <= consumed)

    def steps(self, total: int) -> Iterator[int]:
        """The batches of a run of `total` samples; the last may be smaller."""
        consumed = 0
        while consumed < total:
            batch = min(self.batch(consumed), total - consumed)
            yield batch
            consumed += batch
