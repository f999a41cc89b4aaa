"""One function run again in its backward pass, except the operations that a policy keeps.

`checkpoint` keeps a function's inputs and, where a policy says so, the outputs of single
operations. In the backward pass the function runs again; an operation whose output was kept is not
computed, its output is handed in. So a policy trades bytes against work, operation by operation.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import CheckpointPolicy

from dtlib.formulas.require import require, require_type
from dtlib.memory.pieces import piece_of
from dtlib.memory.recompute.run import (
    FirstRun,
    Slot,
    enter,
    forgetting,
    generators,
    kept_generators,
    set_generators,
)
from dtlib.memory.recompute.schedule import RecomputeError

NAMED = {"full": (), "products": ("mm", "addmm")}


class Policy:
    """Which operations' outputs are kept: made by `checkpoint_policy`.

    It is also a policy of torch's own ``create_selective_checkpoint_contexts``.
    """

    def __init__(self, saved: Iterable[str]):
        self.saved = frozenset(saved)

    def saves(self, operation) -> bool:
        """Whether the output of this operation, such as torch.ops.aten.mm.default, is kept."""
        return operation_name(operation) in self.saved

    def __call__(self, context, operation, *arguments, **named) -> CheckpointPolicy:
        keep = self.saves(operation)
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    def __repr__(self) -> str:
        return f"checkpoint_policy({sorted(self.saved)})"


def checkpoint_policy(policy: str | Mapping[str, str] | Iterable[str]) -> Policy:
    """A policy per operation: "save" its output, or "recompute" it.

    Arguments: `policy`, names of torch's operations that are saved (``["mm", "addmm"]``), or a dict
    from such names to "save" or "recompute" (what it does not name is recomputed); or "full", to
    recompute everything, or "products", to save products with weights and to recompute the rest:
    norms, activation functions, the attention core with its products of activations (bmm).
    Returns a Policy. Raises ValueError for a name that torch has not, and for another treatment.
    Source: torch.utils.checkpoint (selective activation checkpointing).

    >>> checkpoint_policy({"mm": "save", "gelu": "recompute"})
    checkpoint_policy(['mm'])
    >>> checkpoint_policy(["matmull"])
    Traceback (most recent call last):
    ValueError: checkpoint_policy: an operation is 'matmull', but must be one of torch.ops.aten
    """
    owner = "checkpoint_policy"
    if isinstance(policy, str):
        require(policy in NAMED, owner, "policy", policy, f"a dict, a list or one of {list(NAMED)}")
        policy = NAMED[policy]
    require_type(owner, Iterable, policy=policy)
    ways = dict(policy) if isinstance(policy, Mapping) else dict.fromkeys(policy, "save")
    for name, way in ways.items():
        known = isinstance(name, str) and name.isidentifier() and hasattr(torch.ops.aten, name)
        require(known, owner, "an operation", name, "one of torch.ops.aten")
        require(way in ("save", "recompute"), owner, name, way, "'save' or 'recompute'")
    return Policy(name for name, way in ways.items() if way == "save")


def operation_name(operation) -> str:
    """The name without the library and the overload: "mm" of aten.mm.default."""
    return operation._schema.name.partition("::")[2]


def checkpoint(
    function: Callable,
    *arguments: Any,
    policy: Policy | None = None,
    preserve_rng: bool = True,
) -> Any:
    """What the function returns; its tape is made when the backward pass needs it.

    Equation: checkpoint(f, x) = f(x), with the gradients of f, bit for bit (those of an input that
    is used elsewhere too are added in another order).
    Arguments: `function`, a module or another function that returns a tensor or several;
    its `arguments`, tensors or not (a tensor with a graph behind it must be one of them, not hidden
    in a dict or a closure, whose graph would be used up); `policy`, from `checkpoint_policy`, by
    default to recompute everything; `preserve_rng`, whether it draws the same random numbers when
    it runs again.
    Raises RecomputeError for an output that is no tensor, for a kept output that is changed in
    place, and for a function that does not do the same operations again; RuntimeError in the
    backward pass for parameters that have changed, and for a second backward pass.
    Source: Chen et al. 2016; Korthikanti et al. 2023 for keeping some operations.

    >>> linear = torch.nn.Linear(3, 3)
    >>> x = torch.ones(2, 3)
    >>> torch.equal(checkpoint(linear, x), linear(x))
    True
    >>> checkpoint(linear, x).sum().backward()
    >>> linear.bias.grad
    tensor([2., 2., 2.])
    """
    if policy is not None:
        require_type("checkpoint", Policy, policy=policy)
    if not torch.is_grad_enabled():
        return function(*arguments)
    piece = _Piece(function, arguments, policy, preserve_rng)
    outputs = piece.forward()
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    joined = _Join.apply(piece, len(outputs), *outputs, *tensors, *piece.first.parameters)
    return joined if piece.several else joined[0]


class _Join(torch.autograd.Function):
    @staticmethod
    def forward(ctx, piece, count, *tensors):
        ctx.piece = piece
        outputs = tuple(t.view_as(t) for t in tensors[:count])
        ctx.mark_non_differentiable(
            *(t for t, needs in zip(outputs, piece.needs_out, strict=True) if not needs)
        )
        return outputs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *gradients):
        piece, ctx.piece = ctx.piece, None
        if piece is None:
            raise RuntimeError("checkpoint: a second backward pass, but its inputs are gone")
        return None, None, *(None for _ in gradients), *piece.backward(gradients)


class _Piece:
    """One call of a function: how it ran, what it was given, and what was kept of it."""

    def __init__(self, function, arguments, policy, preserve_rng):
        self.function, self.policy = function, policy
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        self.needs = [t.requires_grad for t in tensors]
        self.rest = [None if isinstance(a, torch.Tensor) else (a,) for a in arguments]
        self.given = [t.detach() for t in tensors]
        example = tensors[0] if tensors else torch.empty(0)
        self.first = FirstRun(example, preserve_rng)
        self.guard = preserve_rng

    def forward(self):
        record = _Record(self.policy, self.first.device) if self.policy else ExitStack()
        inputs = self._inputs(self.given)
        with piece_of("checkpoint"), torch.enable_grad(), forgetting(), record:
            found = self.function(*self._arguments(inputs))
        outputs = self._outputs(found)
        self.first.remember(outputs, inputs)
        self.needs_out = [t.requires_grad for t in outputs]
        self.slots = [Slot(t) for t in self.given]
        self.kept = record.slots() if self.policy else []
        del self.given
        return [t.detach() for t in outputs]

    def backward(self, gradients):
        inputs = self._inputs([slot.tensor() for slot in self.slots])
        replay = _Replay(self.policy, self.kept, self.first.device) if self.policy else ExitStack()
        guard = kept_generators(self.first.device) if self.guard else ExitStack()
        with guard, self.first.again(), torch.enable_grad(), replay:
            outputs = self._outputs(self.function(*self._arguments(inputs)))
        if self.policy:
            replay.check_done()
        self.slots = self.kept = None
        pairs = zip(outputs, gradients, self.needs_out, strict=True)
        pairs = [(t, g) for t, g, needs in pairs if needs and g is not None]
        wanted = [t for t in inputs if t.requires_grad] + self.first.parameters
        outputs, gradients = map(list, zip(*pairs, strict=True)) if pairs else ([], [])
        needs = [t.requires_grad for t in inputs]
        del inputs, pairs
        if not (outputs and wanted):
            return [None] * (len(needs) + len(self.first.parameters))
        found = iter(torch.autograd.grad(outputs, wanted, gradients, allow_unused=True))
        return [next(found) if n else None for n in needs] + list(found)

    def _inputs(self, tensors):
        with torch.enable_grad():
            return [enter(t, needs) for t, needs in zip(tensors, self.needs, strict=True)]

    def _arguments(self, inputs):
        following = iter(inputs)
        return [next(following) if a is None else a[0] for a in self.rest]

    def _outputs(self, found):
        self.several = isinstance(found, tuple | list)
        outputs = list(found) if self.several else [found]
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                kind = type(output).__name__
                raise RecomputeError(f"checkpoint: the function returns a {kind}, not a tensor")
        return outputs


class _Record(TorchDispatchMode):
    """Remembers the outputs of the operations that a policy saves, in their order."""

    def __init__(self, policy, device):
        super().__init__()
        self.policy, self.device, self.calls = policy, device, []

    def __torch_dispatch__(self, operation, types, arguments=(), named=None):
        result = operation(*arguments, **(named or {}))
        if self.policy.saves(operation):
            tensors = [t for t in _flat(result) if isinstance(t, torch.Tensor)]
            versions = [t._version for t in tensors]
            # an operation that is not repeated must leave the generators as it left them before
            drawn = torch.Tag.nondeterministic_seeded in operation.tags
            after = generators(self.device) if drawn else None
            self.calls.append((operation, result, tensors, versions, after))
        return result

    def slots(self):
        """What was kept, as (operation, outputs with slots in place of tensors, generators)."""
        kept = []
        for operation, result, tensors, versions, after in self.calls:
            if [t._version for t in tensors] != versions:
                name = operation_name(operation)
                raise RecomputeError(f"checkpoint: the kept output of {name} was changed in place")
            kept.append((operation, tree_map_only(torch.Tensor, Slot, result), after))
        return kept


class _Replay(TorchDispatchMode):
    """Hands in the kept outputs; all other operations are computed."""

    def __init__(self, policy, kept, device):
        super().__init__()
        self.policy, self.kept, self.device = policy, list(reversed(kept)), device

    def __torch_dispatch__(self, operation, types, arguments=(), named=None):
        if not self.policy.saves(operation):
            return operation(*arguments, **(named or {}))
        expected, result, after = self.kept.pop() if self.kept else (None, None, None)
        if expected is not operation:
            raise RecomputeError(
                f"checkpoint: the function runs {operation} again where it ran {expected} first"
            )
        if after is not None:
            set_generators(self.device, after)
        return tree_map_only(Slot, Slot.tensor, result)

    def check_done(self):
        if self.kept:
            missing = self.kept[-1][0]
            raise RecomputeError(f"checkpoint: the function ran {missing} first, and not again")


def _flat(result):
    return result if isinstance(result, tuple | list) else [result]
