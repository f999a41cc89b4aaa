"""Let every rank work through its row: the one loop that the checker and the simulator share."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dtlib.parallelism.pipeline.schedule import PipelineSchedule, Step


class Stuck(NamedTuple):
    """A rank that waits for ever: at ``step``, its row's entry ``at``, for result ``missing``."""

    rank: int
    at: int
    step: "Step"
    missing: int


class Played(NamedTuple):
    """When each step of each row began and ended, and who never got to the end of the row."""

    starts: list[list]
    stops: list[list]
    stuck: list[Stuck]


def play(schedule: "PipelineSchedule", durations: list[list] | None = None, comm=0) -> Played:
    """Every rank does its row in order, each step as soon as what it needs is there.

    Arguments: ``durations`` of the steps of each row (None: each takes 1); ``comm``, how much later
    than at home a result is there on another rank. A rank whose next step lacks something sleeps
    until that is done.

    >>> from dtlib.parallelism.pipeline import gpipe
    >>> play(gpipe(2, 1)).starts
    [[0, 3], [1, 2]]
    """
    results = schedule.results
    durations = durations or [[1] * len(row) for row in schedule.rows]
    when: list = [None] * results.count
    where: list = [None] * results.count
    for number in results.made_by_nobody:
        when[number] = -comm  # so that it is there at 0, wherever it is needed
    waiting: dict[int, list[Iterator]] = {}

    def work(rank: int, starts: list, stops: list) -> Iterator[int]:
        """Do a rank's row; yield the number of what it waits for, as long as it must wait."""
        now = 0
        row = zip(results.needs[rank], results.gives[rank], durations[rank], strict=True)
        for needs, gives, duration in row:
            for number in needs:
                while (there := when[number]) is None:
                    yield number
                if where[number] != rank:
                    there += comm
                if there > now:
                    now = there
            starts.append(now)
            now += duration
            stops.append(now)
            for number in gives:
                if when[number] is None:
                    when[number], where[number] = now, rank
                    if number in waiting:
                        awake.extend(waiting.pop(number))

    starts: list[list] = [[] for _ in schedule.rows]
    stops: list[list] = [[] for _ in schedule.rows]
    awake = [work(rank, starts[rank], stops[rank]) for rank in reversed(range(schedule.p))]
    while awake:
        rank_at_work = awake.pop()
        missing = next(rank_at_work, None)
        if missing is not None:
            waiting.setdefault(missing, []).append(rank_at_work)
    stuck = [
        Stuck(rank, at, row[at], next(n for n in results.needs[rank][at] if when[n] is None))
        for rank, row in enumerate(schedule.rows)
        if (at := len(stops[rank])) < len(row)
    ]
    return Played(starts, stops, stuck)
