"""What can go wrong on the ranks, each with the rank's number and the line it was at."""

from collections.abc import Iterable

from dtlib.errors import DtlibError


def name_ranks(ranks: Iterable[int]) -> str:
    """Say which ranks in words.

    >>> name_ranks([2]), name_ranks([0, 1, 3]), name_ranks(range(8))
    ('rank 2', 'ranks 0, 1, 3', 'ranks 0-7')
    """
    ranks = sorted(ranks)
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]}-{ranks[-1]}"
    return f"ranks {', '.join(map(str, ranks))}"


class RanksError(DtlibError, RuntimeError):
    """Base of the errors that concern ranks; in a notebook it shows its message and no more."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class RankError(RanksError):
    """The code of a rank raised an exception.

    `rank` is the (first) rank, `ranks` all that failed in the same way, `error` the exception in
    words ("ValueError: ..."), and `traceback` the full traceback from inside the rank.
    """

    def __init__(
        self, message: str, rank: int, ranks: list[int], error: str, traceback: str
    ) -> None:
        super().__init__(message)
        self.rank, self.ranks, self.error, self.traceback = rank, ranks, error, traceback


class RankDied(RanksError):
    """The process of a rank ended: killed, aborted by a library, or by `os._exit`.

    `rank` is the (first) rank, `exitcode` its exit status (minus the signal's number if a signal
    ended it), and `stderr` the end of what it wrote there.
    """

    def __init__(self, message: str, rank: int, exitcode: int, stderr: str) -> None:
        super().__init__(message)
        self.rank, self.exitcode, self.stderr = rank, exitcode, stderr


class RankTimeout(RanksError):
    """Some ranks did not answer in time; `ranks` lists them, the message shows where they are."""

    def __init__(self, message: str, ranks: list[int]) -> None:
        super().__init__(message)
        self.ranks = ranks


class RanksInterrupted(KeyboardInterrupt):
    """Ctrl-C, or a notebook's stop button, while ranks ran; the message shows where they were.

    As a KeyboardInterrupt, it also ends a program that catches every `Exception`.
    """

    _render_traceback_ = RanksError._render_traceback_


class CollectiveMismatch(DtlibError, RuntimeError):
    """The ranks of a group do not agree on the operation that they enter (debug mode)."""
