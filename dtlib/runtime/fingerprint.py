"""Debug mode: compare what the ranks are about to do before they do it.

A backend trusts its callers. When shapes, dtypes or operations differ among the ranks, gloo returns
garbage, aborts the process or waits forever. Inside `checked_collectives` every collective of
`torch.distributed` first gathers its fingerprint from all ranks of the group, and each side of a
message leaves its own where the other side can find it.

Calls that C++ makes by itself (DistributedDataParallel, DTensor, a group's own methods) pass
unchecked.
"""

import contextlib
import functools
import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from dtlib.runtime.errors import CollectiveMismatch, name_ranks

# For every collective, the arguments that must be the same on all ranks.
_SHARED_ARGUMENTS = {
    "all_reduce": ("tensor", "op"),
    "broadcast": ("tensor", "src", "group_src"),
    "reduce": ("tensor", "dst", "group_dst", "op"),
    "gather": ("tensor", "dst", "group_dst"),
    "scatter": ("tensor", "src", "group_src"),
    "all_gather": ("tensor",),
    "all_gather_single": ("output_tensor", "input_tensor"),
    "all_gather_into_tensor": ("output_tensor", "input_tensor"),
    "reduce_scatter": ("input_list", "op"),
    "reduce_scatter_single": ("output", "input", "op"),
    "reduce_scatter_tensor": ("output", "input", "op"),
    "all_to_all": (),
    "all_to_all_single": (),
    "barrier": (),
}
_MESSAGES = {"send": "dst", "isend": "dst", "recv": "src", "irecv": "src"}


class Fingerprint(NamedTuple):
    """What a rank is about to call; for an all-to-all, also its part for and from each rank."""

    call: str
    sends: tuple[str, ...] = ()
    receives: tuple[str, ...] = ()


def compare(ranks: Sequence[int], fingerprints: Sequence[Fingerprint]) -> None:
    """Raise CollectiveMismatch unless the fingerprints of a group's ranks fit together.

    >>> compare([0, 1], [Fingerprint("all_reduce(tensor=float32[4], op=SUM)"),
    ...                  Fingerprint("all_reduce(tensor=float32[5], op=SUM)")])
    Traceback (most recent call last):
    dtlib.runtime.errors.CollectiveMismatch: the ranks disagree about the collective
      rank 0 calls all_reduce(tensor=float32[4], op=SUM)
      rank 1 calls all_reduce(tensor=float32[5], op=SUM)
    """
    callers: dict[str, list[int]] = {}
    for rank, fingerprint in zip(ranks, fingerprints, strict=True):
        callers.setdefault(fingerprint.call, []).append(rank)
    if len(callers) > 1:
        lines = ["the ranks disagree about the collective"]
        for call, those in callers.items():
            lines.append(f"  {name_ranks(those)} {'calls' if len(those) == 1 else 'call'} {call}")
        raise CollectiveMismatch("\n".join(lines))
    for (i, sender), (j, receiver) in itertools.product(enumerate(fingerprints), repeat=2):
        if sender.sends and sender.sends[j] != receiver.receives[i]:
            raise _message_mismatch(ranks[i], ranks[j], sender.sends[j], receiver.receives[i])


def _message_mismatch(sender: int, receiver: int, sent: str, expected: str) -> CollectiveMismatch:
    return CollectiveMismatch(
        f"rank {sender} sends {sent} to rank {receiver}, which receives {expected}"
    )


def describe(value: Any) -> str:
    """An argument in a few characters; of a tensor, what all ranks must share: dtype and shape.

    >>> describe([2, 3])
    '[2, 3]'
    """
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(describe, value))}]"
    if hasattr(value, "dtype"):
        return f"{_dtype(value)}{list(value.shape)}"
    return str(value).removeprefix("RedOpType.")


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def fingerprint_of(name: str, arguments: dict[str, Any], group_size: int) -> Fingerprint:
    """The fingerprint of a call of the collective `name`."""
    shared = {key: arguments.get(key) for key in _SHARED_ARGUMENTS[name]}
    listed = [f"{key}={describe(value)}" for key, value in shared.items() if value is not None]
    call = f"{name}({', '.join(listed)})"
    if name == "all_to_all":
        lists = (arguments["input_tensor_list"], arguments["output_tensor_list"])
        return Fingerprint(call, *(tuple(map(describe, tensors)) for tensors in lists))
    if name == "all_to_all_single":
        sends = _parts(arguments["input"], arguments.get("input_split_sizes"), group_size)
        receives = _parts(arguments["output"], arguments.get("output_split_sizes"), group_size)
        return Fingerprint(call, sends, receives)
    return Fingerprint(call)


def _parts(tensor: Any, rows: Sequence[int] | None, group_size: int) -> tuple[str, ...]:
    rows = rows or [tensor.shape[0] // group_size] * group_size
    return tuple(f"{_dtype(tensor)}{[count, *tensor.shape[1:]]}" for count in rows)


@contextlib.contextmanager
def checked_collectives() -> Iterator[None]:
    """Check the collectives and messages of `torch.distributed` inside this context.

    All ranks must enter it together. Costs an exchange of small objects per collective.
    """
    import torch.distributed as dist

    modules = (dist, dist.distributed_c10d)
    originals = [
        (module, name, getattr(module, name))
        for module in modules
        for name in (*_SHARED_ARGUMENTS, *_MESSAGES)
        if hasattr(module, name)
    ]
    checker = _Checker(next(_contexts))
    try:
        for module, name, original in originals:
            checked = _checked(name, original)
            checked.checker = checker
            setattr(module, name, checked)
        yield
    finally:
        for module, name, original in originals:
            _checked(name, original).checker = None
            setattr(module, name, original)


_contexts = itertools.count()


@functools.cache
def _checked(name: str, original: Callable) -> Callable:
    """The checking form of a function; one for good, as torch compares `isend` by identity.

    Its attribute `checker` is that of the context, None outside.
    """
    signature = inspect.signature(original)

    @functools.wraps(original)
    def checked(*args: Any, **kwargs: Any) -> Any:
        checker = checked.checker
        if checker is None or checker.busy:
            return original(*args, **kwargs)
        with checker.at_work():
            checker.check(name, signature.bind(*args, **kwargs))
            return original(*args, **kwargs)

    checked.checker = None
    return checked


class _Checker:
    """Compares calls inside one context. While it works, the calls it makes are not checked."""

    def __init__(self, context: int) -> None:
        self.busy = False
        self._context = context
        self._messages: Counter[str] = Counter()

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        self.busy = True
        try:
            yield
        finally:
            self.busy = False

    def check(self, name: str, bound: inspect.BoundArguments) -> None:
        import torch.distributed as dist

        bound.apply_defaults()
        group = bound.arguments.get("group") or dist.group.WORLD
        if dist.get_rank(group) < 0:
            return
        if name in _MESSAGES:
            self._check_message(_MESSAGES[name], bound.arguments, group)
        else:
            self._check_collective(name, bound.arguments, group)

    def _check_collective(self, name: str, arguments: dict[str, Any], group: Any) -> None:
        import torch.distributed as dist

        ranks = dist.get_process_group_ranks(group)
        fingerprints: list[Any] = [None] * len(ranks)
        own = fingerprint_of(name, arguments, len(ranks))
        dist.all_gather_object(fingerprints, own, group=group)
        compare(ranks, fingerprints)

    def _check_message(self, end: str, arguments: dict[str, Any], group: Any) -> None:
        """Leave a note for the other side, and compare if theirs is there already.

        Waiting for it would not do: an `irecv` may come long before the matching send.
        """
        import torch.distributed as dist

        here = dist.get_rank()
        peer = arguments[end]
        if arguments.get(f"group_{end}") is not None:
            peer = dist.get_global_rank(group, arguments[f"group_{end}"])
        if peer is None:
            return  # a receive from any rank has no partner yet
        sender, receiver = (here, peer) if end == "dst" else (peer, here)
        stream = f"{self._context}/{group.group_name}/{sender}>{receiver}/{arguments['tag']}"
        self._messages[f"{stream}/{end}"] += 1
        key = f"dtlib/{stream}/{self._messages[f'{stream}/{end}']}"
        tensor = arguments["tensor"]
        store = dist.distributed_c10d._get_default_store()
        store.set(f"{key}/{end}", f"{_dtype(tensor)}/{tensor.numel()}/{describe(tensor)}")
        sides = [f"{key}/dst", f"{key}/src"]
        if store.check(sides):
            sent, expected = (store.get(side).decode().split("/") for side in sides)
            if sent[:2] != expected[:2]:
                raise _message_mismatch(sender, receiver, sent[2], expected[2])
