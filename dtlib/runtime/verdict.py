"""From what became of an exchange to one error that names the rank, the reason and the line."""

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.runtime.errors import (
    RankDied,
    RankError,
    RanksError,
    RanksInterrupted,
    RankTimeout,
    name_ranks,
)
from dtlib.runtime.exchange import Death, Exchange
from dtlib.runtime.frames import Frame, format_frames, readers_frames
from dtlib.runtime.messages import Failure, decode

_LOST = "The ranks start anew at the next call, without the names that their cells had defined."
_KEPT = "The ranks are free again and keep what their cells had defined, except process groups."
_ADVICE = "Do the ranks make the same calls in the same order? With debug=True they compare them."
_LAST_LINES = 8


def judge(exchange: Exchange, timeout: float, kept: bool, debug: bool = False) -> RanksError | None:
    """The error of an exchange, or None if every rank has returned a result.

    Deaths come first: they explain the failures of others, and nothing else explains them. `kept`
    says whether the ranks are those of before, or new ones.
    """
    advice = [] if debug else [_ADVICE]
    if deaths := _without(exchange.stuck, exchange.deaths):
        return ranks_died(deaths, advice)
    replies = _without(exchange.stuck, exchange.replies)
    if failures := {rank: reply.failure for rank, reply in replies.items() if reply.failure}:
        return rank_failed(failures, kept)
    if exchange.stuck:
        return ranks_hang(timeout, exchange.stuck, list(replies), advice, kept)
    return None


def _without(stuck: Mapping[int, Any], fates: Mapping[int, Any]) -> dict[int, Any]:
    return {rank: fate for rank, fate in fates.items() if rank not in stuck}


def rank_failed(failures: Mapping[int, Failure], kept: bool) -> RankError:
    """Name the cause among several failures.

    It is the earliest that is no consequence of a lost peer. Ranks that fail with the same words
    or on the same line have failed together, and the lowest of them speaks: which was first is
    chance, and the same cell should show the same text every time.
    """
    causes = {rank: f for rank, f in failures.items() if not f.is_consequence} or failures
    first = min(causes.values(), key=lambda failure: failure.time)
    ranks = [rank for rank, failure in causes.items() if _alike(failure, first)]
    rank = min(ranks)
    cause = causes[rank]
    lines = [f"{name_ranks(ranks)} failed: {cause.error}", *format_frames(cause.frames)]
    if not kept:
        lines.append(_LOST)
    return RankError("\n".join(lines), rank, sorted(ranks), cause.error, cause.traceback)


def _alike(one: Failure, other: Failure) -> bool:
    return one.error == other.error or _place(one) == _place(other)


def _place(failure: Failure) -> list[tuple[str, int]]:
    return [(frame.file, frame.line) for frame in readers_frames(failure.frames)]


def ranks_died(deaths: Mapping[int, Death], advice: list[str]) -> RankDied:
    """Tell how the lowest dead rank ended, where it was, and what it wrote last."""
    rank = min(deaths)
    death = deaths[rank]
    lines = [f"rank {rank} {_manner_of_death(death.exitcode)}"]
    if len(deaths) > 1:
        lines[0] += f" ({name_ranks(deaths.keys() - {rank})} also died)"
    lines += format_frames(death.frames)
    tail = death.stderr.strip().splitlines()[-_LAST_LINES:]
    if tail:
        lines += ["its last words on stderr:", *(f"  {line}" for line in tail)]
    if death.exitcode == -signal.SIGABRT:
        lines += advice
    return RankDied("\n".join([*lines, _LOST]), rank, death.exitcode, death.stderr)


def _manner_of_death(exitcode: int) -> str:
    """Say in words what an exit status means.

    >>> _manner_of_death(-9), _manner_of_death(3)
    ('was killed by SIGKILL', 'left with exit status 3')
    """
    if exitcode < 0:
        return f"was killed by {signal.Signals(-exitcode).name}"
    return f"left with exit status {exitcode}"


def ranks_hang(
    seconds: float,
    stacks: Mapping[int, Sequence[Frame]],
    finished: Sequence[int],
    advice: list[str],
    kept: bool,
) -> RankTimeout:
    """Show where each rank was stuck."""
    rest = f" ({name_ranks(finished)} had finished)" if finished else ""
    lines = [f"no answer from {name_ranks(stacks)} within {seconds:g} s{rest}"]
    lines += [*_places(stacks, "is", "are"), *advice, _KEPT if kept else _LOST]
    return RankTimeout("\n".join(lines), sorted(stacks))


def ranks_interrupted(exchange: Exchange, kept: bool) -> RanksInterrupted:
    """Show where each rank was when the reader had waited long enough."""
    finished = list(_without(exchange.stuck, exchange.replies))
    rest = f" ({name_ranks(finished)} had finished)" if finished else ""
    lines = [f"interrupted{rest}", *_places(exchange.stuck, "was", "were")]
    return RanksInterrupted("\n".join([*lines, _KEPT if kept else _LOST]))


def _places(stacks: Mapping[int, Sequence[Frame]], one: str, several: str) -> list[str]:
    """Where ranks are, in words; those at the same place are named together."""
    places: dict[tuple[str, ...], list[int]] = {}
    for rank, frames in sorted(stacks.items()):
        places.setdefault(tuple(format_frames(frames)), []).append(rank)
    lines = []
    for place, ranks in places.items():
        lines += [f"{name_ranks(ranks)} {one if len(ranks) == 1 else several} at", *place]
    return lines


def unpack_result(rank: int, packed: bytes) -> Any:
    """Rebuild the result of a rank in the notebook."""
    try:
        return decode(packed)
    except Exception as reason:
        error = f"{type(reason).__name__}: {reason}"
        message = f"the result of rank {rank} cannot be rebuilt in the notebook: {error}"
        raise RankError(message, rank, [rank], error, "") from reason
