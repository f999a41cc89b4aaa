"""From what became of an exchange to one error that names the rank, the reason and the line."""

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.runtime.errors import RankDied, RankError, RanksError, RankTimeout, name_ranks
from dtlib.runtime.exchange import Death, Exchange
from dtlib.runtime.frames import Frame, format_frames, readers_frames
from dtlib.runtime.messages import Failure, decode

_LOST = "The ranks start anew at the next call, without the names that their cells had defined."
_ADVICE = "Do the ranks make the same calls in the same order? With debug=True they compare them."
_LAST_LINES = 8


def judge(exchange: Exchange, timeout: float, debug: bool = False) -> RanksError | None:
    """The error of an exchange, or None if every rank has returned a result.

    Deaths come first: they explain the failures of others, and nothing else explains them.
    """
    advice = [] if debug else [_ADVICE]
    if exchange.deaths:
        return ranks_died(exchange.deaths, advice)
    failures = {rank: r.failure for rank, r in exchange.replies.items() if r.failure}
    if failures:
        return rank_failed(failures, all_idle=not exchange.silent)
    if exchange.silent:
        return ranks_hang(timeout, exchange.stacks(), list(exchange.replies), advice)
    return None


def rank_failed(failures: Mapping[int, Failure], all_idle: bool) -> RankError:
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
    if not all_idle:
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
) -> RankTimeout:
    """Show where each stuck rank is; ranks at the same place are shown once."""
    rest = f" ({name_ranks(finished)} had finished)" if finished else ""
    lines = [f"no answer from {name_ranks(stacks)} within {seconds:g} s{rest}"]
    places: dict[tuple[str, ...], list[int]] = {}
    for rank, frames in sorted(stacks.items()):
        places.setdefault(tuple(format_frames(frames)), []).append(rank)
    for place, ranks in places.items():
        verb = "is" if len(ranks) == 1 else "are"
        lines += [f"{name_ranks(ranks)} {verb} at", *place]
    return RankTimeout("\n".join([*lines, *advice, _LOST]), sorted(stacks))


def unpack_result(rank: int, packed: bytes) -> Any:
    """Rebuild the result of a rank in the notebook."""
    try:
        return decode(packed)
    except Exception as reason:
        error = f"{type(reason).__name__}: {reason}"
        message = f"the result of rank {rank} cannot be rebuilt in the notebook: {error}"
        raise RankError(message, rank, [rank], error, "") from reason
