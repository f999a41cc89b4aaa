"""Is it a pipeline? Does every rank get to the end of its row, with all the work done once?

`check_schedule` raises `PipelineError` when

- a stage does an action for a micro-batch twice, or never;
- the backward pass of a stage is on another rank than its forward pass, where the activations are;
- a rank has an action before one of its own that it needs;
- ranks wait for each other in a circle: a deadlock. The message goes round it.

The error prints the grid of ranks and steps, with ``!`` where it goes wrong.
"""

from itertools import product

from dtlib.errors import DtlibError
from dtlib.parallelism.pipeline.grid import grid
from dtlib.parallelism.pipeline.play import Played, play
from dtlib.parallelism.pipeline.schedule import Action, PipelineSchedule

SHOWN = 6
WIDEST = 84


class PipelineError(DtlibError, ValueError):
    """A schedule is no pipeline; ``problems`` says what is wrong, ``where`` the (rank, entry)s."""

    def __init__(self, schedule: PipelineSchedule, headline: str, problems: list[str], where=()):
        self.problems, self.where = problems, set(where)
        lines = [f"  {problem}" for problem in problems[:SHOWN]]
        if len(problems) > SHOWN:
            lines.append(f"  ... and {len(problems) - SHOWN} more")
        text = [f"{schedule.name} {headline}", *lines, grid(schedule, self.where, WIDEST)]
        super().__init__("\n".join(text))

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the problems, without the way through the checker."""
        return [f"{type(self).__name__}: {self}"]


def check_schedule(schedule: PipelineSchedule) -> None:
    """Raise `PipelineError` unless the rows are a pipeline: complete, in order, without deadlock.

    Arguments: ``schedule``. Returns nothing. Errors name stage, micro-batch and rank, and print
    the grid. Source: the data dependencies of the chain rule; Huang et al. 2019 for the setting.

    >>> from dtlib.parallelism.pipeline import one_f_one_b
    >>> check_schedule(one_f_one_b(4, 8))
    >>> swapped = PipelineSchedule(["0F0 0BW0 0F1 0BW1", "1F0 1F1 1BW0 1BW1"], m=2, name="swapped")
    >>> check_schedule(swapped)
    Traceback (most recent call last):
      ...
    dtlib.parallelism.pipeline.check.PipelineError: swapped never ends: ranks 0, 1 wait for each other
      rank 0 stands at 0BW0 and waits for 1B0, which rank 1 does after 1F1
      rank 1 stands at 1F1 and waits for 0F1, which rank 0 does after 0BW0
    rank 0 |   0F0           !0BW0     0F1    0BW1
    rank 1 |           1F0    !1F1    1BW0    1BW1
    """  # noqa: E501
    check_work(schedule)
    check_progress(schedule, play(schedule, lambda step: 1))


def check_work(schedule: PipelineSchedule) -> None:
    """Raise `PipelineError` unless every action is in the rows once, at its activations' home."""
    places, twice = _places(schedule)
    stages, m, owed = schedule.stages, schedule.m, schedule.owed
    complete = len(places) == len(owed) * stages * m
    wanted = () if complete else product(range(stages), range(m), owed)
    missing = [
        f"nobody does {_named((kind, s, i))}" for s, i, kind in wanted if (kind, s, i) not in places
    ]
    problems = [
        f"{_named(result)} is done twice, on rank {places[result][0]} and on rank {rank}"
        for result, rank, _ in twice
    ]
    if missing or twice:
        where = [(rank, at) for _, rank, at in twice]
        raise PipelineError(schedule, "does not do all the work once", problems + missing, where)
    strangers = [
        ((kind, s, i), place)
        for (kind, s, i), place in places.items()
        if place[0] != places["F", s, i][0]
    ]
    if strangers:
        raise PipelineError(
            schedule,
            "does a backward pass where the activations are not",
            [
                f"rank {rank} does {_named(result)}; the forward pass was on rank "
                f"{schedule.rank_of(*result[1:])}"
                for result, (rank, _) in strangers
            ],
            [place for _, place in strangers],
        )


def _places(schedule: PipelineSchedule) -> tuple[dict, list]:
    """Where each result is made, as (rank, entry of its row), and where it is made again."""
    places: dict[tuple[str, int, int], tuple[int, int]] = {}
    again = []
    for rank, row in enumerate(schedule.rows):
        for at, step in enumerate(row):
            place = (rank, at)
            for result in step.gives():
                if places.setdefault(result, place) is not place:
                    again.append((result, rank, at))
    return places, again


def check_progress(schedule: PipelineSchedule, played: Played) -> None:
    """Raise `PipelineError` if a rank never got to the end of its row."""
    if not played.stuck:
        return
    places, _ = _places(schedule)
    waits = {s.rank: s for s in played.stuck}
    early = [s for s in played.stuck if places[s.missing][0] == s.rank]
    if early:
        raise PipelineError(
            schedule,
            "is out of order",
            [
                f"rank {s.rank} has {s.step} before {_named(s.missing)}, which it needs"
                for s in early
            ],
            [(s.rank, s.at) for s in early],
        )
    path, rank = [], played.stuck[0].rank
    while rank not in path:
        path.append(rank)
        rank = places[waits[rank].missing][0]
    circle = [waits[rank] for rank in path[path.index(rank) :]]
    raise PipelineError(
        schedule,
        f"never ends: ranks {', '.join(map(str, sorted(path[path.index(rank) :])))} wait for each "
        "other",
        [
            f"rank {s.rank} stands at {s.step} and waits for {_named(s.missing)}, which rank "
            f"{(other := waits[places[s.missing][0]]).rank} does after {other.step}"
            for s in circle
        ],
        [(s.rank, s.at) for s in circle],
    )


def _named(result: tuple[str, int, int]) -> str:
    return str(Action(*result))
