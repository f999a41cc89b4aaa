"""The collector of cycles, at rest while schedules are made and simulated."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """No search for cycles inside: a schedule is tuples of numbers, among which there are none.

    >>> with collector_at_rest():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
