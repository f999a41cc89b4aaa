"""Ring attention, and the slips that one makes in writing it."""

import math
from typing import Any

from dtlib.later import torch


def merge(a, b, *, unit="safe", o="in units"):
    m = torch.maximum(a[0], b[0])
    if unit == "none":
        return m, a[1] + b[1], a[2] + b[2]
    zero = torch.where(m.isfinite(), m, 0) if unit == "safe" else m
    wa, wb = (a[0] - zero).exp(), (b[0] - zero).exp()
    sums = wa[:, None] * a[2] + wb[:, None] * b[2]
    return m, wa * a[1] + wb * b[1], sums if o == "in units" else a[2] + b[2]


def overflowing_merge(a, b):
    m = torch.maximum(a[0], b[0])
    s = a[0].exp() * a[1] + b[0].exp() * b[1]
    o = a[0].exp()[:, None] * a[2] + b[0].exp()[:, None] * b[2]
    return m, s / m.exp(), o / m.exp()[:, None]


def merge_in_place(a, b):
    m, s, o = merge(a, b)
    a[1].copy_(s)
    return m, s, o


def attend(q, k, v, rows, columns, *, safe=True, scale=True, mask=True, divide=False):
    scores = q @ k.T / (math.sqrt(q.shape[1]) if scale else 1)
    if mask:
        scores = scores.masked_fill(columns[None, :] > rows[:, None], -math.inf)
    return _state(scores, v, safe, divide)


def _state(scores, v, safe=True, divide=False, broadcast=False):
    m = scores.detach().amax(1)
    weights = (scores - (torch.where(m.isfinite(), m, 0) if safe else m)[:, None]).exp()
    s = weights.sum(1)
    o = (weights[:, :, None] * v[None]).sum(1) if broadcast else weights @ v
    return m, s, o / s[:, None] if divide else o


def attend_with_constant_sum(q, k, v, rows, columns):
    m, s, o = attend(q, k, v, rows, columns)
    return m, s.detach(), o


def attend_by_broadcast(q, k, v, rows, columns):
    scores = (q[:, None] * k[None]).sum(-1) / math.sqrt(q.shape[1])
    scores = scores.masked_fill(columns[None, :] > rows[:, None], -math.inf)
    return _state(scores, v, broadcast=True)


def result(state: Any) -> Any:
    return state[2] / state[1].clamp(min=1e-300)[:, None]


def moved(comm, x, by):
    into = torch.empty_like(x)
    comm.sendrecv(x.contiguous(), (comm.rank + by) % comm.size, into, (comm.rank - by) % comm.size)
    return into


def hop(comm, x, *, back=-1):
    same = x.view_as(x)
    if back:
        same.register_hook(lambda dy: moved(comm, dy, back))
    return same - same.detach() + moved(comm, x, 1)


def ring(comm, q, k, v, table, *, turn=-1, local=False, values=True, last=False, by=attend):
    state, mine = None, table[comm.rank]
    for t in range(comm.size):
        if t:
            k, v = hop(comm, k), hop(comm, v) if values else v
        rows, columns = mine, table[(comm.rank + turn * t) % comm.size]
        if local:
            rows = columns = torch.arange(len(rows))
        new = by(q, k, v, rows, columns)
        state = new if state is None else merge(state, new)
    out = result(state)
    if last and comm.size > 1:
        return out + 0 * (hop(comm, k).sum() + hop(comm, v).sum())
    return out


def thrifty(comm, q, k, v, table, *, keep=True):
    half = len(q) // 2
    parts, found, mine = (slice(0, half), slice(half, None)), [None, None], table[comm.rank]
    for t in range(comm.size):
        if t:
            k, v = hop(comm, k), hop(comm, v)
        theirs = table[(comm.rank - t) % comm.size]
        for i, j in ((i, j) for i in range(2) for j in range(2)):
            a, b = parts[i], parts[j]
            if theirs[b].min() <= mine[a].max():
                new = attend(q[a], k[b], v[b], mine[a], theirs[b])
                found[i] = new if found[i] is None else merge(found[i], new)
    out = torch.cat([result(state) for state in found])
    return out + 0 * (k.sum() + v.sum()) if keep else out


def zigzag(seq, P, *, turned=True):
    if seq % (2 * P):
        raise ValueError(f"seq = {seq} must be a multiple of 2P = {2 * P}")
    pieces = torch.arange(seq).reshape(2 * P, -1)
    return torch.cat([pieces[:P], pieces[P:].flip(0) if turned else pieces[P:]], dim=1)
