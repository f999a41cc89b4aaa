"""Judges of pipelines beyond being legal: how long they take, and what their ranks hold."""

from collections.abc import Callable
from typing import Any

from dtlib.exercises.judges.schedules import legal
from dtlib.exercises.verdict import NotYet
from dtlib.parallelism.pipeline import Action, PipelineSchedule, simulate


def _as_1f1b(p: int, r: int) -> int:
    return p - 1 - r


def with_warm_up(p: int, m: int, warm_up: Callable[[int, int], int] = _as_1f1b) -> PipelineSchedule:
    """A rank's forward passes of its warm-up, then one forward and one backward in turn.

    >>> with_warm_up(2, 2).rows[0] == with_warm_up(2, 2, lambda p, r: 1).rows[0]
    True
    """
    rows = []
    for r in range(p):
        row = [Action("F", r, i) for i in range(m)]
        for i in range(m):
            row.insert(min(warm_up(p, r) + 1 + 2 * i, m + i), Action("BW", r, i))
        rows.append(row)
    return PipelineSchedule(rows, m)


def thrifty_law(given: Any, right: PipelineSchedule, p: int, m: int) -> None:
    """Raise `NotYet` unless it is as fast as GPipe and holds as little as 1F1B.

    >>> thrifty_law(with_warm_up(2, 8, lambda p, r: 7), None, 2, 8)
    Traceback (most recent call last):
    dtlib.exercises.verdict.NotYet: as fast as it can be, but rank 0 holds 8 micro-batches, ...
    """
    timeline = simulate(legal(given, ranks=p, batches=m, stages=p))
    if timeline.makespan > 3 * (m + p - 1):
        raise NotYet("legal, but slower than GPipe; which rank waits, and for whom?")
    for rank, held in enumerate(timeline.peak_activations):
        if held > min(m, p - rank):
            raise NotYet(
                f"as fast as it can be, but rank {rank} holds {held} micro-batches, "
                "more than it has to"
            )


def looped(p: int, m: int, v: int, *, dealt: bool = True) -> PipelineSchedule:
    """All forward, then all backward, of ``v`` stages a rank: dealt out in turn, or in blocks.

    >>> looped(2, 4, v=2).stages_of(1), looped(2, 4, v=2, dealt=False).stages_of(1)
    ([1, 3], [2, 3])
    """
    rows = []
    for r in range(p):
        stages = range(r, p * v, p) if dealt else range(r * v, r * v + v)
        forward = [Action("F", s, i) for s in stages for i in range(m)]
        rows.append(forward + [Action("BW", s, i) for s in stages[::-1] for i in range(m)])
    return PipelineSchedule(rows, m, p * v)


def stairs_law(given: Any, right: PipelineSchedule, p: int, m: int, v: int) -> None:
    """Raise `NotYet` unless no more is lost than p - 1 steps of the length of one stage.

    >>> stairs_law(looped(2, 4, 2, dealt=False), None, 2, 4, 2)
    Traceback (most recent call last):
    dtlib.exercises.verdict.NotYet: rank 0 holds stages [0, 1]
    """
    legal(given, ranks=p, batches=m, stages=p * v)
    for rank in range(p):
        if given.stages_of(rank) != list(range(rank, p * v, p)):
            raise NotYet(f"rank {rank} holds stages {given.stages_of(rank)}")
    lost = simulate(given).makespan - 3 * m
    if v * lost > 3 * (p - 1):
        raise NotYet(f"legal, but {float(lost):.3g} units are lost; stairs may be shorter")
