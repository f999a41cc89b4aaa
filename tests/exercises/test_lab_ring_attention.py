"""Every check of the lab on ring attention: the solution passes; stub, slips, the library fail."""

import math

import pytest
import torch
from exercise_cases import Case, EveryExercise

from dtlib.exercises import Deadlock, NotYet, check, record

SHARE = 65_536 // 4 * 4096 * 2


def predicted(**changes):
    return {"hops": 3, "sent_bytes": 6 * SHARE, "contiguous": 3.5, "zigzag": 2} | changes


def merge(a, b, safe=True):
    m = torch.maximum(a[0], b[0])
    unit = torch.where(m.isfinite(), m, 0) if safe else m
    wa, wb = (a[0] - unit).exp(), (b[0] - unit).exp()
    return m, wa * a[1] + wb * b[1], wa[:, None] * a[2] + wb[:, None] * b[2]


def merge_in_two_units(a, b):
    return torch.maximum(a[0], b[0]), a[1] + b[1], a[2] + b[2]


def merge_that_forgets_o(a, b):
    m, s, _ = merge(a, b)
    return m, s, a[2] + b[2]


def merge_without_a_unit(a, b):
    m = torch.maximum(a[0], b[0])
    s = a[0].exp() * a[1] + b[0].exp() * b[1]
    o = a[0].exp()[:, None] * a[2] + b[0].exp()[:, None] * b[2]
    return m, s / m.exp(), o / m.exp()[:, None]


def merge_in_place(a, b):
    m, s, o = merge(a, b)
    a[1].copy_(s)
    return m, s, o


def attend_without_the_scores(q, k, v, q_positions, k_positions):
    return attend(q.detach(), k.detach(), v, q_positions, k_positions)


def attend_with_a_constant_sum(q, k, v, q_positions, k_positions):
    m, s, o = attend(q, k, v, q_positions, k_positions)
    return m, s.detach(), o


def attend_by_broadcast(q, k, v, q_positions, k_positions):
    scores = (q[:, None] * k[None]).sum(-1) / math.sqrt(q.shape[1])
    scores = scores.masked_fill(k_positions[None, :] > q_positions[:, None], -math.inf)
    m = scores.detach().amax(1)
    weights = (scores - torch.where(m.isfinite(), m, 0)[:, None]).exp()
    return m, weights.sum(1), (weights[:, :, None] * v[None]).sum(1)


def attend(q, k, v, q_positions, k_positions, safe=True, scale=True, mask=True, divide=False):
    scores = q @ k.T / (math.sqrt(q.shape[1]) if scale else 1)
    if mask:
        scores = scores.masked_fill(k_positions[None, :] > q_positions[:, None], -math.inf)
    m = scores.detach().amax(1)
    weights = (scores - (torch.where(m.isfinite(), m, 0) if safe else m)[:, None]).exp()
    s, o = weights.sum(1), weights @ v
    return m, s, o / s[:, None] if divide else o


def slip(**options):
    return lambda q, k, v, rows, columns: attend(q, k, v, rows, columns, **options)


def result(state):
    return state[2] / state[1].clamp(min=1e-300)[:, None]


def moved(comm, x, by):
    into = torch.empty_like(x)
    comm.sendrecv(x.contiguous(), (comm.rank + by) % comm.size, into, (comm.rank - by) % comm.size)
    return into


class Hop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, comm, x):
        ctx.comm = comm
        return moved(comm, x, 1)

    @staticmethod
    def backward(ctx, dy):
        return None, moved(ctx.comm, dy, -1)


class HopThatGoesOn(Hop):
    @staticmethod
    def backward(ctx, dy):
        return None, moved(ctx.comm, dy, 1)


class HopThatStays(Hop):
    @staticmethod
    def backward(ctx, dy):
        return None, dy


def hop(comm, x):
    return Hop.apply(comm, x)


def ring_attention(comm, q, k, v, table, local=False, hops=2, last=False):
    state = None
    for t in range(comm.size):
        if t:
            k = hop(comm, k)
            v = hop(comm, v) if hops == 2 else v
        rows, columns = table[comm.rank], table[(comm.rank - t) % comm.size]
        if local:
            rows = columns = torch.arange(len(rows))
        new = attend(q, k, v, rows, columns)
        state = new if state is None else merge(state, new)
    if last and comm.size > 1:
        k, v = hop(comm, k), hop(comm, v)
        return result(state) + 0 * (k.sum() + v.sum())
    return result(state)


def ring_slip(**options):
    return lambda comm, q, k, v, table: ring_attention(comm, q, k, v, table, **options)


def ring_backwards(comm, q, k, v, table):
    """Thinks that in step t it holds the keys of rank r + t."""
    state = attend(q, k, v, table[comm.rank], table[comm.rank])
    for t in range(1, comm.size):
        k, v = hop(comm, k), hop(comm, v)
        columns = table[(comm.rank + t) % comm.size]
        state = merge(state, attend(q, k, v, table[comm.rank], columns))
    return result(state)


def ring_by_broadcast(comm, q, k, v, table):
    """Computes every block, without a single matrix product."""
    state = attend_by_broadcast(q, k, v, table[comm.rank], table[comm.rank])
    for t in range(1, comm.size):
        k, v = hop(comm, k), hop(comm, v)
        columns = table[(comm.rank - t) % comm.size]
        state = merge(state, attend_by_broadcast(q, k, v, table[comm.rank], columns))
    return result(state)


def thrifty_ring(comm, q, k, v, table, keep=True):
    half = len(q) // 2
    parts, rows = (slice(0, half), slice(half, None)), [None, None]
    mine = table[comm.rank]
    for t in range(comm.size):
        if t:
            k, v = hop(comm, k), hop(comm, v)
        theirs = table[(comm.rank - t) % comm.size]
        for i, a in enumerate(parts):
            for b in parts:
                if theirs[b].min() <= mine[a].max():
                    new = attend(q[a], k[b], v[b], mine[a], theirs[b])
                    rows[i] = new if rows[i] is None else merge(rows[i], new)
    out = torch.cat([result(row) for row in rows])
    return out + 0 * (k.sum() + v.sum()) if keep else out


def hasty_ring(comm, q, k, v, table):
    return thrifty_ring(comm, q, k, v, table, keep=False)


def zigzag(seq, P):
    if seq % (2 * P):
        raise ValueError(f"seq = {seq} must be a multiple of 2P = {2 * P}")
    pieces = torch.arange(seq).reshape(2 * P, -1)
    return torch.cat([pieces[:P], pieces[P:].flip(0)], dim=1)


def zigzag_in_order(seq, P):
    pieces = torch.arange(seq).reshape(2 * P, -1)
    return torch.cat([pieces[:P], pieces[P:]], dim=1)


CASES = {
    "ex-lab-ring-predict": Case(
        solution=predicted(),
        wrong=[
            (predicted(hops=4), "keys of its own"),
            (predicted(sent_bytes=3 * SHARE), "keys and values"),
            (predicted(sent_bytes=9 * SHARE), "queries stay"),
            (predicted(sent_bytes=24 * SHARE), "how many tokens"),
            (predicted(contiguous=2.5), "mean over the ranks"),
            (predicted(contiguous=4), "triangle"),
            (predicted(zigzag=4), "no mask"),
            ({"hops": 3}, "keys hops, sent_bytes"),
        ],
        secret=[6 * SHARE, 3.5],
    ),
    "ex-lab-ring-merge": Case(
        solution=merge,
        wrong=[
            (merge_in_two_units, "s of a row is wrong: in which unit"),
            (merge_that_forgets_o, "o of a row is wrong: it is counted"),
            (merge_without_a_unit, "is not finite|s of a row"),
            (merge_in_place, "changes one of the states"),
            (lambda a, b: merge(a, b, safe=False), "seen no key is not finite"),
            (lambda a, b: tuple(x.detach() for x in merge(a, b)), "s or o is detached"),
            (lambda a, b: (1.0, 2.0, 3.0), "m is a float, not a tensor"),
            (lambda a, b: torch.zeros(2), "must have 3 items"),
        ],
    ),
    "ex-lab-ring-attend": Case(
        solution=attend,
        wrong=[
            (slip(scale=False), r"1 / sqrt\(d\)"),
            (slip(mask=False), "a block with itself: m|a block with itself: s"),
            (slip(divide=True), "divide once, at the very end"),
            (slip(safe=False), "seen no key is not finite"),
            (attend_without_the_scores, "the gradient of q that the result"),
            (attend_with_a_constant_sum, "the gradient of q that the result"),
            (
                lambda q, k, v, r, c: attend(q.detach(), k.detach(), v.detach(), r, c),
                "no gradient can pass",
            ),
            (
                lambda q, k, v, r, c: attend(q, k, v, torch.arange(4), torch.arange(5)),
                "before",
            ),
        ],
    ),
    "ex-lab-ring-hop": Case(
        solution=hop,
        wrong=[
            (lambda comm, x: HopThatGoesOn.apply(comm, x), "whoever got x knows its gradient"),
            (lambda comm, x: HopThatStays.apply(comm, x), "is its own"),
            (lambda comm, x: moved(comm, x, 1), "no graph behind it"),
            (lambda comm, x: x * 1, "left-hand neighbour had"),
            (lambda comm, x: comm.send(x, (comm.rank + 1) % comm.size), "deadlock"),
        ],
    ),
    "ex-lab-ring-forward": Case(
        solution=ring_attention,
        wrong=[
            (ring_slip(local=True), "out of rank"),
            (ring_slip(hops=1), "out of rank"),
            (ring_slip(last=True), "sends more bytes"),
            (ring_backwards, "P = 3, contiguous: out of rank"),
            (lambda comm, q, k, v, table: result(attend(q, k, v, *[table[comm.rank]] * 2)), "out"),
            (lambda comm, q, k, v, table: q[:1], "returns"),
        ],
    ),
    "ex-lab-ring-zigzag": Case(
        solution=zigzag,
        also_right=[lambda seq, P: zigzag(seq, P).flip(1).numpy()],
        wrong=[
            (zigzag_in_order, "in step 0 rank|in step 1 rank"),
            (lambda seq, P: torch.arange(seq).reshape(P, -1), "in step 1 rank"),
            (lambda seq, P: torch.arange(seq).reshape(-1, P).T, "than half a block"),
            (lambda seq, P: torch.zeros(P, seq // P), "exactly one rank"),
            (lambda seq, P: torch.arange(seq), "the table has shape"),
        ],
    ),
    "ex-lab-ring-thrifty": Case(
        solution=thrifty_ring,
        wrong=[
            (hasty_ring, "P = 2, contiguous: deadlock"),
            (ring_attention, "products that the mask forbids"),
            (ring_by_broadcast, "products that the mask forbids"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_the_hasty_ring_of_the_page_deadlocks_backwards():
    table = torch.arange(8).reshape(2, 4)

    def program(comm, qkv):
        hasty_ring(comm, *qkv.requires_grad_().unbind(), table).sum().backward()

    with pytest.raises(Deadlock):
        record(program, [torch.randn(3, 4, 2) for _ in range(2)])


def test_the_librarys_own_zigzag_is_right_and_its_contiguous_is_not():
    from dtlib.parallelism.sequence import layouts

    check("ex-lab-ring-zigzag", layouts.zigzag)
    with pytest.raises(NotYet):
        check("ex-lab-ring-zigzag", layouts.contiguous)
