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

from dtlib.collectives.schedule import Round, Schedule

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


class ScheduleError(ValueError):
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


# Where the addends are before the first round.


def everywhere(schedule: Schedule) -> np.ndarray:
    """Every rank has an addend for every chunk: before an all-reduce, reduce-scatter or reduce.

    Returns the contributions, an array of ranks x chunks x contributors.
    """
    identity = np.eye(schedule.P, dtype=np.int16)
    return np.repeat(identity[:, None, :], schedule.chunks, axis=1)


def at_owners(schedule: Schedule) -> np.ndarray:
    """Every rank has only the chunks that it owns: before an all-gather."""
    return everywhere(schedule) * _owned(schedule)[:, :, None]


def at_root(schedule: Schedule, root: int = 0) -> np.ndarray:
    """Only the root has anything: before a broadcast."""
    counts = everywhere(schedule)
    counts[np.arange(schedule.P) != root] = 0
    return counts


def in_rows(schedule: Schedule) -> np.ndarray:
    """Rank r has row r of the P x P blocks: before an all-to-all."""
    row = np.arange(schedule.chunks) // schedule.P
    return everywhere(schedule) * (row == np.arange(schedule.P)[:, None])[:, :, None]


def states(schedule: Schedule, start=everywhere) -> Iterator[np.ndarray]:
    """The contributions before the first round, and after each round: ``len(schedule) + 1`` arrays.

    Arguments: ``start``, where the addends are at first: one of the functions of this module
    (`everywhere`, `at_owners`, `at_root`, `in_rows`), or an array of the same shape. Nothing is
    judged: a contributor that is added twice has a 2 in the array.

    >>> from dtlib.collectives.algorithms import ring_reduce_scatter
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
    _check(schedule, "all-reduce", everywhere, _everyone(schedule))


def check_reduce_scatter(schedule: Schedule) -> None:
    """Raise `ScheduleError` unless every rank ends with the chunks it owns summed over all ranks.

    Rank r owns chunk r, or the r-th run of k chunks when there are k P of them.
    """
    _check(schedule, "reduce-scatter", everywhere, _everyone(schedule), where=_owned(schedule))


def check_all_gather(schedule: Schedule) -> None:
    """Raise `ScheduleError` unless every rank ends with every chunk as its owner had it."""
    owner = np.eye(schedule.P, dtype=np.int16)[_owned(schedule).argmax(axis=0)]
    _check(schedule, "all-gather", at_owners, np.broadcast_to(owner, (schedule.P, *owner.shape)))


def check_broadcast(schedule: Schedule, root: int = 0) -> None:
    """Raise `ScheduleError` unless every rank ends with every chunk as the root had it."""
    goal = np.broadcast_to(np.eye(schedule.P, dtype=np.int16)[root], _shape(schedule))
    _check(schedule, f"broadcast from rank {root}", at_root(schedule, root), goal)


def check_reduce(schedule: Schedule, root: int = 0) -> None:
    """Raise `ScheduleError` unless the root ends with every chunk summed over all ranks."""
    at_the_root = np.zeros((schedule.P, schedule.chunks), dtype=bool)
    at_the_root[root] = True
    _check(schedule, f"reduce to rank {root}", everywhere, _everyone(schedule), where=at_the_root)


def check_all_to_all(schedule: Schedule) -> None:
    """Raise `ScheduleError` unless rank r ends with column r of the P x P blocks.

    Chunk i P + j is the block that rank i starts with and that rank j needs.
    """
    _check_chunks(schedule, "an all-to-all", schedule.chunks == schedule.P**2, "P x P")
    row, column = np.divmod(np.arange(schedule.chunks), schedule.P)
    goal = np.broadcast_to(np.eye(schedule.P, dtype=np.int16)[row], _shape(schedule))
    in_column = column == np.arange(schedule.P)[:, None]
    _check(schedule, "all-to-all", in_rows, goal, where=in_column)


def _shape(schedule: Schedule) -> tuple[int, int, int]:
    return schedule.P, schedule.chunks, schedule.P


def _everyone(schedule: Schedule) -> np.ndarray:
    """The goal of a sum: every contributor once."""
    return np.broadcast_to(np.int16(1), _shape(schedule))


def _owned(schedule: Schedule) -> np.ndarray:
    """Which chunks a rank owns, ranks x chunks: equal runs in the order of the ranks."""
    P, chunks = schedule.P, schedule.chunks
    _check_chunks(schedule, "an owner for every chunk", chunks % P == 0, "a multiple of P")
    return np.arange(chunks) // (chunks // P) == np.arange(P)[:, None]


def _check_chunks(schedule: Schedule, what: str, fits: bool, rule: str) -> None:
    if not fits:
        raise ScheduleError(
            f"{what} takes {rule} chunks; {schedule.name} has P = {schedule.P} ranks "
            f"and {schedule.chunks} chunks",
            [],
        )


def _check(schedule: Schedule, collective: str, start, goal, where=True) -> None:
    """Play the schedule from ``start``; the last state must be ``goal`` where ``where`` holds."""
    counts = start(schedule) if callable(start) else start
    wanted = np.broadcast_to(where, counts.shape[:2])
    for t, round in enumerate(schedule):
        before = counts.copy()
        _play(counts, round)
        _raise_if(f"{schedule.name} goes wrong", _faults(t, round, before, counts))
    _raise_if(f"{schedule.name} is no {collective}", _differences(counts, goal, wanted))
    _raise_if(f"{schedule.name} sends what nobody uses", _unused(schedule, wanted))


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
