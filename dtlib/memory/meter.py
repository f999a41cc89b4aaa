"""A meter of saved tensors: the bytes that autograd keeps for the backward pass, and when.

Autograd hands every tensor that it saves to hooks, if there are some, and takes from them what it
needs later. The meter's hooks hand back a `_Held`, a handle of the tensor: the storage counts from
the first handle that is made of it to the last one that dies, which is when autograd drops it. So
a storage that several operations save, or save through views, is counted once, and what is counted
besides (the weights, which are there anyway) not at all. Nothing is estimated: the unit is the
byte of a storage, also under ``torch.device("meta")``, where a model of any size can be metered.

Not seen: what the allocator rounds up, what a forward pass needs for a moment, gradients, and
tensors that stand inside hooks of their own (autograd asks the innermost hooks only).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from dtlib.formulas.require import require_type


class Row(NamedTuple):
    """One storage that is kept: the tensor that it was first saved as, and how often it was."""

    bytes: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    times: int


class Meter:
    """Counts what autograd saves inside a ``with`` block, until it drops it, also later.

    Arguments: `besides`, modules and tensors whose storages do not count: the model (its
    parameters and buffers), tokens, targets.
    `kept_bytes` is what is held now, `peak_bytes` the most that was ever held, `curve` the bytes
    after every change, `rows()` what is held now. The tensors that are held keep their addresses,
    so no storage is taken for another.
    Raises TypeError for something in `besides` that is neither module nor tensor, and for tensors
    without a storage of their own, such as sparse ones; RuntimeError in a backward pass that needs
    a tensor that was changed in place, as autograd does without a meter.
    Source: the hooks are torch's (torch.autograd.graph.saved_tensors_hooks).

    >>> linear = nn.Linear(4, 8, bias=False)
    >>> x = torch.ones(2, 4, requires_grad=True)
    >>> with Meter(linear) as meter:
    ...     loss = linear(x).sigmoid().sum()
    ...     print(meter.kept_bytes)  # the input, 2 x 4 numbers, and the sigmoid's output, 2 x 8
    ...     loss.backward()
    96
    >>> meter.kept_bytes, meter.peak_bytes, meter.curve
    (0, 96, [32, 96, 32, 0])
    """

    def __init__(self, *besides: nn.Module | torch.Tensor):
        self._besides = list(tensors_of(besides))
        list(map(storage_key, self._besides))  # what has no storage is refused here
        self._held: dict[int, Row] = {}  # by storage
        self._hooks: list[saved_tensors_hooks] = []
        self.kept_bytes = 0
        self.peak_bytes = 0
        self.curve: list[int] = []
        self.marks: list[tuple[str, int]] = []

    def __enter__(self) -> "Meter":
        self._hooks.append(saved_tensors_hooks(self._pack, _unpack))
        self._hooks[-1].__enter__()
        return self

    def __exit__(self, *error) -> None:
        self._hooks.pop().__exit__(*error)

    def mark(self, name: str) -> None:
        """Remember that the curve's next change comes after `name`, for the axis of a drawing."""
        self.marks.append((name, len(self.curve)))

    def rows(self) -> list[Row]:
        """The storages that are held now, in the order in which they were saved."""
        return list(self._held.values())

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the storage of this tensor is one of those that are held now."""
        require_type("Meter.holds", torch.Tensor, tensor=tensor)
        return storage_key(tensor) in self._held

    def _pack(self, tensor: torch.Tensor) -> Any:
        there = lies_among(tensor, self._besides)
        return tensor.detach() if there else _Held(self, tensor)

    def _hold(self, key: int, tensor: torch.Tensor) -> None:
        row = self._held.get(key)
        if row is None:
            self._held[key] = Row(_storage(tensor).nbytes(), tuple(tensor.shape), tensor.dtype, 1)
            self._change(self._held[key].bytes)
        else:
            self._held[key] = row._replace(times=row.times + 1)

    def _release(self, key: int) -> None:
        row = self._held[key]
        if row.times > 1:
            self._held[key] = row._replace(times=row.times - 1)
        else:
            del self._held[key]
            self._change(-row.bytes)

    def _change(self, by: int) -> None:
        self.kept_bytes += by
        self.peak_bytes = max(self.peak_bytes, self.kept_bytes)
        self.curve.append(self.kept_bytes)


class _Held:
    """What autograd keeps in a tensor's place; its death is the tensor's release."""

    __slots__ = ("key", "meter", "tensor", "version")

    def __init__(self, meter: Meter, tensor: torch.Tensor):
        # detached: an operation's output knows the operation, which would keep itself alive
        self.meter, self.tensor, self.key = meter, tensor.detach(), storage_key(tensor)
        self.version = tensor._version
        meter._hold(self.key, tensor)

    def __del__(self):
        self.meter._release(self.key)


def _unpack(held: Any) -> torch.Tensor:
    if not isinstance(held, _Held):
        return held
    if held.tensor._version != held.version:  # where there are hooks, torch does not look itself
        raise RuntimeError(
            f"Meter: a tensor of shape {tuple(held.tensor.shape)} was changed in place, but the "
            "backward pass needs it as it was saved"
        )
    return held.tensor


def saved_tensor_bytes(function: Callable, *inputs: Any, besides: Iterable = ()) -> int:
    """The bytes that one call keeps for its backward pass.

    Arguments: `function`, a module (whose parameters and buffers do not count) or another function;
    its `inputs`; `besides`, modules and tensors that do not count either. An input counts if it is
    saved: it must be there for the backward pass, whoever made it.
    Returns bytes. Raises what the function raises, and TypeError as `Meter` does.

    >>> x = torch.zeros(3, 5, requires_grad=True)
    >>> [saved_tensor_bytes(f, x) for f in (torch.sum, torch.exp, torch.nn.functional.gelu)]
    [0, 60, 60]
    """
    require_type("saved_tensor_bytes", Callable, function=function)
    require_type("saved_tensor_bytes", Iterable, besides=besides)
    own = [function] if isinstance(function, nn.Module) else []
    with Meter(*own, *besides) as meter:
        result = function(*inputs)
        kept = meter.kept_bytes
    del result
    return kept


@dataclass(frozen=True)
class SavedTensor:
    """One tensor of the graph: the operation that saved it, under which name, and its bytes.

    `bytes` are those of its storage, or 0 where an operation before saved the same one.
    """

    operation: str
    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    bytes: int


def saved_by_operation(output: torch.Tensor, *besides: nn.Module | torch.Tensor):
    """What every operation behind `output` keeps for its derivative, first operation first.

    It reads the graph that autograd has built, with no hooks: a second way to the meter's number.
    Tensors that an operation of one's own stores outside `save_for_backward` are not seen.
    Arguments: `output` of a forward pass; `besides` as in `Meter`. Returns a list of SavedTensor.
    Raises ValueError for an output that has no graph, TypeError as `Meter` does.

    >>> x = torch.ones(2, 3, requires_grad=True)
    >>> for saved in saved_by_operation(x.exp().sigmoid().sum()):
    ...     print(saved.operation, saved.name, saved.shape, saved.bytes)
    Exp result (2, 3) 24
    Sigmoid result (2, 3) 24
    """
    require_type("saved_by_operation", torch.Tensor, output=output)
    if output.grad_fn is None:
        raise ValueError("saved_by_operation: output has no graph, but must require a gradient")
    seen = {storage_key(tensor) for tensor in tensors_of(besides)}
    saved = []
    for node in reversed(_nodes(output.grad_fn)):
        for name, tensor in _saved_of(node):
            key = storage_key(tensor)
            size = 0 if key in seen else _storage(tensor).nbytes()
            seen.add(key)
            operation = node.name().removesuffix("0").removesuffix("Backward")
            saved.append(SavedTensor(operation, name, tuple(tensor.shape), tensor.dtype, size))
    return saved


def _nodes(root) -> list:
    """The nodes of the graph, each once, from its output towards its leaves."""
    found, waiting = {root: None}, [root]
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in found:
                found[node] = None
                waiting.append(node)
    return list(found)


def _saved_of(node) -> list[tuple[str, torch.Tensor]]:
    own = [("saved", t) for t in getattr(node, "saved_tensors", ()) or ()]
    for attribute in dir(node):
        if attribute.startswith("_saved_"):
            value = getattr(node, attribute)
            values = value if isinstance(value, list | tuple) else [value]
            own += [(attribute.removeprefix("_saved_"), value) for value in values]
    return [
        (name, tensor)
        for name, tensor in own
        if isinstance(tensor, torch.Tensor) and not _is_python_number(tensor)
    ]


_NARROWER = {
    torch.float64: torch.float32,
    torch.int64: torch.int32,
    torch.complex128: torch.complex64,
}


def _is_python_number(tensor: torch.Tensor) -> bool:
    """Whether it is a number of the program, such as the 2 in x / 2, which no hook is shown.

    Torch marks such tensors, and lets them widen no other number.
    """
    narrow = _NARROWER.get(tensor.dtype) if tensor.ndim == 0 else None
    return narrow is not None and torch.result_type(tensor, torch.ones((), dtype=narrow)) == narrow


def tensors_of(things: Iterable):
    for thing in things:
        if isinstance(thing, nn.Module):
            # torch's own list: the `parameters()` of a sharded module are its parts
            yield from dict(nn.Module.named_parameters(thing)).values()
            yield from thing.buffers()
        elif isinstance(thing, torch.Tensor):
            yield thing
        else:
            raise TypeError(f"Meter: besides has {thing!r}, but must hold modules and tensors")


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    try:
        return tensor.untyped_storage()
    except NotImplementedError:
        raise TypeError(
            f"Meter: a tensor with layout {tensor.layout} has no one storage to count"
        ) from None


def storage_key(tensor: torch.Tensor) -> int:
    """The address of the storage's own record, which tensors without data have too."""
    return _storage(tensor)._cdata


def lies_among(tensor: torch.Tensor, others: Iterable[torch.Tensor]) -> bool:
    """Whether it lies in the storage of one of them, as they are now.

    Asked each time: sharded and offloaded weights lie in one storage now, in another later.
    """
    return storage_key(tensor) in map(storage_key, others)
