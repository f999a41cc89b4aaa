"""Refuses the library's own layers as an answer, by the tensor operations that they make."""

from contextlib import AbstractContextManager

from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds import called_from

LIBRARY = ("dtlib.parallelism", "dtlib.models")


def own_work(packages: tuple[str, ...] = LIBRARY) -> AbstractContextManager:
    """Within it, a tensor operation that code of these packages calls raises `NotYet`.

    >>> import torch
    >>> from dtlib.parallelism import route
    >>> with own_work():
    ...     route(torch.zeros(1, 2), 1)
    Traceback (most recent call last):
    dtlib.exercises.verdict.NotYet: this is the work of dtlib.parallelism: write your own
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class OwnWork(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            for package in packages:
                if called_from(package):
                    raise NotYet(f"this is the work of {package}: write your own")
            return operation(*args, **(kwargs or {}))

    return OwnWork()
