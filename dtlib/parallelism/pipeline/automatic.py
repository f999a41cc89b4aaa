"""The schedule that is searched for: W where a rank would wait, within a limit on memory.

A **warm-up** is how many forward passes each rank does before its first B. It decides the order of
all F and B; a **plan** plays that order, and puts each W where its rank would otherwise wait, or
where the memory is full. `automatic_schedule` tries a few warm-ups and keeps the best plan.
"""

from dataclasses import dataclass
from itertools import product
from math import ceil, floor, inf

from dtlib.parallelism.pipeline.builders import at_least_one
from dtlib.parallelism.pipeline.schedule import Action, PipelineSchedule

MORE = (1, inf), (0, inf), (1, 2), (0, 2)  # forward passes than the next rank: from, to


def automatic_schedule(p: int, m: int, memory, f=1, b=1, w=1, comm=0, kept=1) -> PipelineSchedule:
    """The zero-bubble schedule of given times that holds no more than ``memory`` on any rank.

    Equation: before its first B a rank does as many F as fit before that B could begin, within the
    memory; then one B and one F in turn. A W comes where the gap before the next of them is as long
    as a W, where that next F would not fit into the memory, and where a shorter gap would make its
    rank the one that has waited longest. All other W come at the end. Of eight warm-ups, the one
    whose longest wait (`stage_bubble`) is least.
    Arguments: ``p`` ranks, ``m`` micro-batches; ``memory``, in micro-batches' worth of a rank's
    activations: p gives ZB-1p, which may hold what rank 0 of 1F1B holds, 2p gives ZB-2p; ``f``,
    ``b``, ``w``, ``comm``, the times of `simulate`, the same for all stages; ``kept``, the share of
    its activations that a micro-batch still needs between B and W.
    Returns a `PipelineSchedule` of p stages. Raises ValueError for fewer than one rank or
    micro-batch, ``memory`` below 1, ``f`` not positive, another time negative, ``kept`` not between
    0 and 1. A heuristic: on the small pipelines whose orders the tests try one by one it is the
    best of all, and here and there a larger one has a better. Source: Qi et al. 2023, section 3.

    >>> for row in automatic_schedule(2, 3, memory=2).rows:
    ...     print(row)
    (0F0, 0F1, 0B0, 0W0, 0F2, 0B1, 0W1, 0B2, 0W2)
    (1F0, 1B0, 1F1, 1B1, 1W0, 1F2, 1B2, 1W1, 1W2)
    >>> from dtlib.parallelism.pipeline import simulate
    >>> [simulate(automatic_schedule(8, 24, memory)).stage_bubble for memory in (8, 12, 15)]
    [7, 3, 0]
    """
    at_least_one(p=p, m=m)
    task = _Task(p, m, memory, f, b, w, comm, kept)
    warm_ups = {task.warm_up(*more, rounded) for more, rounded in product(MORE, (floor, ceil))}
    best = min((_Plan(task, warm_up) for warm_up in sorted(warm_ups)), key=lambda plan: plan.wait)
    name = {p: "ZB-1p", 2 * p: "ZB-2p"}.get(memory, f"automatic, memory = {memory}")
    return PipelineSchedule(best.rows, m, name=name)


@dataclass(frozen=True)
class _Task:
    """What is asked for; the arguments are those of `automatic_schedule`."""

    p: int
    m: int
    memory: float
    f: float
    b: float
    w: float
    comm: float
    kept: float

    def __post_init__(self):
        if self.memory < 1:
            raise ValueError(
                f"memory must be at least 1, for one micro-batch; got memory = {self.memory}"
            )
        if self.f <= 0:
            raise ValueError(f"f must be positive; got f = {self.f}")
        for name in ("b", "w", "comm"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative; got {name} = {getattr(self, name)}")
        if not 0 <= self.kept <= 1:
            raise ValueError(f"kept must be a share between 0 and 1; got kept = {self.kept}")

    def warm_up(self, least_more: int, most_more, rounded) -> tuple[int, ...]:
        """How many forward passes each rank does before its first B, from the last rank up.

        As many as fit before that B; `rounded` says whether one that fits in part, and would delay
        the B, is among them. No fewer than the next rank does, and ``least_more``; no more than the
        next rank does, and ``most_more``.
        """
        counts, ready = [1], (self.p - 1) * (self.f + self.comm) + self.f
        for rank in reversed(range(self.p - 1)):
            first = rank * (self.f + self.comm)
            ready += self.b + self.comm
            fits = rounded((ready - first) / self.f)
            count = max(counts[0] + least_more, min(fits, counts[0] + most_more))
            count = max(1, min(count, floor(self.memory) - least_more * rank, self.m))
            ready = max(ready, first + count * self.f)
            counts.insert(0, count)
        return tuple(counts)


class _Plan:
    """The rows that follow from a ``warm_up``, when each rank is free, and how long it has waited.

    Every B goes up from the last rank, every F down from the first, so that what an action needs is
    planned before it.
    """

    def __init__(self, task: _Task, warm_up: tuple[int, ...]):
        ranks = range(task.p)
        self.task, self.rows = task, [[] for _ in ranks]
        self.free, self.waited = [0] * task.p, [0] * task.p
        self.ends = {kind: [[] for _ in ranks] for kind in "FBW"}
        for rank in ranks:
            for _ in range(warm_up[rank]):
                self._forward(rank)
        for _ in range(task.m):
            for rank in reversed(ranks):
                self._backward(rank)
            for rank in ranks:
                if self._done("F", rank) < task.m:
                    self._forward(rank)
        for rank in ranks:
            while self._done("W", rank) < task.m:
                self._do("W", rank)

    @property
    def wait(self):
        """How long the rank waits that waits longest, between its first and its last action."""
        return max(self.waited)

    def _done(self, kind: str, rank: int) -> int:
        return len(self.ends[kind][rank])

    def _forward(self, rank: int) -> None:
        ready = self._arrival("F", rank, rank - 1)
        while self._waits_for_w(rank) and (self._worth_a_w(rank, ready) or self._full(rank)):
            self._do("W", rank)
        self._do("F", rank, ready)

    def _backward(self, rank: int) -> None:
        ready = self._arrival("B", rank, rank + 1)
        while self._waits_for_w(rank) and self._worth_a_w(rank, ready):
            self._do("W", rank)
        self._do("B", rank, ready)

    def _arrival(self, kind: str, rank: int, sender: int):
        """When the next F or B of a rank may begin, if it is free: what it needs is there."""
        if not 0 <= sender < self.task.p:
            return 0
        return self.ends[kind][sender][self._done(kind, rank)] + self.task.comm

    def _waits_for_w(self, rank: int) -> bool:
        return self._done("W", rank) < self._done("B", rank)

    def _worth_a_w(self, rank: int, ready) -> bool:
        """Whether a W fits into the gap, or the gap would make this the longest wait of all."""
        gap = ready - self.free[rank]
        return gap > 0 and (gap >= self.task.w or self.waited[rank] + gap > self.wait)

    def _full(self, rank: int) -> bool:
        """Whether one more micro-batch would be too much."""
        f, b, w = (self._done(kind, rank) for kind in "FBW")
        return (f - b) + self.task.kept * (b - w) + 1 > self.task.memory

    def _do(self, kind: str, rank: int, ready=0) -> None:
        if self.rows[rank]:
            self.waited[rank] += max(0, ready - self.free[rank])
        time = {"F": self.task.f, "B": self.task.b, "W": self.task.w}[kind]
        self.rows[rank].append(Action(kind, rank, self._done(kind, rank)))
        self.free[rank] = max(self.free[rank], ready) + time
        self.ends[kind][rank].append(self.free[rank])
