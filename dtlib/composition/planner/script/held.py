"""The bytes that fake tensors hold at each moment, and why: the causes are told later.

A storage counts from the first tensor that an operation returns on it to its end, or to where it
is resized to nothing, as FSDP does with gathered weights. At the largest sum the list of storages
is kept; what each of them was for (a gradient, an optimizer's moment) may be known only later.
"""

import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

CAUSES = (
    "parameters", "optimizer state", "gradients", "gradient buckets", "gathered weights",
    "activations", "temporary", "other",
)  # fmt: skip


class _Storage:
    __slots__ = ("bytes", "cause", "watcher")

    def __init__(self, size: int, cause: str):
        self.bytes, self.cause, self.watcher = size, cause, None


class Held:
    """Counts storages; `peak` is the largest sum since `restart`, `by_cause()` its parts."""

    def __init__(self):
        self.alive: dict[int, _Storage] = {}
        self.now = self.peak = 0
        self._is_full, self._at_peak = False, []

    def restart(self) -> None:
        """From now on look for a new peak."""
        self.peak, self._is_full = self.now, True

    def add(self, tensors, cause: str) -> None:
        """Count the storages of these tensors that are not counted yet."""
        for tensor in tree_leaves(tensors):
            if isinstance(tensor, FakeTensor) and tensor.device.type != "meta":
                storage = tensor.untyped_storage()
                if storage._cdata not in self.alive:
                    self._begin(storage, cause)

    def name(self, tensor: torch.Tensor | None, cause: str) -> None:
        """Say what a storage is for; parts of a DTensor are what they are parts of."""
        local = getattr(tensor, "_local_tensor", tensor)
        if isinstance(local, FakeTensor):
            self.add(local, cause)
            if found := self.alive.get(local.untyped_storage()._cdata):
                found.cause = cause

    def resized(self, storage: torch.UntypedStorage) -> None:
        """The storage has another size now."""
        found = self.alive.get(storage._cdata)
        if found is not None and found.bytes != storage.nbytes():
            self._change(storage.nbytes() - found.bytes)
            found.bytes = storage.nbytes()

    def sum_of(self, cause: str) -> int:
        """Bytes that are held now for a cause, as far as it is known."""
        return sum(storage.bytes for storage in self.alive.values() if storage.cause == cause)

    def by_cause(self) -> dict[str, int]:
        """Bytes at the peak, cause by cause."""
        if self._is_full:
            self._keep()
        found = dict.fromkeys(CAUSES, 0)
        for storage, size in self._at_peak:
            found[storage.cause] += size
        return {cause: size for cause, size in found.items() if size}

    def _begin(self, storage: torch.UntypedStorage, cause: str) -> None:
        key, counted = storage._cdata, _Storage(storage.nbytes(), cause)
        counted.watcher = weakref.ref(storage, lambda _: self._end(key))
        self._change(counted.bytes)
        self.alive[key] = counted
        self._is_full = self._is_full or self.now == self.peak

    def _end(self, key: int) -> None:
        counted = self.alive[key]
        self._change(-counted.bytes)
        del self.alive[key]

    def _change(self, by: int) -> None:
        if by < 0 and self._is_full:
            self._keep()
        self.now += by
        if self.now > self.peak:
            self.peak, self._is_full = self.now, True

    def _keep(self) -> None:
        self._is_full = False
        self._at_peak = [(storage, storage.bytes) for storage in self.alive.values()]
