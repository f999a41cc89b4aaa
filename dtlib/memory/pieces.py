"""Pieces: parts of a forward pass whose parameters get their gradients all at once, at its end.

A recomputed piece is one. Weights that leave when their layer is done would be gone by then, so who
takes weights away asks which pieces are running.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_RUNNING: ContextVar[tuple[str, ...]] = ContextVar("the owners of the running pieces", default=())


def running_pieces() -> tuple[str, ...]:
    """Who runs a piece now, for the first time; the innermost is the last.

    >>> with piece_of("checkpoint"):
    ...     running_pieces()
    ('checkpoint',)
    """
    return _RUNNING.get()


@contextmanager
def piece_of(owner: str) -> Iterator[None]:
    """Inside, a piece of this owner runs."""
    before = _RUNNING.set((*running_pieces(), owner))
    try:
        yield
    finally:
        _RUNNING.reset(before)
