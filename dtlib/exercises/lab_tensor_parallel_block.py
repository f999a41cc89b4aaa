"""Graders of the lab 'A tensor-parallel transformer block'.

Every program runs on 2 and 4 ranks in memory, in 64 bits; outputs, input gradients and the
gradient of every shard are held against the dense block, and every collective is counted.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, whole
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds import TransportError, record_team

SIZES = (2, 4)
TOLERANCE = 1e-10


@grader("ex-lab-tp-predict")
def predict(answer: Any) -> str:
    asked = ("forward", "backward", "sent_bytes")
    if not isinstance(answer, dict) or set(answer) != set(asked):
        raise NotYet(f"pass a dict with the keys {', '.join(asked)}")
    hints = {
        1: "attention and feed-forward both end in a sum",
        4: "that is both passes together",
        6: "queries, keys and values read the same input: one sum is enough",
    }
    number(whole(answer["forward"], "forward"), 2, "forward", mistakes=hints)
    number(whole(answer["backward"], "backward"), 2, "backward", mistakes=hints)
    message = 2048 * 4096 * 2
    right = 4 * 1.5 * message
    mistakes = {
        right / 2: "that is one pass of two",
        right / 4: "that is one all-reduce",
        4 * message: "an all-reduce sends more than its message once, and less than twice",
        8 * message: "an all-reduce sends a little less than its message twice",
        4 * right: "that is all ranks together",
        right / 2048: "that is one token",
    }
    number(answer["sent_bytes"], right, "sent_bytes", "bytes", tolerance=1e-6, mistakes=mistakes)
    return "the sums of one block, and what each rank sends for them in a step"


@grader("ex-lab-tp-conjugates")
def conjugates(answer: Any) -> str:
    f, g = items(answer, "(f, g)", 2)
    function(f, "f(comm, x)")
    function(g, "g(comm, x)")
    for P in SIZES:
        each = [_random((3, 5), seed=rank) for rank in range(P)]
        weights = [_random((3, 5), seed=100 + rank) for rank in range(P)]

        def program(comm, operator, inputs, each_its_own, weights=weights):
            x = inputs[comm.rank].clone().requires_grad_()
            out = _tensor(operator(comm, x), comm.rank)
            forward = len(comm.calls)
            weight = weights[comm.rank if each_its_own else 0]
            (out * weight).sum().backward()
            if x.grad is None:
                raise NotYet("no gradient arrives at x: the result has no graph behind it")
            calls = (forward, len(comm.calls) - forward)
            return out.detach(), x.grad, *calls, x.detach(), comm

        same = [each[0]] * P
        found = record_team(program, P, f, same, True)
        for rank, (out, grad, forward, backward, x, comm) in enumerate(found):
            for tensor, wrong in ((x, "f changes its input"), (out, "f does not hand on x")):
                if tensor.shape != each[0].shape or not _close(tensor, each[0]):
                    raise NotYet(f"P = {P}, rank {rank}: {wrong}")
            _same(grad, sum(weights), f"P = {P}: f, rank {rank}: the gradient", P, weights)
            _calls(f"P = {P}: f", forward, backward, 0, 1)
            _bytes(f"P = {P}: f", comm, 1, x)
        found = record_team(program, P, g, each, False)
        for rank, (out, grad, forward, backward, x, comm) in enumerate(found):
            if not _close(x, each[rank]):
                raise NotYet(f"P = {P}, rank {rank}: g changes its input")
            _same(out, sum(each), f"P = {P}: g, rank {rank}: the result", P, each)
            _same(grad, weights[0], f"P = {P}: g, rank {rank}: the gradient", P, [])
            _calls(f"P = {P}: g", forward, backward, 1, 0)
            _bytes(f"P = {P}: g", comm, 1, x)
    return "each is the other one backwards, on 2 and 4 ranks"


@grader("ex-lab-tp-mlp")
def mlp(answer: Any) -> str:
    function(answer, "mlp(comm, x, w)")
    from dtlib.foundations import TransformerSpec
    from dtlib.models.gpt import FeedForward

    spec = TransformerSpec("lab", layers=1, hidden=8, heads=4, vocab=16, ffn=16)
    dense = _filled(FeedForward(spec, spec.ffn).double())
    cuts = {"up.weight": 0, "up.bias": 0, "down.weight": 1, "down.bias": None}
    for P in SIZES:
        try:
            _judge(answer, dense, cuts.get, (2, 3, 8), P, calls=(1, 1))
        except NotYet as wrong:
            without = _filled(FeedForward(spec, spec.ffn).double())
            for name in ("up", "down"):
                getattr(without, name).bias.data.zero_()
            if "output" in wrong.reason and _passes(answer, without, cuts.get, (2, 3, 8), P):
                hint = "right where biases are 0: how often is each of them added?"
                raise NotYet(f"P = {P}: {hint}") from None
            raise
    return "output, dX and every dW of the dense MLP, with one sum forwards and one backwards"


@grader("ex-lab-tp-shard")
def shard(answer: Any) -> str:
    function(answer, "shard(weights, rank, size)")
    weights = {name: p.detach() for name, p in _block().named_parameters()}
    for P in SIZES:
        for rank in range(P):
            found = call(answer, {name: p.clone() for name, p in weights.items()}, rank, P)
            if not isinstance(found, dict):
                raise NotYet(f"shard returns {type(found).__name__}, not a dict of tensors")
            where = f"P = {P}, rank {rank}"
            for name in [*weights, *found]:
                if name not in found or name not in weights:
                    what = "lacks" if name in weights else "has an extra"
                    raise NotYet(f"{where}: the dict {what} {name}")
                _check_shard(name, _tensor(found[name], rank), weights[name], rank, P)
    return "every weight of the block, cut where heads and inner width are cut, whole where not"


@grader("ex-lab-tp-block")
def block(answer: Any) -> str:
    function(answer, "block(comm, x, w, head_dim)")
    dense = _block()
    head_dim = dense.attention.head_dim

    def program(comm, x, w):
        return answer(comm, x, w, head_dim)

    for P in SIZES:
        _judge(program, dense, _cut_of, (2, 3, 16), P, calls=(2, 2))
    return "output, dX and every dW of the dense block, grouped heads too; 2 sums + 2 sums"


@grader("ex-lab-tp-vocabulary")
def vocabulary(answer: Any) -> str:
    function(answer, "vocab_cross_entropy(comm, logits, targets)")
    import torch
    from torch.nn import functional as F

    tokens, vocab = 6, 16
    for P, scale in ((2, 1), (4, 1), (4, 1e4)):
        logits = scale * _random((tokens, vocab), seed=7)
        targets = torch.tensor([0, vocab - 1, vocab // P - 1, vocab // P, 5, 11])
        dense = logits.clone().requires_grad_()
        expected = F.cross_entropy(dense, targets)
        expected.backward()

        def program(comm, logits=logits, targets=targets):
            mine = logits.chunk(comm.size, dim=1)[comm.rank].clone().requires_grad_()
            loss = _tensor(answer(comm, mine, targets.clone()), comm.rank)
            forward = len(comm.calls)
            if loss.shape != ():
                raise NotYet(f"the loss has shape {list(loss.shape)}, but must be one number")
            loss.backward()
            if mine.grad is None:
                raise NotYet("no gradient arrives at the logits")
            return loss.detach(), mine.grad, comm.calls[:forward], comm.calls[forward:]

        where = f"P = {P}" + (", logits up to 10,000" if scale > 1 else "")
        for rank, (loss, grad, forward, backward) in enumerate(record_team(program, P)):
            _same(loss, expected.detach(), f"{where}: rank {rank}: the loss", P, [])
            _same(grad, dense.grad.chunk(P, dim=1)[rank], f"{where}: rank {rank}: dlogits", P, [])
            if sum(call.numbers for call in forward) > 3 * tokens:
                raise NotYet(
                    f"{where}: right, but rank {rank} exchanges more than three numbers per token: "
                    "the logits stay where they are"
                )
            if backward:
                raise NotYet(f"{where}: right, but the backward pass needs no collective here")
    return "the loss and the gradient of every logit; three numbers per token travel, no logit"


@grader("ex-lab-tp-wrong-g")
def wrong_g(answer: Any) -> str:
    one, three = items(answer, "(one MLP, first of three MLPs)", 2)
    mistakes = {1: "the loss is unchanged; are the gradients?", 16: "that is two of them in a row"}
    number(whole(one, "one MLP"), 4, "one MLP", mistakes=mistakes)
    mistakes = {
        4: "every wrong g on the way back counts",
        12: "do the factors add up?",
        16: "how many wrong g lie between the loss and the first MLP, its own included?",
    }
    number(whole(three, "first of three"), 64, "first of three", mistakes=mistakes)
    return "so a wrong g grows with depth, and an optimizer that normalises gradients hides it"


class _Found(NamedTuple):
    out: Any
    dx: Any
    grads: dict[str, Any]
    forward: int
    backward: int
    comm: Any


def _judge(program, dense, cut_of: Callable, shape, P: int, calls: tuple[int, int]) -> None:
    """The program on P ranks against the dense module: everything, and its number of sums."""
    x, weight = _random(shape, seed=1), _random(shape, seed=2)
    reference = x.clone().requires_grad_()
    dense.zero_grad()
    expected = dense(reference)
    (expected * weight).sum().backward()
    shards = [
        {name: _cut(p.detach(), cut_of(name), rank, P) for name, p in dense.named_parameters()}
        for rank in range(P)
    ]

    def on_rank(comm):
        mine = {name: w.clone().requires_grad_() for name, w in shards[comm.rank].items()}
        x_here = x.clone().requires_grad_()
        out = _tensor(program(comm, x_here, mine), comm.rank)
        forward = len(comm.calls)
        if tuple(out.shape) != tuple(shape):
            raise NotYet(f"P = {P}: the result has shape {list(out.shape)}, not that of x")
        if not out.requires_grad:
            raise NotYet(f"P = {P}: the result has no graph behind it, so nothing learns")
        (out * weight).sum().backward()
        grads = {name: w.grad for name, w in mine.items()}
        return _Found(out.detach(), x_here.grad, grads, forward, len(comm.calls) - forward, comm)

    results = record_team(on_rank, P)
    for rank, found in enumerate(results):
        where = f"P = {P}, rank {rank}"
        _same(found.out, expected.detach(), f"{where}: the output", P, [r.out for r in results])
    for rank, found in enumerate(results):
        where = f"P = {P}, rank {rank}"
        for name, p in dense.named_parameters():
            right = _cut(p.grad, cut_of(name), rank, P)
            parts = [] if cut_of(name) is not None else [r.grads[name] for r in results]
            _same(found.grads[name], right, f"{where}: the gradient of {name}", P, parts)
        _same(found.dx, reference.grad, f"{where}: dX", P, [r.dx for r in results])
        _calls(where, found.forward, found.backward, *calls)
        _bytes(where, found.comm, sum(calls), x)


def _passes(program, dense, cut_of: Callable, shape, P: int) -> bool:
    try:
        _judge(program, dense, cut_of, shape, P, calls=(1, 1))
    except (NotYet, TransportError):
        return False
    return True


def _same(found: Any, right: Any, where: str, P: int = 1, shares: Any = ()) -> None:
    """Raise NotYet unless both are equal up to rounding; says which kind of wrong it is."""
    if found is None:
        raise NotYet(f"{where} is missing: nothing flows back to it")
    if tuple(found.shape) != tuple(right.shape):
        raise NotYet(f"{where} has shape {list(found.shape)}, not {list(right.shape)}")
    if _close(found, right):
        return
    if P > 1 and _close(found, P * right):
        raise NotYet(f"{where} is exactly P times what it should be: added up once too often")
    if P > 1 and _close(found * P, right):
        raise NotYet(f"{where} is exactly a P-th of what it should be")
    if len(shares) == P > 1 and all(s is not None for s in shares) and _close(sum(shares), right):
        raise NotYet(f"{where} is only this rank's share: nobody has added up the ranks'")
    if not bool(found.isfinite().all()):
        raise NotYet(f"{where} is not finite: exp of what?")
    raise NotYet(f"{where} differs from the dense one")


def _close(found: Any, right: Any) -> bool:
    gap = (found.double() - right.double()).abs().max()
    return bool(gap <= TOLERANCE * right.double().abs().max())


def _calls(where: str, forward: int, backward: int, right_forward: int, right_backward: int):
    for name, found, right in (
        ("forwards", forward, right_forward),
        ("backwards", backward, right_backward),
    ):
        if found != right:
            much = "more" if found > right else "fewer"
            raise NotYet(f"{where}: right, but {much} collectives {name} than it takes")


def _bytes(where: str, comm: Any, sums: int, x: Any) -> None:
    """Raise NotYet if a rank sends more than all-reduces of tensors like x: it has gathered."""
    if comm.sent_bytes > sums * 2 * (comm.size - 1) / comm.size * x.numel() * x.element_size():
        raise NotYet(f"{where}: more bytes are sent than sums of x's size need: add, don't gather")


def _check_shard(name: str, found: Any, weight: Any, rank: int, P: int) -> None:
    where, dim = f"P = {P}, rank {rank}: {name}", _cut_of(name)
    right = _cut(weight, dim, rank, P)
    if tuple(found.shape) != tuple(right.shape):
        if dim is None:
            raise NotYet(f"{where} is needed whole by every rank")
        way = (
            "is needed whole by no rank" if found.shape == weight.shape else "is cut the wrong way"
        )
        raise NotYet(f"{where} {way}: which of its sides has the heads, or the inner width?")
    if not _close(found, right):
        raise NotYet(f"{where} has the right shape, but another rank's numbers")


def _cut_of(name: str) -> int | None:
    """Along which dimension a weight of the block is cut: outputs 0, inputs 1, not at all None."""
    if "norm" in name:
        return None
    return 1 if name.endswith(("out.weight", "down.weight")) else 0


def _cut(tensor: Any, dim: int | None, rank: int, P: int) -> Any:
    return tensor.clone() if dim is None else tensor.chunk(P, dim)[rank].clone()


def _block():
    """The dense block: 8 query heads, 4 key heads, RMS norms, gated, no biases."""
    from dtlib.foundations import TransformerSpec
    from dtlib.models import Block

    options = {"norm": "rms", "bias": False, "gated": True, "kv_heads": 4, "ffn": 24}
    spec = TransformerSpec("lab", layers=1, hidden=16, heads=8, vocab=16, **options)
    return _filled(Block(spec).double())


def _filled(module):
    from dtlib.models.gpt import draw_weights

    draw_weights(module, seed=3)
    return module


def _random(shape, seed: int):
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64)


def _tensor(value: Any, rank: int) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        raise NotYet(f"rank {rank}: {type(value).__name__} where a tensor should be")
    return value
