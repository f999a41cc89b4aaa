"""A training job to practise a diagnosis on: why it is slow is known to the check alone."""

import random
from dataclasses import dataclass

from dtlib.errors import DtlibError


class RunsSpent(DtlibError, RuntimeError):
    """Every run of the job costs an hour of the cluster, and there are no more."""


@dataclass(frozen=True)
class JobRun:
    """What a run reports: `step`, the seconds of a step by the clock of rank 0, and `busy`, for
    each rank the seconds for which its arithmetic ran."""

    step: float
    busy: tuple[float, ...]


class PracticeJob:
    """A job of `ranks` ranks that can be run with one thing changed, a few times.

    `micro_batches` is how many it uses, `micro_batches=` of `run` how many it shall use for the
    same batch. `counters` are shares of peak: of the memory bandwidth ("dram"), of the tensor
    cores ("tensor"), and the occupancy, the share of threads that a multiprocessor could hold
    and does.

    >>> job = PracticeJob(network=0.5, overlap=0.2)
    >>> run = job.run()
    >>> round(run.step, 1), round(max(run.busy), 1)
    (1.4, 1.0)
    >>> round(job.run(collectives=False).step, 1)
    1.0
    """

    ranks = 16

    def __init__(
        self,
        *,
        compute: float = 1.0,
        network: float = 0.0,
        overlap: float = 1.0,
        data: float = 0.0,
        straggler: float = 1.0,
        stages: int = 1,
        micro_batches: int = 8,
        dram: float = 0.4,
        tensor: float = 0.35,
        occupancy: float = 0.5,
        runs: int = 6,
        seed: int = 0,
    ):
        self.micro_batches = micro_batches
        self.counters = {"dram": dram, "tensor": tensor, "occupancy": occupancy}
        self._compute, self._network, self._overlap, self._data = compute, network, overlap, data
        self._straggler, self._stages, self._runs = straggler, stages, runs
        self._random = random.Random(seed)

    def run(
        self, *, collectives: bool = True, data: str = "real", micro_batches: int | None = None
    ) -> JobRun:
        """Run some steps: with or without collectives (the ranks then do not wait for one another),
        on "real" or "synthetic" data, with so many micro-batches of the same batch.

        Raises RunsSpent when there are no more runs, ValueError for other data or no micro-batch.
        """
        if data not in ("real", "synthetic"):
            raise ValueError(f"data is {data!r}, but must be 'real' or 'synthetic'")
        m = self.micro_batches if micro_batches is None else micro_batches
        if m < 1:
            raise ValueError(f"micro_batches is {m!r}, but must be at least 1")
        if self._runs == 0:
            raise RunsSpent("every run costs an hour, and all of them are spent")
        self._runs -= 1
        noise = [1 + self._random.uniform(-0.005, 0.005) for _ in range(self.ranks)]
        busy = [self._compute * each for each in noise]
        busy[-3] *= self._straggler
        pace = max(busy) if collectives else busy[0]
        arithmetic = pace * (m + self._stages - 1) / m
        exposed = self._network - self._overlap * min(self._network, arithmetic)
        waiting = max(0.0, self._data - arithmetic) if data == "real" else 0.0
        return JobRun(arithmetic + waiting + (exposed if collectives else 0.0), tuple(busy))
