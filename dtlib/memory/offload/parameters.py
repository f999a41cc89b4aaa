"""Weights in a store: a layer is on the device while it is its turn, or nearly.

The nouns:

- **Row**: the weights of one layer, side by side in one memory, so that one transfer moves them.
- **Window**: the layer whose turn it is, and the `lookahead` ones that are next. They are on the
  device or on their way; no other layer is. It moves forward with the forward pass, and back.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from dtlib.formulas.require import require, require_count, require_type
from dtlib.memory.offload.store import Store, StoreError, Transfer
from dtlib.memory.offload.stream import placed, places
from dtlib.memory.pieces import running_pieces


class OffloadedParameters:
    """The weights of these layers live in a store, and come for the forward and the backward pass.

    Equation: the same outputs and gradients, bit for bit: a copy has the same bits.
    A training step fetches every layer for the forward pass and all but the last once more for the
    backward pass; `step` fetches all but the first, which is still there, and returns all.
    Gradients stay on the device, as they are. Recomputed layers are fetched in the backward pass;
    each is a piece of its own.
    Arguments: `layers`, modules in the order in which the forward pass calls them, which share no
    weights; `store`; `lookahead`, layers. What belongs to no layer stays on the device.
    Attributes: `here`, bytes of the layers that are on the device or on their way, and
    `peak_bytes`, the most that ever were. A weight that is away has no numbers; `resident` brings
    all back for a while, `restore` for good.
    Raises ValueError for no layer, a layer without weights, weights that two layers share, and a
    negative look-ahead; StoreError where the store fails; RuntimeError in a forward pass by
    `recompute_chain`, which hands over all layers' gradients together.
    Source: Pudipeddi et al. 2020; Rajbhandari et al. 2021.

    >>> from dtlib.memory import HostStore
    >>> model = nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(8)))
    >>> expected = model(torch.ones(1, 4))
    >>> with HostStore() as store:
    ...     offloaded = OffloadedParameters(list(model), store)
    ...     torch.equal(model(torch.ones(1, 4)), expected), store.received, offloaded.peak_bytes
    (True, 512, 128)
    """

    def __init__(self, layers: Sequence[nn.Module], store: Store, *, lookahead: int = 1):
        require_type("OffloadedParameters", Iterable, layers=layers)
        require_type("OffloadedParameters", Store, store=store)
        require_count("OffloadedParameters", 0, lookahead=lookahead)
        _check_layers(layers)
        self.store, self.lookahead = store, lookahead
        self.here = self.peak_bytes = 0
        self.failures: list[StoreError] = []
        self.layers: list[Layer] = []
        self._handles = []
        try:
            for i, module in enumerate(layers):
                self.layers.append(Layer(f"layer {id(self)} {i}", module, self))
                self.layers[-1].send()
                self.layers[-1].leave()
            self._report()
        except StoreError:  # no weight may stay where nobody can fetch it from
            self.restore()
            raise
        for i, module in enumerate(layers):
            self._handles += [
                module.register_forward_pre_hook(lambda *_, i=i: self._turn(i)),
                module.register_full_backward_pre_hook(lambda *_, i=i: self._turn(i, back=True)),
            ]

    def step(self, optimizer) -> None:
        """One step of an optimizer, layer by layer, and of what belongs to no layer.

        Arguments: `optimizer`, an `OffloadedOptimizer`, of which no unit belongs to two layers.
        Raises StoreError where weights or state could not be stored, after the whole update.
        """
        needed = all(hasattr(optimizer, name) for name in ("param_groups", "units", "step"))
        kind = type(optimizer).__name__
        require(needed, "OffloadedParameters.step", "optimizer", kind, "an OffloadedOptimizer")
        offloaded = {p for layer in self.layers for p in layer.parameters}
        everything = [p for group in optimizer.param_groups for p in group["params"]]
        optimizer.step(only=[p for p in everything if p not in offloaded])
        known = set(everything)
        for i, layer in enumerate(self.layers):
            self._window({*range(i, i + 1 + self.lookahead)} | ({i - 1} if i else set()), i)
            optimizer.step(only=[p for p in layer.parameters if p in known])
            layer.send()
        self._window(set())
        self._report()

    @contextmanager
    def resident(self, changed: bool = True) -> Iterator[None]:
        """All weights are on the device inside this block, to be saved or loaded; then they leave.

        `changed`: whether they may have been, and are sent again.
        """
        self._window(set(range(len(self.layers))))
        for layer in self.layers:
            layer.arrive()
        try:
            yield
        finally:
            for layer in self.layers if changed else ():
                layer.send()
            self._window(set())
        self._report()

    def restore(self) -> None:
        """Bring all weights back for good, and forget them in the store."""
        for handle in self._handles:
            handle.remove()
        stored = self.store.keys()
        with self.resident(changed=False):
            for layer in self.layers:
                layer.own()
                if layer.key in stored:
                    self.store.drop(layer.key)

    def _report(self) -> None:
        """Raise what could not be stored, once everything else is done."""
        if self.failures:
            error, self.failures = self.failures[0], []
            raise error

    def _turn(self, i: int, back: bool = False) -> None:
        """It is layer i's turn: hooks call this before its forward and its backward pass."""
        if "recompute_chain" in running_pieces():
            raise RuntimeError(
                f"OffloadedParameters: layer {i} runs in a recompute_chain, whose gradients come "
                "when its weights are gone. Recompute layer by layer: "
                "Recomputed(model, checkpoint_policy('full'))"
            )
        back = back or torch._C._current_graph_task_id() != -1
        ahead = range(i, i - 1 - self.lookahead, -1) if back else range(i, i + 1 + self.lookahead)
        self._window({*ahead}, i)

    def _window(self, wanted: set[int], now: int | None = None) -> None:
        """Let go of what is outside, ask for what is inside, nearest first, and wait for `now`."""
        for i, layer in enumerate(self.layers):
            if layer.is_here and i not in wanted:
                layer.leave()
        inside = [i for i in wanted if 0 <= i < len(self.layers)]
        for i in sorted(inside, key=lambda i: abs(i - (now or 0))):
            self.layers[i].ask()
        if now is not None:
            self.layers[now].arrive()


class Layer:
    """The weights of one layer: in the store, on their way, or here."""

    def __init__(self, key: str, module: nn.Module, owner: OffloadedParameters):
        self.key, self.owner, self.store = key, owner, owner.store
        self.parameters = list(dict.fromkeys(module.parameters()))
        self._kinds = [(p.shape, p.dtype) for p in self.parameters]
        self._offsets, self.bytes = places(self._kinds)
        device = self.parameters[0].device
        self.row = torch.empty(self.bytes, dtype=torch.uint8, device=device)
        self._coming: Transfer | None = None
        self._going: Transfer | None = None
        self.is_here = False
        for part, parameter in zip(self._parts(), self.parameters, strict=True):
            part.copy_(parameter.data)
        self._enter()
        self._show()

    def ask(self) -> None:
        """Have it fetched, unless it is here or on its way."""
        if not self.is_here:
            self.row.untyped_storage().resize_(self.bytes)
            self._coming = self.store.get(self.key, into=self.row)
            self._enter()

    def arrive(self) -> None:
        """Wait until it is here; only then are the weights shown to the layer."""
        if self._coming is not None:
            self._coming.wait()
            self._coming = None
            self._show()

    def send(self) -> None:
        """Send it to the store, in the background."""
        self.arrive()
        self._going = self.store.put(self.key, self.row)

    def leave(self) -> None:
        """Give its memory on the device free, when no transfer needs it any more."""
        coming, going, self._coming, self._going = self._coming, self._going, None, None
        if coming is not None:
            coming.wait()
        if going is not None:
            try:
                going.wait()
            except StoreError as error:  # the store holds what it could not write
                self.owner.failures.append(error)
        for parameter in self.parameters:
            parameter.data = parameter.data.new_empty(0)
        self.row.untyped_storage().resize_(0)
        self.is_here = False
        self.owner.here -= self.bytes

    def own(self) -> None:
        """Give every parameter memory of its own, as before."""
        for parameter in self.parameters:
            parameter.data = parameter.data.clone()
        self.parameters = []

    def _enter(self) -> None:
        self.is_here = True
        self.owner.here += self.bytes
        self.owner.peak_bytes = max(self.owner.peak_bytes, self.owner.here)

    def _show(self) -> None:
        for part, parameter in zip(self._parts(), self.parameters, strict=True):
            parameter.data = part

    def _parts(self) -> Iterator[torch.Tensor]:
        for offset, kind in zip(self._offsets, self._kinds, strict=True):
            yield placed(self.row, offset, *kind)


def _check_layers(layers: Sequence[nn.Module]) -> None:
    if not layers:
        raise ValueError("there is no layer to offload")
    owner: dict[nn.Parameter, int] = {}
    for i, layer in enumerate(layers):
        require_type("OffloadedParameters", nn.Module, **{f"layer {i}": layer})
        if not any(True for _ in layer.parameters()):
            raise ValueError(f"layer {i} ({type(layer).__name__}) has no weights")
        for name, parameter in layer.named_parameters():
            if owner.setdefault(parameter, i) != i:
                raise ValueError(
                    f"layers {owner[parameter]} and {i} share {name!r}; a weight can be sent away "
                    "with one layer only"
                )
