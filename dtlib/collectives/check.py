"""Proof by bookkeeping: does a schedule compute its collective, without a wasted message?

The nouns:

- **Contributions**: the array ``counts[rank, chunk, contributor]``, how often the addend that
  ``contributor`` started with is in what ``rank`` now holds of ``chunk``. All zero: nothing of use.
- **State**: the contributions between two rounds. `states` plays a schedule and gives each.
- **Problem**: a round, a rank, a chunk, and what is wrong there.

A check plays the schedule and raises `ScheduleError` when

- a message brings its receiver nothing new, makes a contributor count twice, or is added to memory
  that holds nothing yet;
- two messages of one round want the same chunk of a rank, or one overwrites a chunk in flight;
- the last state differs from what the collective promises: then the error lists the differences;
- the result is right, but a message could be left out because nobody uses what it brings.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dtlib.collectives.primitives import (
    PRIMITIVES,
    Primitive,
    at_owners,
    at_root,
    broadcast,
    everywhere,
    gather,
    in_rows,
    reduce,
    scatter,
)
from dtlib.collectives.schedule import Round, Schedule
from dtlib.errors import DtlibError

__all__ = [
    "Problem",
    "ScheduleError",
    "at_owners",
    "at_root",
    "check_all_gather",
    "check_all_reduce",
    "check_all_to_all",
    "check_broadcast",
    "check_gather",
    "check_primitive",
    "check_reduce",
    "check_reduce_scatter",
    "check_scatter",
    "everywhere",
    "in_rows",
    "states",
]

SHOWN = 8


class Problem(NamedTuple):
    """What is wrong with ``chunk`` on ``rank``, and in which ``round`` (None: at the end)."""

    round: int | None
    rank: int
    chunk: int
    what: str

    def __str__(self) -> str:
        when = "" if self.round is None else f"round {self.round}, "
        return f"{when}rank {self.rank}, chunk {self.chunk}: {self.what}"


class ScheduleError(DtlibError, ValueError):
    """A schedule does not do what it should; ``problems`` lists where, and what is wrong there."""

    def __init__(self, headline: str, problems: list[Problem]):
        self.problems = problems
        lines = [f"  {problem}" for problem in problems[:SHOWN]]
        if len(problems) > SHOWN:
            lines.append(f"  ... and {len(problems) - SHOWN} more")
        super().__init__("\n".join([headline, *lines]))

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the problems, without the way through the checker."""
        return [f"{type(self).__name__}: {self}"]


def states(schedule: Schedule, start=everywhere) -> Iterator[np.ndarray]:
    """The contributions before the first round, and after each round: ``len(schedule) + 1`` arrays.

    Arguments: ``start``, where the addends are at first: a holding (`everywhere`, `at_owners`,
    `at_root`, `in_rows`, ...), or an array of the same shape. Nothing is judged: a contributor that
    is added twice has a 2 in the array.

    >>> from dtlib.collectives.builders.algorithms import ring_reduce_scatter
    >>> for counts in states(ring_reduce_scatter(3)):
    ...     print("rank 0 holds", [np.flatnonzero(chunk).tolist() for chunk in counts[0]])
    rank 0 holds [[0], [0], [0]]
    rank 0 holds [[0], [0, 2], [0]]
    rank 0 holds [[0, 1, 2], [0, 2], [0]]
    """
    counts = start(schedule) if callable(start) else start.copy()
    yield counts.copy()
    for round in schedule:
        _play(counts, round)
        yield counts.copy()


def _play(counts: np.ndarray, round: Round) -> None:
    """One round: everybody reads first, then every receiver keeps or adds."""
    src, dst, chunk, adds = round.one_chunk_each()
    arriving = counts[src, chunk]
    counts[dst[~adds], chunk[~adds]] = arriving[~adds]
    np.add.at(counts, (dst[adds], chunk[adds]), arriving[adds])


def check_primitive(schedule: Schedule, primitive: Primitive) -> None:
    """Raise `ScheduleError` unless a schedule does what a primitive promises, and nothing in vain.

    Arguments: ``primitive``, one of `PRIMITIVES` or your own: where the addends are at first, and
    who wants their sum at the end.

    >>> from dtlib.collectives import PRIMITIVES, tree_broadcast
    >>> check_primitive(tree_broadcast(6), PRIMITIVES["broadcast"])
    >>> check_primitive(tree_broadcast(3), PRIMITIVES["reduce"])
    Traceback (most recent call last):
      ...
    dtlib.collectives.check.ScheduleError: tree broadcast is no reduce to rank 0
      rank 0, chunk 0: lacks ranks [1, 2]
    """
    try:
        held, wanted = (
            at.table(schedule.P, schedule.chunks) for at in (primitive.before, primitive.after)
        )
    except ValueError as error:
        rule, _ = str(error).split("; ")
        raise ScheduleError(
            f"{rule}; {schedule.name} has P = {schedule.P} ranks and {schedule.chunks} chunks", []
        ) from None
    counts = primitive.before(schedule)
    goal = np.broadcast_to(held.T.astype(counts.dtype), counts.shape)
    for t, round in enumerate(schedule):
        before = counts.copy()
        _play(counts, round)
        _raise_if(f"{schedule.name} goes wrong", _faults(t, round, before, counts))
    _raise_if(f"{schedule.name} is no {primitive.name}", _differences(counts, goal, wanted))
    _raise_if(f"{schedule.name} sends what nobody uses", _unused(schedule, wanted))


def check_all_reduce(schedule: Schedule) -> None:
    """Raise `ScheduleError` unless every rank ends with every chunk summed over all ranks.

    >>> from dtlib.collectives import Schedule, ring_all_reduce
    >>> check_all_reduce(ring_all_reduce(4))
    >>> ring = ring_all_reduce(3)
    >>> first, *rest = [list(round) for round in ring]
    >>> check_all_reduce(Schedule(3, 3, [first[1:], *rest], "ring without its first message"))
    Traceback (most recent call last):
      ...
    dtlib.collectives.check.ScheduleError: ring without its first message is no all-reduce
      rank 0, chunk 2: lacks ranks [0]
      rank 1, chunk 2: lacks ranks [0]
      rank 2, chunk 2: lacks ranks [0]
    """
    check_primitive(schedule, PRIMITIVES["all-reduce"])


def check_reduce_scatter(schedule: Schedule) -> None:
    """Raise `ScheduleError` unless every rank ends with the chunks it owns summed over all ranks.

    Rank r owns chunk r, or the r-th run of k chunks when there are k P of them.
    """
    check_primitive(schedule, PRIMITIVES["reduce-scatter"])


def check_all_gather(schedule: Schedule) -> None:
    """Raise `ScheduleError` unless every rank ends with every chunk as its owner had it."""
    check_primitive(schedule, PRIMITIVES["all-gather"])


def check_broadcast(schedule: Schedule, root: int = 0) -> None:
    """Raise `ScheduleError` unless every rank ends with every chunk as the root had it."""
    check_primitive(schedule, broadcast(root))


def check_reduce(schedule: Schedule, root: int = 0) -> None:
    """Raise `ScheduleError` unless the root ends with every chunk summed over all ranks."""
    check_primitive(schedule, reduce(root))


def check_scatter(schedule: Schedule, root: int = 0) -> None:
    """Raise `ScheduleError` unless every rank ends with the chunks it owns as the root had them."""
    check_primitive(schedule, scatter(root))


def check_gather(schedule: Schedule, root: int = 0) -> None:
    """Raise `ScheduleError` unless the root ends with every chunk as its owner had it."""
    check_primitive(schedule, gather(root))


def check_all_to_all(schedule: Schedule) -> None:
    """Raise `ScheduleError` unless rank r ends with column r of the P x P blocks.

    Chunk i P + j is the block that rank i starts with and that rank j needs.
    """
    check_primitive(schedule, PRIMITIVES["all-to-all"])


def _raise_if(headline: str, problems: list[Problem]) -> None:
    if problems:
        raise ScheduleError(headline, problems)


def _faults(t: int, round: Round, before: np.ndarray, after: np.ndarray) -> list[Problem]:
    """What is wrong with the messages of round ``t``."""
    src, dst, chunk, adds = round.one_chunk_each()
    arriving, held, kept = before[src, chunk], before[dst, chunk], ~adds
    leave, arrive, overwrite = np.zeros((3, *before.shape[:2]), dtype=int)
    np.add.at(leave, (src, chunk), 1)
    np.add.at(arrive, (dst, chunk), 1)
    np.add.at(overwrite, (dst, chunk), kept)
    brings, has = arriving.any(axis=1), held.any(axis=1)
    faults = {
        "receives nothing": ~brings,
        "receives nothing new": brings & kept & (arriving <= held).all(axis=1),
        "is added to before it holds anything": adds & ~has,
        "is overwritten while it is being sent": kept & (leave[dst, chunk] > 0),
        "is overwritten by one message while another arrives": (overwrite[dst, chunk] > 0)
        & (arrive[dst, chunk] > 1),
    }
    problems = [
        Problem(t, int(dst[i]), int(chunk[i]), f"{what}, from rank {src[i]}")
        for what, wrong in faults.items()
        if wrong.any()
        for i in np.flatnonzero(wrong)
    ]
    twice = {(dst[i], chunk[i]) for i in np.flatnonzero((after[dst, chunk] > 1).any(axis=1))}
    return problems + [
        Problem(t, int(rank), int(c), _counted_twice(after[rank, c])) for rank, c in sorted(twice)
    ]


def _counted_twice(counts: np.ndarray) -> str:
    ranks = np.flatnonzero(counts > 1).tolist()
    return f"counts rank {ranks[0]} twice" if len(ranks) == 1 else f"counts ranks {ranks} twice"


def _differences(counts: np.ndarray, goal: np.ndarray, wanted: np.ndarray) -> list[Problem]:
    """Where the last state is not what the collective promises."""
    wrong = (counts != goal).any(axis=2) & wanted
    return [
        Problem(None, int(rank), int(chunk), _difference(counts[rank, chunk], goal[rank, chunk]))
        for rank, chunk in np.argwhere(wrong)
    ]


def _difference(counts: np.ndarray, goal: np.ndarray) -> str:
    lacks, extra = np.flatnonzero(counts < goal).tolist(), np.flatnonzero(counts > goal).tolist()
    parts = [f"lacks ranks {lacks}"] * bool(lacks) + [f"has ranks {extra} besides"] * bool(extra)
    return ", ".join(parts)


def _unused(schedule: Schedule, wanted: np.ndarray) -> list[Problem]:
    """Messages that nobody uses, found by going backwards from what is wanted at the end.

    A message is used when what it arrives in is wanted after its round; then the chunk it came from
    is wanted before. A chunk that is overwritten was not wanted before, whoever wants it after.
    """
    wanted, problems = wanted.copy(), []
    for t, round in reversed(list(enumerate(schedule))):
        src, dst, chunk, adds = round.one_chunk_each()
        used = wanted[dst, chunk]
        problems += [
            Problem(t, int(dst[i]), int(chunk[i]), f"is never used, from rank {src[i]}")
            for i in np.flatnonzero(~used)
        ]
        wanted[dst[~adds], chunk[~adds]] = False
        wanted[src[used], chunk[used]] = True
    return problems
