"""Programs on ranks against the dense block: outputs, gradients of every shard, sums and bytes."""

from collections.abc import Callable
from typing import Any, NamedTuple

from dtlib.exercises.judges.tensors import as_tensor, close, normal, same_calls, same_tensor
from dtlib.exercises.labs.tensor_parallel_block.programs import cut, side_of
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.team import record_team
from dtlib.exercises.worlds.world import TransportError
from dtlib.later import torch


def conjugate_law(answer: Any, P: int) -> None:
    each = [normal(3, 5, seed=rank) for rank in range(P)]
    weights = [normal(3, 5, seed=100 + rank) for rank in range(P)]
    for rank, found in enumerate(record_team(_through, P, answer[0], each[:1] * P, weights)):
        same_tensor(found.x, each[0], f"rank {rank}: f changes its input, which")
        same_tensor(found.out, each[0], f"rank {rank}: f does not hand on x: its result")
        _same(found.dx, sum(weights), f"f, rank {rank}: the gradient", P, weights)
        same_calls(f"f, rank {rank}", found.calls, (0, 1))
        _bytes(f"f, rank {rank}", found.comm, 1, found.x)
    for rank, found in enumerate(record_team(_through, P, answer[1], each, weights[:1] * P)):
        same_tensor(found.x, each[rank], f"rank {rank}: g changes its input, which")
        _same(found.out, sum(each), f"g, rank {rank}: the result", P, each)
        _same(found.dx, weights[0], f"g, rank {rank}: the gradient", P)
        same_calls(f"g, rank {rank}", found.calls, (1, 0))
        _bytes(f"g, rank {rank}", found.comm, 1, found.x)


def mlp_law(answer: Callable, P: int) -> None:
    cuts = {"up.weight": 0, "up.bias": 0, "down.weight": 1, "down.bias": None}
    try:
        _compared(answer, _feed_forward(), cuts.get, (2, 3, 8), P, (1, 1))
    except NotYet as wrong:
        without = _feed_forward()
        without.up.bias.data.zero_()
        without.down.bias.data.zero_()
        if "output" in wrong.reason and _passes(answer, without, cuts.get, P):
            raise NotYet("right where biases are 0: how often is each of them added?") from None
        raise


def shard_cases():
    weights = {name: p.detach() for name, p in _block_module().named_parameters()}
    for P in (2, 4):
        for rank in range(P):
            yield f"P = {P}, rank {rank}", ({n: w.clone() for n, w in weights.items()}, rank, P)


def shard_law(given: Any, right: dict, weights: dict, rank: int, P: int) -> None:
    if not isinstance(given, dict):
        raise NotYet(f"shard returns {type(given).__name__}, not a dict of tensors")
    for name in [*weights, *given]:
        if name not in given or name not in weights:
            raise NotYet(f"the dict {'lacks' if name in weights else 'has an extra'} {name}")
        found, due = as_tensor(given[name], name), right[name]
        if found.shape != due.shape and due.shape == weights[name].shape:
            raise NotYet(f"{name} is needed whole by every rank")
        if found.shape != due.shape:
            whole = found.shape == weights[name].shape
            way = "is needed whole by no rank" if whole else "is cut the wrong way"
            raise NotYet(f"{name} {way}: which of its sides has the heads, or the inner width?")
        if not close(found, due):
            raise NotYet(f"{name} has the right shape, but another rank's numbers")


def block_law(answer: Callable, P: int) -> None:
    dense = _block_module()

    def program(comm, x, w):
        return answer(comm, x, w, dense.attention.head_dim)

    _compared(program, dense, side_of, (2, 3, 16), P, (2, 2))


def vocabulary_law(answer: Callable, P: int) -> None:
    for scale in (1, 1e4):
        where = "logits up to 10,000: " if scale > 1 else ""
        logits, vocab = scale * normal(6, 16, seed=7), 16
        targets = torch.tensor([0, vocab - 1, vocab // P - 1, vocab // P, 5, 11])
        dense = logits.clone().requires_grad_()
        expected = torch.nn.functional.cross_entropy(dense, targets)
        expected.backward()

        def program(comm, logits=logits, targets=targets):
            mine = logits.chunk(comm.size, dim=1)[comm.rank].clone().requires_grad_()
            loss = as_tensor(answer(comm, mine, targets.clone()), f"rank {comm.rank}")
            forward = len(comm.calls)
            if loss.shape != ():
                raise NotYet(f"the loss has shape {list(loss.shape)}, but must be one number")
            loss.backward()
            return loss.detach(), mine.grad, comm.calls[:forward], comm.calls[forward:]

        for rank, (loss, grad, forward, backward) in enumerate(record_team(program, P)):
            _same(loss, expected.detach(), f"{where}rank {rank}: the loss", P)
            _same(grad, dense.grad.chunk(P, dim=1)[rank], f"{where}rank {rank}: dlogits", P)
            if sum(call.numbers for call in forward) > 3 * len(targets):
                raise NotYet(
                    f"{where}right, but rank {rank} exchanges more than three numbers per token: "
                    "the logits stay where they are"
                )
            if backward:
                raise NotYet(f"{where}right, but the backward pass needs no collective here")


class _Found(NamedTuple):
    out: Any
    x: Any
    dx: Any
    grads: dict[str, Any]
    calls: tuple[int, int]
    comm: Any


def _through(comm: Any, operator: Callable, inputs: list, weights: list) -> _Found:
    return _run(comm, lambda comm, x, w: operator(comm, x), inputs[comm.rank], {},
                weights[comm.rank])  # fmt: skip


def _run(comm: Any, program: Callable, x: Any, w: dict, weight: Any) -> _Found:
    """One forward and backward pass of this rank, with copies of its input and its shards."""
    mine = {name: value.clone().requires_grad_() for name, value in w.items()}
    here = x.clone().requires_grad_()
    out = as_tensor(program(comm, here, mine), f"rank {comm.rank}")
    forward = len(comm.calls)
    if out.shape != weight.shape:
        raise NotYet(f"the result has shape {list(out.shape)}, not that of x")
    if not out.requires_grad:
        raise NotYet("the result has no graph behind it, so nothing learns")
    (out * weight).sum().backward()
    if here.grad is None:
        raise NotYet("no gradient arrives at x: the result has no graph behind it")
    grads = {name: value.grad for name, value in mine.items()}
    calls = forward, len(comm.calls) - forward
    return _Found(out.detach(), here.detach(), here.grad, grads, calls, comm)


def _compared(program, dense, side: Callable, shape, P: int, calls: tuple[int, int]) -> None:
    """The program on P ranks against the dense module: everything, and its number of sums."""
    x, weight = normal(*shape, seed=1), normal(*shape, seed=2)
    reference = x.clone().requires_grad_()
    dense.zero_grad()
    expected = dense(reference)
    (expected * weight).sum().backward()
    named = dict(dense.named_parameters())

    def on_rank(comm):
        w = {name: cut(p.detach(), side(name), comm.rank, P) for name, p in named.items()}
        return _run(comm, program, x, w, weight)

    results = record_team(on_rank, P)
    for rank, found in enumerate(results):
        outs = [r.out for r in results]
        _same(found.out, expected.detach(), f"rank {rank}: the output", P, outs)
    for rank, found in enumerate(results):
        for name, p in named.items():
            right = cut(p.grad, side(name), rank, P)
            shares = [r.grads[name] for r in results] if side(name) is None else ()
            _same(found.grads[name], right, f"rank {rank}: the gradient of {name}", P, shares)
        _same(found.dx, reference.grad, f"rank {rank}: dX", P, [r.dx for r in results])
        same_calls(f"rank {rank}", found.calls, calls)
        _bytes(f"rank {rank}", found.comm, sum(calls), x)


def _passes(program, dense, side: Callable, P: int) -> bool:
    try:
        _compared(program, dense, side, (2, 3, 8), P, (1, 1))
    except (NotYet, TransportError):
        return False
    return True


def _same(found: Any, right: Any, where: str, P: int, shares: Any = ()) -> None:
    """Equal to the dense one; else which kind of wrong: P times, a P-th, one rank's share."""
    whole = None not in shares and len(shares) == P and close(sum(shares), right)
    same_tensor(found, right, where, {
        "exactly P times what it should be: added up once too often": P * right,
        "exactly a P-th of what it should be": right / P,
        "only this rank's share: nobody has added up the ranks'": found if whole else None,
    })  # fmt: skip


def _bytes(where: str, comm: Any, sums: int, x: Any) -> None:
    """Raise NotYet if a rank sends more than all-reduces of tensors like x: it has gathered."""
    if comm.sent_bytes > sums * 2 * (comm.size - 1) / comm.size * x.numel() * x.element_size():
        raise NotYet(f"{where}: more bytes are sent than sums of x's size need: add, don't gather")


def _block_module() -> Any:
    """The dense block: 8 query heads, 4 key heads, RMS norms, gated, no biases."""
    from dtlib.models import Block

    options = {"norm": "rms", "bias": False, "gated": True, "kv_heads": 4, "ffn": 24}
    return _filled(lambda spec: Block(spec), hidden=16, heads=8, **options)


def _feed_forward() -> Any:
    from dtlib.models.gpt import FeedForward

    return _filled(lambda spec: FeedForward(spec, spec.ffn), hidden=8, heads=4, ffn=16)


def _filled(module: Callable, **sizes: Any) -> Any:
    from dtlib.foundations import TransformerSpec
    from dtlib.models.gpt import draw_weights

    made = module(TransformerSpec("lab", layers=1, vocab=16, **sizes)).double()
    draw_weights(made, seed=3)
    return made
