"""Is it a pipeline? Does every rank get to the end of its row, with all the work done once?

`check_schedule` raises `PipelineError` when

- a stage does an action for a micro-batch twice, or never;
- the backward pass of a stage is on another rank than its forward pass, where the activations are;
- a rank has an action before one of its own that it needs;
- ranks wait for each other in a circle: a deadlock. The message goes round it.

The error prints the grid of ranks and steps, with ``!`` where it goes wrong.
"""

from itertools import chain

from dtlib.errors import DtlibError
from dtlib.parallelism.pipeline.grid import grid
from dtlib.parallelism.pipeline.play import Played, play
from dtlib.parallelism.pipeline.schedule import PipelineSchedule

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
    check_progress(schedule, play(schedule))


def check_work(schedule: PipelineSchedule) -> None:
    """Raise `PipelineError` unless every action is in the rows once, at its activations' home."""
    homes, twice = _homes(schedule)
    made = {kind: [homes[n] for n in schedule.results.of(kind)] for kind in schedule.owed}
    if twice or any(None in ranks for ranks in made.values()):
        raise _not_once(schedule, homes, twice)
    if any(ranks != made["F"] for ranks in made.values()):
        raise _away_from_home(schedule, homes)


def _homes(schedule: PipelineSchedule) -> tuple[list, list]:
    """The rank of each result, by number, and what is made again, as (number, rank, entry)."""
    homes: list[int | None] = [None] * schedule.results.count
    again = []
    for rank, row in enumerate(schedule.results.gives):
        for at, gives in enumerate(row):
            for number in gives:
                if homes[number] is None:
                    homes[number] = rank
                else:
                    again.append((number, rank, at))
    return homes, again


def _not_once(schedule: PipelineSchedule, homes: list, twice: list) -> PipelineError:
    named = schedule.results.named
    numbers = zip(*map(schedule.results.of, schedule.owed), strict=True)
    problems = [
        f"{named(number)} is done twice, on rank {homes[number]} and on rank {rank}"
        for number, rank, _ in twice
    ] + [
        f"nobody does {named(number)}"
        for number in chain.from_iterable(numbers)
        if homes[number] is None
    ]
    where = [(rank, at) for _, rank, at in twice]
    return PipelineError(schedule, "does not do all the work once", problems, where)


def _away_from_home(schedule: PipelineSchedule, homes: list) -> PipelineError:
    results = schedule.results
    strangers = [
        (number, home, rank, at)
        for rank, row in enumerate(results.gives)
        for at, gives in enumerate(row)
        for number in gives
        if (home := homes[results.forward_of(number)]) != rank
    ]
    return PipelineError(
        schedule,
        "does a backward pass where the activations are not",
        [
            f"rank {rank} does {results.named(number)}; the forward pass was on rank {home}"
            for number, home, rank, _ in strangers
        ],
        [(rank, at) for _, _, rank, at in strangers],
    )


def check_progress(schedule: PipelineSchedule, played: Played) -> None:
    """Raise `PipelineError` if a rank never got to the end of its row."""
    if not played.stuck:
        return
    homes, _ = _homes(schedule)
    named = schedule.results.named
    waits = {s.rank: s for s in played.stuck}
    early = [s for s in played.stuck if homes[s.missing] == s.rank]
    if early:
        raise PipelineError(
            schedule,
            "is out of order",
            [
                f"rank {s.rank} has {s.step} before {named(s.missing)}, which it needs"
                for s in early
            ],
            [(s.rank, s.at) for s in early],
        )
    path, rank = [], played.stuck[0].rank
    while rank not in path:
        path.append(rank)
        rank = homes[waits[rank].missing]
    circle = [waits[rank] for rank in path[path.index(rank) :]]
    raise PipelineError(
        schedule,
        f"never ends: ranks {', '.join(map(str, sorted(path[path.index(rank) :])))} wait for each "
        "other",
        [
            f"rank {s.rank} stands at {s.step} and waits for {named(s.missing)}, which rank "
            f"{(other := waits[homes[s.missing]]).rank} does after {other.step}"
            for s in circle
        ],
        [(s.rank, s.at) for s in circle],
    )
