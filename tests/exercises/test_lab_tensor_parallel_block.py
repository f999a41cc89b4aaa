"""Every check of the tensor-parallel lab: solutions pass, stubs and wrong answers fail."""

import pytest
import torch
from exercise_cases import Case, EveryExercise
from torch.nn import functional as F

from dtlib.exercises import Deadlock, TransportError
from dtlib.exercises.worlds import record_team
from dtlib.models.gpt import causal_attention, rotary


class F_(torch.autograd.Function):
    @staticmethod
    def forward(ctx, comm, x):
        ctx.comm = comm
        return x.view_as(x)

    @staticmethod
    def backward(ctx, dy):
        return None, ctx.comm.all_reduce(dy)


class G_(torch.autograd.Function):
    @staticmethod
    def forward(ctx, comm, x):
        return comm.all_reduce(x)

    @staticmethod
    def backward(ctx, dy):
        return None, dy


class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, comm, x):
        ctx.comm = comm
        return comm.all_reduce(x)

    @staticmethod
    def backward(ctx, dy):
        return None, ctx.comm.all_reduce(dy)


def f(comm, x):
    return F_.apply(comm, x)


def g(comm, x):
    return G_.apply(comm, x)


def no_f(comm, x):
    return x.view_as(x)


def wrong_g(comm, x):
    return Both.apply(comm, x)


def in_place_g(comm, x):
    x.data.copy_(comm.all_reduce(x))
    return x.view_as(x)


def straight_through_g(comm, x):
    return x + (comm.all_reduce(x) - x).detach()


class Gathered(G_):
    @staticmethod
    def forward(ctx, comm, x):
        return comm.all_gather(x[None], dim=0).sum(0)


def gathered_g(comm, x):
    return Gathered.apply(comm, x)


def cut_g(comm, x):
    return comm.all_reduce(x).requires_grad_()


def f_of_dtlib(comm, x):
    from dtlib.parallelism.operators.adjoint import linear

    return linear(x, torch.clone, transpose=lambda dy: comm.all_reduce(dy))


def mlp(comm, x, w, f=f, g=g, bias="once", bend="inside"):
    up = F.linear(f(comm, x), w["up.weight"], w["up.bias"])
    partial = F.linear(F.gelu(up) if bend == "inside" else up, w["down.weight"])
    if bias == "each":
        partial = partial + w["down.bias"]
    if bias == "shared out":
        partial = partial + w["down.bias"] / comm.size
    out = g(comm, partial)
    out = F.gelu(out) if bend == "after" else out
    return out + w["down.bias"] if bias == "once" else out


def mlp_by_gathering(comm, x, w):
    hidden = F.gelu(F.linear(f(comm, x), w["up.weight"], w["up.bias"]))
    return mlp(comm, x, w) + 0 * g(comm, hidden.sum())


def shard(weights, rank, size, rows=("out.weight", "down.weight"), whole="norm", turn=0):
    cut = {}
    for name, weight in weights.items():
        if whole in name:
            cut[name] = weight
        else:
            dim = 1 if name.endswith(rows) else 0
            cut[name] = weight.chunk(size, dim)[(rank + turn) % size]
    return cut


def attend(q, k, v, head_dim):
    q, k, v = (x.unflatten(-1, (-1, head_dim)).transpose(1, 2) for x in (q, k, v))
    positions = torch.arange(q.shape[2])
    mixed = causal_attention(rotary(q, positions), rotary(k, positions), v, positions)
    return mixed.transpose(1, 2).flatten(2)


def block(comm, x, w, head_dim, f=f, g=g, f_before_norm=False, f_each=False):
    def normed(x, name):
        scale = w[f"{name}_norm.weight"]
        if f_before_norm:
            return F.rms_norm(f(comm, x), scale.shape, scale, 1e-5)
        y = F.rms_norm(x, scale.shape, scale, 1e-5)
        return y if f_each else f(comm, y)

    def again(y):
        return f(comm, y) if f_each else y

    y = normed(x, "attention")
    q, k, v = (F.linear(again(y), w[f"attention.{n}.weight"]) for n in ("query", "key", "value"))
    x = x + g(comm, F.linear(attend(q, k, v, head_dim), w["attention.out.weight"]))
    y = again(normed(x, "feed_forward"))
    bent = F.silu(F.linear(y, w["feed_forward.gate.weight"]))
    up = F.linear(y, w["feed_forward.up.weight"])
    return x + g(comm, F.linear(bent * up, w["feed_forward.down.weight"]))


def vocab_cross_entropy(comm, logits, targets, shift=True, g=g, clamp=True, add=True, mean=True):
    width = logits.shape[1]
    first = comm.rank * width
    if shift:
        logits = logits - comm.all_reduce(logits.detach().amax(1), op="max")[:, None]
    exps = logits.exp().sum(1)
    mine = (targets >= first) & (targets < first + width)
    column = (targets - first).clamp(0, width - 1)
    target = logits.gather(1, column[:, None])[:, 0]
    if clamp:
        target = target * mine
    total, target = (g(comm, exps), g(comm, target)) if add else (exps, target)
    losses = total.log() - target
    return losses.mean() if mean else losses.sum()


def vocab_by_gathering(comm, logits, targets):
    width = logits.shape[1]
    whole = list(comm.all_gather(logits, 1).split(width, 1))
    whole[comm.rank] = logits
    return F.cross_entropy(torch.cat(whole, 1), targets)


STEP_BYTES = 100_663_296


def predicted(**changes):
    return {"forward": 2, "backward": 2, "sent_bytes": STEP_BYTES} | changes


CASES = {
    "ex-lab-tp-predict": Case(
        solution=predicted(),
        wrong=[
            (predicted(forward=1), "both end in a sum"),
            (predicted(backward=6), "read the same input"),
            (predicted(backward=4), "both passes together"),
            (predicted(sent_bytes=STEP_BYTES // 2), "one pass of two"),
            (predicted(sent_bytes=4 * STEP_BYTES), "all ranks together"),
            (predicted(sent_bytes=2048 * 4096 * 2 * 8), "a little less than its message twice"),
            (2, "keys forward, backward, sent_bytes"),
        ],
        secret=[STEP_BYTES],
    ),
    "ex-lab-tp-conjugates": Case(
        solution=(f, g),
        also_right=[(f, straight_through_g)],
        wrong=[
            ((g, f), "f does not hand on x"),
            ((no_f, g), "the gradient is only this rank's share"),
            ((f, wrong_g), "P = 2: g, rank 0: the gradient is exactly P times"),
            ((f, no_f), "g, rank 0: the result is only this rank's share"),
            ((f, cut_g), "no gradient arrives at x"),
            ((f, in_place_g), "g changes its input"),
            ((f, gathered_g), "add, don't gather"),
            ((f_of_dtlib, g), "comes from dtlib.parallelism: write your own"),
            (f, "must have 2 items"),
        ],
        stub=(None, None),
    ),
    "ex-lab-tp-mlp": Case(
        solution=mlp,
        wrong=[
            (lambda c, x, w: mlp(c, x, w, f=no_f), "dX is only this rank's share"),
            (
                lambda c, x, w: mlp(c, x, w, g=wrong_g),
                "the gradient of up.weight is exactly P times",
            ),
            (lambda c, x, w: mlp(c, x, w, bias="each"), "how often is each of them added"),
            (
                lambda c, x, w: mlp(c, x, w, bias="shared out"),
                "the gradient of down.bias is exactly a P-th|only this rank's share",
            ),
            (lambda c, x, w: mlp(c, x, w, bend="after"), "the output differs"),
            (lambda c, x, w: mlp(c, x, w, g=no_f), "the output"),
            (mlp_by_gathering, "more collectives"),
            (lambda c, x, w: mlp(c, x, w, g=gathered_g), "add, don't gather"),
            (lambda c, x, w: x, "is missing: nothing flows back|the output"),
            (lambda c, x, w: 1, "int where a tensor should be"),
        ],
    ),
    "ex-lab-tp-shard": Case(
        solution=shard,
        wrong=[
            (lambda w, r, n: w, "is needed whole by no rank"),
            (lambda w, r, n: shard(w, r, n, whole="none"), "is needed whole by every rank"),
            (lambda w, r, n: shard(w, r, n, rows=("up.weight",)), "is cut the wrong way"),
            (lambda w, r, n: shard(w, r, n, turn=1), "another rank's numbers"),
            (lambda w, r, n: dict(list(shard(w, r, n).items())[1:]), "the dict lacks"),
            (lambda w, r, n: 3, "not a dict"),
        ],
    ),
    "ex-lab-tp-block": Case(
        solution=block,
        wrong=[
            (lambda c, x, w, d: block(c, x, w, d, f=no_f), "only this rank's share|differs"),
            (lambda c, x, w, d: block(c, x, w, d, g=wrong_g), "exactly P times|differs"),
            (
                lambda c, x, w, d: block(c, x, w, d, f_before_norm=True),
                "the gradient of attention_norm.weight is only this rank's share",
            ),
            (
                lambda c, x, w, d: block(c, x, w, d, f_each=True),
                "right, but more collectives backwards",
            ),
            (lambda c, x, w, d: block(c, x, w, 2 * d), "the output differs|raised"),
        ],
    ),
    "ex-lab-tp-vocabulary": Case(
        solution=vocab_cross_entropy,
        also_right=[lambda c, z, t: vocab_cross_entropy(c, z, t, g=straight_through_g)],
        wrong=[
            (lambda c, z, t: vocab_cross_entropy(c, z, t, shift=False), "is not finite: exp of"),
            (
                lambda c, z, t: vocab_cross_entropy(c, z, t, g=wrong_g),
                "dlogits is exactly P times",
            ),
            (lambda c, z, t: vocab_cross_entropy(c, z, t, clamp=False), "the loss differs"),
            (lambda c, z, t: vocab_cross_entropy(c, z, t, add=False), "the loss differs"),
            (lambda c, z, t: vocab_cross_entropy(c, z, t, mean=False), "the loss differs"),
            (vocab_by_gathering, "more than three numbers per token"),
            (
                lambda c, z, t: vocab_cross_entropy(c, z, t).detach().requires_grad_(),
                "no gradient arrives",
            ),
        ],
    ),
    "ex-lab-tp-wrong-g": Case(
        solution=(4, 64),
        wrong=[
            ((1, 1), "are the gradients"),
            ((4, 4), "every wrong g"),
            ((4, 12), "do the factors add"),
            ((4, 16), "how many wrong g"),
            (4, "must have 2 items"),
        ],
        secret=[64],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_a_rank_that_skips_a_sum_is_named_and_so_are_calls_that_do_not_fit():
    def skips(comm):
        return comm.all_reduce(torch.ones(2)) if comm.rank else None

    with pytest.raises(Deadlock, match=r"rank 1 waits in .* for rank 0, which has finished"):
        record_team(skips, 2)
    with pytest.raises(TransportError, match=r"of shape \[.\] on rank ., but .* of shape \[.\]"):
        record_team(lambda comm: comm.all_reduce(torch.ones(comm.rank + 1)), 2)
    with pytest.raises(TransportError, match="gives a int to all-reduce"):
        record_team(lambda comm: comm.all_reduce(1), 2)
    with pytest.raises(TransportError, match="op = 'mean'"):
        record_team(lambda comm: comm.all_reduce(torch.ones(1), "mean"), 2)


def test_a_team_counts_what_a_ring_sends():
    def program(comm):
        comm.all_reduce(torch.ones(8))
        comm.all_gather(torch.ones(2, 3))
        return [str(call) for call in comm.calls], comm.sent_bytes

    for calls, sent in record_team(program, 4):
        assert calls == ["all-reduce of 8 numbers, 48 B sent", "all-gather of 6 numbers, 72 B sent"]
        assert sent == 120


def test_three_mlps_with_a_wrong_g_multiply_the_first_ones_gradient_by_p_cubed():
    """The number that the exercise asks for, computed."""
    torch.manual_seed(0)
    weights = [torch.randn(6, 6, dtype=torch.float64) for _ in range(6)]

    def program(comm, g):
        mine = []
        x = torch.ones(2, 6, dtype=torch.float64)
        for up, down in zip(weights[::2], weights[1::2], strict=True):
            up, down = up.chunk(2, 0)[comm.rank], down.chunk(2, 1)[comm.rank]
            mine.append(up.clone().requires_grad_())
            x = g(comm, torch.tanh(f(comm, x) @ mine[-1].T) @ down.T)
        x.sum().backward()
        return [w.grad for w in mine]

    right, wrong = record_team(program, 2, g)[0], record_team(program, 2, wrong_g)[0]
    for k, (a, b) in enumerate(zip(right, wrong, strict=True)):
        torch.testing.assert_close(b, 2.0 ** (3 - k) * a)
