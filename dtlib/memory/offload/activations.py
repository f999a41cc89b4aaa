"""Activations in a store: written once in the forward pass, read once in the backward pass.

The best thing to send away: the next use of each is known, and it is in reverse order.
"""

import weakref
from collections import deque
from itertools import count

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from dtlib.formulas.require import require_count, require_type
from dtlib.memory.meter import lies_among, storage_key, tensors_of
from dtlib.memory.offload.store import Store, Transfer, bytes_of


class OffloadedActivations:
    """What autograd saves in this ``with`` block goes to a store, and comes back before its turn.

    Equation: the same gradients, bit for bit: a copy has the same bits.
    Autograd often saves one tensor for several operations, or views of it. Each memory travels
    once. When the backward pass takes what was saved i-th, it asks for the `lookahead` before that.
    Arguments: `store`; `module`, whose parameters and buffers stay where they are; `lookahead`;
    `in_flight`, how many may be on their way out before the forward pass waits: until they are out
    they fill the device; `least_bytes`, what is smaller stays.
    Attributes: `sent`, bytes that went out; `waiting`, fetched bytes that are on the device
    now, and `peak_bytes`, the most that ever were.
    Raises ValueError for a negative look-ahead and no room in flight; StoreError, in the backward
    pass, for a tensor that was changed in place before it was out.
    Source: Rhu et al. 2016; Rajbhandari et al. 2021.

    >>> from dtlib.memory import HostStore
    >>> layer, x = nn.Linear(2, 2), torch.ones(3, 2)
    >>> with HostStore() as store:
    ...     with OffloadedActivations(store, layer) as away:
    ...         loss = layer(x).square().sum()
    ...     loss.backward()
    ...     away.sent, store.received  # x and what was squared
    (48, 48)
    """

    def __init__(
        self,
        store: Store,
        module: nn.Module,
        *,
        lookahead: int = 1,
        in_flight: int = 2,
        least_bytes: int = 1,
    ):
        owner = "OffloadedActivations"
        require_type(owner, Store, store=store)
        require_type(owner, nn.Module, module=module)
        require_count(owner, 0, lookahead=lookahead, least_bytes=least_bytes)
        require_count(owner, in_flight=in_flight)
        self.store, self.module = store, module
        self.lookahead, self.in_flight, self.least_bytes = lookahead, in_flight, least_bytes
        self.sent = self.waiting = self.peak_bytes = 0
        self._under_way: deque[Transfer] = deque()

    def __enter__(self):
        self._stay = list(tensors_of([self.module]))
        self._known: dict[tuple, tuple] = {}
        self._order: list[weakref.ref] = []
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        self._hooks.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self._hooks.__exit__(*error)
        self._known.clear()

    def _pack(self, tensor: torch.Tensor):
        if not _plain(tensor) or self._stays(tensor):
            return tensor
        storage = tensor.untyped_storage()
        if storage.nbytes() < self.least_bytes:
            return tensor
        at = storage_key(tensor), tensor._version
        alive, saved = self._known.get(at, (None, lambda: None))
        saved = saved()
        if saved is None:
            saved = self._send(tensor, storage)
            alive = StorageWeakRef(storage)  # while it lives no other memory has this address
            self._known[at] = alive, weakref.ref(saved)
        saved.uses += 1
        kind = tensor.dtype, tensor.size(), tensor.stride(), tensor.storage_offset()
        return Away(saved, *kind)

    def _stays(self, tensor: torch.Tensor) -> bool:
        return lies_among(tensor, self._stay)

    def _send(self, tensor: torch.Tensor, storage) -> "Saved":
        whole = tensor.detach().as_strided(
            (storage.nbytes() // tensor.itemsize,), (1,), storage_offset=0
        )
        saved = Saved(self, f"saved {next(_numbers)}", len(self._order))
        self._under_way.append(self.store.put(saved.key, bytes_of(whole)))
        self._order.append(weakref.ref(saved))
        self.sent += whole.nbytes
        while len(self._under_way) > self.in_flight:
            self._under_way.popleft().wait()
        return saved

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        saved = packed.saved
        saved.ask()
        for i in range(saved.index - 1, max(saved.index - 1 - self.lookahead, -1), -1):
            earlier = saved.order[i]()
            if earlier is not None and not earlier.spent:
                earlier.ask()
        return packed.view(saved.take())


class Saved:
    """One memory that went out. It forgets its bytes in the store when nothing refers to it."""

    def __init__(self, owner: OffloadedActivations, key: str, index: int):
        self.owner, self.key, self.index, self.order = owner, key, index, owner._order
        self.uses = self.taken = 0
        self.spent = False  # taken before its turn: asking for it again would move it twice
        self._transfer: Transfer | None = None

    def ask(self) -> None:
        """Have it fetched, unless it is here or on its way."""
        if self._transfer is None:
            self._transfer = self.owner.store.get(self.key)
            self.owner.waiting += self._transfer.bytes
            self.owner.peak_bytes = max(self.owner.peak_bytes, self.owner.waiting)

    def take(self) -> torch.Tensor:
        """Its bytes; after the last use the device holds them no longer."""
        row = self._transfer.wait()
        self.taken += 1
        if self.taken == self.uses:
            self.spent = True
            self._leave()
        return row

    def _leave(self) -> None:
        self.owner.waiting -= self._transfer.bytes
        self._transfer, self.taken = None, 0

    def __del__(self):
        if self._transfer is not None:
            self._leave()
        self.owner.store.drop_soon(self.key)


class Away:
    """What autograd keeps instead of a tensor: which memory, and which part of it."""

    def __init__(self, saved: Saved, dtype, size, stride, offset):
        self.saved, self.dtype = saved, dtype
        self.size, self.stride, self.offset = size, stride, offset

    def view(self, row: torch.Tensor) -> torch.Tensor:
        """The tensor that was saved."""
        return row.view(self.dtype).as_strided(self.size, self.stride, self.offset)


_numbers = count()


def _plain(tensor: torch.Tensor) -> bool:
    """Whether its bytes, shape and strides say all about it."""
    return (
        type(tensor) in (torch.Tensor, nn.Parameter)
        and tensor.layout == torch.strided
        and not (tensor.is_conj() or tensor.is_neg())
        and tensor.untyped_storage().nbytes() % tensor.itemsize == 0
    )
