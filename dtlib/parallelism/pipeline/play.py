"""Let every rank work through its row: the one loop that the checker and the simulator share."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dtlib.parallelism.pipeline.schedule import PipelineSchedule, Step


class Stuck(NamedTuple):
    """A rank that waits for ever: at ``step``, its row's entry ``at``, for ``missing``."""

    rank: int
    at: int
    step: "Step"
    missing: tuple[str, int, int]


class Played(NamedTuple):
    """When each step of each row began and ended, and who never got to the end of the row."""

    starts: list[list]
    stops: list[list]
    stuck: list[Stuck]


def play(schedule: "PipelineSchedule", duration: Callable[["Step"], object], comm=0) -> Played:
    """Every rank does its row in order, each step as soon as what it needs is there.

    Arguments: ``duration`` of a step; ``comm``, how much later than at home a result is there on
    another rank. A rank whose next step lacks something is looked at again when that is done.

    >>> from dtlib.parallelism.pipeline import gpipe
    >>> play(gpipe(2, 1), lambda step: 1).starts
    [[0, 3], [1, 2]]
    """
    stages = schedule.stages
    done: dict[tuple, tuple] = {}
    waiting: dict[tuple, list[int]] = {}
    starts: list[list] = [[] for _ in schedule.rows]
    stops: list[list] = [[] for _ in schedule.rows]
    awake = list(range(schedule.p))[::-1]
    while awake:
        rank = awake.pop()
        row, own_starts, own_stops = schedule.rows[rank], starts[rank], stops[rank]
        now = own_stops[-1] if own_stops else 0
        for step in row[len(own_stops) :]:
            for need in step.needs(stages):
                if need not in done:
                    waiting.setdefault(need, []).append(rank)
                    break
                when, where = done[need]
                there = when if where == rank else when + comm
                if there > now:
                    now = there
            else:
                own_starts.append(now)
                now = now + duration(step)
                own_stops.append(now)
                for result in step.gives():
                    done.setdefault(result, (now, rank))
                    awake += waiting.pop(result, ())
                continue
            break
    stuck = [
        Stuck(rank, len(ended), row[len(ended)], _first_missing(row[len(ended)], done, stages))
        for rank, (row, ended) in enumerate(zip(schedule.rows, stops, strict=True))
        if len(ended) < len(row)
    ]
    return Played(starts, stops, stuck)


def _first_missing(step: "Step", done: dict, stages: int) -> tuple:
    return next(need for need in step.needs(stages) if need not in done)
