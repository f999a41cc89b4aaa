"""What a rank calls and sends, counted: operations and bytes, collectives and messages.

`counted` watches the functions of `torch.distributed` while a block runs, in forward and in
backward. What C++ issues by itself cannot be seen from here: DistributedDataParallel's own buckets
(a communication hook written in Python is seen), DTensor and the functional collectives behind it
(`torch.distributed.tensor.debug.CommDebugMode` counts those), the methods of a process group.
"""

import contextlib
import functools
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple


class Sent(NamedTuple):
    """One call: the operation, and the bytes that this rank sends for it."""

    operation: str
    bytes: int | Fraction


@dataclass
class Log:
    """What was called, in order (``events``), and by operation (``calls``, ``bytes``).

    Operations: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather,
    scatter, send, barrier; whatever a function's newer or older name is. Receiving sends nothing
    and is not listed. A pipeline's headers are not among its messages: see `listed_as`.
    """

    events: list[Sent] = field(default_factory=list)

    @property
    def calls(self) -> dict[str, int]:
        """How often each operation was called."""
        return dict(Counter(event.operation for event in self.events))

    @property
    def bytes(self) -> dict[str, int | Fraction]:
        """Bytes that this rank sent, by operation."""
        totals: dict[str, Any] = dict.fromkeys(self.calls, 0)
        for event in self.events:
            totals[event.operation] += event.bytes
        return {operation: _whole(total) for operation, total in totals.items()}

    @property
    def total_bytes(self) -> int | Fraction:
        """Bytes that this rank sent in all."""
        return _whole(sum(event.bytes for event in self.events))

    def __str__(self) -> str:
        lines = [
            f"{operation}: {calls} call{'s' if calls > 1 else ''}, "
            f"{float(self.bytes[operation]):g} B sent"
            for operation, calls in self.calls.items()
        ]
        return "\n".join(lines) or "nothing was sent"


@contextlib.contextmanager
def counted(group=None) -> Iterator[Log]:
    """Count what this rank calls and sends on a group while the block runs.

    Bytes are those that the fewest-bytes algorithm sends from this rank, of tensors of n bytes on P
    ranks: all_reduce 2 (P-1)/P n; reduce_scatter (P-1)/P n of the whole; all_gather P-1 times the
    own shard; all_to_all all but what stays here; reduce and gather n from every rank but the root;
    scatter the parts of the others, from the root; broadcast n from every rank but the last of a
    chain that begins at the root; send n; barrier 0. Whole numbers where they are whole, else
    fractions.

    Arguments: ``group``; calls on other groups are not counted (None: every group counts).
    Yields the `Log`, which may be read inside the block and after it. Blocks may be nested.

        with counted(group) as log:
            loss(model(x)).backward()
        log.calls, log.bytes
    """
    import torch.distributed as dist

    watcher = _Watcher(group, Log())
    modules = (dist, dist.distributed_c10d)
    originals = []
    if not _watchers:
        originals = [
            (module, name, getattr(module, name))
            for module in modules
            for name in _OPERATIONS
            if hasattr(module, name)
        ]
        for module, name, original in originals:
            setattr(module, name, _counting(name, original))
    _watchers.append(watcher)
    try:
        yield watcher.log
    finally:
        _watchers.remove(watcher)
        for module, name, original in originals:
            setattr(module, name, original)


@contextlib.contextmanager
def listed_as(operation: str) -> Iterator[None]:
    """Calls in this block are listed under this name, apart: what is sent about data is no data."""
    _inside.name = operation
    try:
        yield
    finally:
        _inside.name = None


class _Watcher(NamedTuple):
    group: Any
    log: Log


_watchers: list[_Watcher] = []
_inside = threading.local()  # gradients of CUDA tensors are computed by threads of their own


@functools.cache
def _counting(name: str, original: Callable) -> Callable:
    """The counting form of a function; one for good, as torch compares `isend` by identity."""
    operation, sent = _OPERATIONS[name]
    signature = inspect.signature(original)

    @functools.wraps(original)
    def counting(*args: Any, **kwargs: Any) -> Any:
        if getattr(_inside, "call", False):  # torch's own call, of a function by its older name
            return original(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        _note(getattr(_inside, "name", None) or operation, sent, bound.arguments)
        _inside.call = True
        try:
            return original(*args, **kwargs)
        finally:
            _inside.call = False

    return counting


def _note(operation: str, sent: Callable, arguments: dict[str, Any]) -> None:
    import torch.distributed as dist

    group = arguments.get("group") or dist.group.WORLD
    rank, P = dist.get_rank(group), dist.get_world_size(group)
    watchers = [w for w in _watchers if w.group is None or w.group == group]
    if rank < 0 or not watchers:
        return
    event = Sent(operation, _whole(sent(arguments, rank, P)))
    for watcher in watchers:
        watcher.log.events.append(event)


def _size(*tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)


def _from_root(arguments: dict[str, Any], end: str) -> int:
    """The root's rank in the group, whichever way it is named."""
    import torch.distributed as dist

    if arguments.get(f"group_{end}") is not None:
        return arguments[f"group_{end}"]
    group = arguments.get("group") or dist.group.WORLD
    return dist.get_group_rank(group, arguments[end] or 0)


def _all_reduced(a, rank: int, P: int):
    return Fraction(2 * (P - 1), P) * _size(a["tensor"])


def _parts_of_others(whole: str) -> Callable:
    return lambda a, rank, P: Fraction(P - 1, P) * _size(a[whole])


def _listed_for_others(tensors: str) -> Callable:
    return lambda a, rank, P: _size(*(x for i, x in enumerate(a[tensors]) if i != rank))


def _shard_to_others(shard: str) -> Callable:
    return lambda a, rank, P: (P - 1) * _size(a[shard])


def _rows_for_others(a, rank: int, P: int):
    x = a["input"]
    rows = a["input_split_sizes"] or [x.shape[0] // P] * P
    return Fraction(_size(x) * (sum(rows) - rows[rank]), sum(rows) or 1)


def _along_a_chain(a, rank: int, P: int):
    return _size(a["tensor"]) if (rank - _from_root(a, "src")) % P < P - 1 else 0


def _to_root(a, rank: int, P: int):
    return _size(a["tensor"]) if rank != _from_root(a, "dst") else 0


def _from_the_root(a, rank: int, P: int):
    parts = a["scatter_list"] or []
    return _listed_for_others("scatter_list")(a, rank, P) if parts else 0


_OPERATIONS: dict[str, tuple[str, Callable]] = {
    "all_reduce": ("all_reduce", _all_reduced),
    "all_gather": ("all_gather", _shard_to_others("tensor")),
    "all_gather_single": ("all_gather", _shard_to_others("input_tensor")),
    "all_gather_into_tensor": ("all_gather", _shard_to_others("input_tensor")),
    "reduce_scatter": ("reduce_scatter", _listed_for_others("input_list")),
    "reduce_scatter_single": ("reduce_scatter", _parts_of_others("input")),
    "reduce_scatter_tensor": ("reduce_scatter", _parts_of_others("input")),
    "all_to_all": ("all_to_all", _listed_for_others("input_tensor_list")),
    "all_to_all_single": ("all_to_all", _rows_for_others),
    "broadcast": ("broadcast", _along_a_chain),
    "reduce": ("reduce", _to_root),
    "gather": ("gather", _to_root),
    "scatter": ("scatter", _from_the_root),
    "send": ("send", lambda a, rank, P: _size(a["tensor"])),
    "isend": ("send", lambda a, rank, P: _size(a["tensor"])),
    "barrier": ("barrier", lambda a, rank, P: 0),
}


def _whole(number):
    return int(number) if number == int(number) else number
