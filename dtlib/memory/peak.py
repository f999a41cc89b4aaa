"""A meter of everything that operations make: what is alive at once, kept for a tape or not."""

from collections.abc import Iterator

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class PeakMeter(TorchDispatchMode):
    """Counts the storages that operations make inside a ``with`` block, until nobody holds them.

    `Meter` counts what autograd saves; this one also what is needed for a moment. After each
    operation its arguments and its results are alive at once. `peak_bytes` is the most that was
    ever alive. What was there before does not count, nor does what an operation uses inside.

    >>> x = torch.ones(100)
    >>> with PeakMeter() as meter:
    ...     y = (x + 1).exp()  # 400 bytes for the sum and 400 for its exponential
    ...     z = y.view(10, 10)  # no storage of its own
    >>> meter.peak_bytes
    800
    """

    def __init__(self):
        super().__init__()
        self.peak_bytes = 0
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        there = {storage._cdata for storage in _storages((args, kwargs))}
        self._alive = {key: held for key, held in self._alive.items() if not held[0].expired()}
        for storage in _storages(out):
            if storage._cdata not in there | self._alive.keys():
                self._alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, sum(size for _, size in self._alive.values()))
        return out


def _storages(tree) -> Iterator[torch.UntypedStorage]:
    tensors = (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
    return (tensor.untyped_storage() for tensor in tensors)
