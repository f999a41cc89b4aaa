"""Judges of what a reader does with a store: wait, lend memory, fetch ahead and send back."""

from collections.abc import Callable
from typing import Any

import torch

from dtlib.exercises.judge import call, function
from dtlib.exercises.verdict import NotYet
from dtlib.memory import HostStore, LateStore


class _Watch:
    """A store that remembers what it was asked for, what it was sent and what was waited for."""

    def __init__(self):
        super().__init__()
        self.asked: list[str] = []
        self.given: dict[str, torch.Tensor] = {}
        self.waited: set[tuple[str, str]] = set()

    def get(self, key, into=None, after=()):
        self.asked.append(key)
        return self._watched(super().get(key, into, after), ("get", key))

    def put(self, key, tensor, after=()):
        if not isinstance(tensor, torch.Tensor):
            raise NotYet("what is put back must be a tensor")
        self.given[key] = tensor
        return self._watched(super().put(key, tensor, after), ("put", key))

    def flush(self):
        self.waited.update(("put", key) for key in self.given)
        super().flush()

    def _watched(self, transfer: Any, name: tuple[str, str]) -> Any:
        plain = transfer.wait

        def wait():
            self.waited.add(name)
            return plain()

        transfer.wait = wait
        return transfer


class _Lender(_Watch):
    """A store that brings things back into the memory that begins at ``place`` only."""

    place = 0

    def get(self, key, into=None, after=()):
        if into is None or into.data_ptr() != self.place:
            raise NotYet("bring it back into x itself: there is no memory for a second")
        return super().get(key, into, after)


class _QuickLender(_Lender, HostStore):
    pass


class _LateLender(_Lender, LateStore):
    pass


class _LateWatch(_Watch, LateStore):
    pass


def swap_law(answer: Any) -> None:
    """Raise `NotYet` unless ``answer`` lends a tensor's memory and brings its contents back."""
    function(answer, "swap(store, x, use)")
    for kind in (_LateLender, _QuickLender):
        with kind() as store:
            _lent(answer, store, torch.arange(1.0, 7.0))


def _lent(swap: Callable, store: Any, x: torch.Tensor) -> None:
    original, place, lent = x.clone(), x.data_ptr(), []
    store.place = place

    def use(tensor):
        if not isinstance(tensor, torch.Tensor) or tensor.data_ptr() != place:
            raise NotYet("use must be given x itself: it is this memory that is lent")
        lent.append(tensor.fill_(-1.0))

    back = call(swap, store, x, use)
    if not store.given:
        raise NotYet("nothing was sent to the store")
    if any(tensor.data_ptr() != place for tensor in store.given.values()):
        raise NotYet("what was sent is a copy: there is no memory for one")
    if len(lent) != 1:
        raise NotYet(f"use was called {len(lent)} times, not once")
    if not isinstance(back, torch.Tensor) or back.data_ptr() != place:
        raise NotYet("return x, in the memory in which it was")
    if not torch.equal(back, original) or not torch.equal(x, original):
        raise NotYet("x was read before its contents were back")
    if store.received != x.nbytes:
        raise NotYet(f"{store.received} bytes came back, and x has {x.nbytes}")


def stream_law(answer: Any) -> None:
    """Raise `NotYet` unless ``answer`` works on every tensor in order, ahead and no further."""
    function(answer, "stream(store, keys, work, lookahead)")
    for count, lookahead in ((5, 1), (6, 2), (4, 0), (3, 5), (1, 1)):
        keys = [f"layer {i}" for i in range(count)]
        try:
            with _LateWatch() as store:
                _streamed(answer, store, keys, lookahead)
        except NotYet as wrong:
            raise NotYet(f"{count} tensors, look-ahead {lookahead}: {wrong.reason}") from None


def _streamed(stream: Callable, store: _LateWatch, keys: list[str], lookahead: int) -> None:
    tensors = [torch.arange(3.0) + 10 * i for i in range(len(keys))]
    for key, tensor in zip(keys, tensors, strict=True):
        LateStore.put(store, key, tensor.clone()).wait()
    worked: list[str] = []

    def work(tensor):
        i = len(worked)
        if i == len(keys):
            raise NotYet("work was called more than once for a tensor")
        if not isinstance(tensor, torch.Tensor) or not torch.equal(tensor, tensors[i]):
            raise NotYet(f"turn {i} works on something else than {keys[i]!r}")
        _in_turn(i, store, keys, lookahead)
        worked.append(keys[i])
        return tensor * 3 + i

    call(lambda *args: (stream(store, list(keys), work, *args), keys), lookahead)
    if worked != keys:
        raise NotYet(f"{len(worked)} of {len(keys)} tensors were worked on")
    for i, (key, tensor) in enumerate(zip(keys, tensors, strict=True)):
        if ("put", key) not in store.waited:
            raise NotYet(f"{key!r} may not be back yet when the function returns")
        if not torch.equal(LateStore.get(store, key).wait(), tensor * 3 + i):
            raise NotYet(f"the store does not hold the new {key!r}")


def _in_turn(i: int, store: _LateWatch, keys: list[str], lookahead: int) -> None:
    """Raise `NotYet` unless, when turn ``i`` begins, just what is due was asked for and sent."""
    due = min(len(keys), i + 1 + lookahead)
    if len(store.asked) != due:
        side = "few" if len(store.asked) < due else "many"
        raise NotYet(f"in turn {i}, too {side} have been asked for")
    for key in keys[i + 1 :]:
        if ("get", key) in store.waited:
            raise NotYet(f"{key!r} is waited for before its turn")
    if list(store.given) != keys[:i]:
        raise NotYet(f"in turn {i}, what was done before is not on its way back")
    if i and ("put", keys[i - 1]) in store.waited:
        raise NotYet(f"turn {i} waits until the one before is back")
