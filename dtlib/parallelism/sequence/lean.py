"""Ring attention that keeps nothing but its own share for the backward pass.

Autograd can send a ring backwards, but it keeps every block that passed by, and every block's
weights. This one keeps the queries, keys and values of its own tokens, the result, and one number
for each row; backwards it computes the weights again, block by block. Keys and values travel once
more, and the gradients that they collect on their way travel with them.
"""

from math import sqrt

import torch
from torch.autograd.function import once_differentiable

from dtlib.parallelism.operators import messages
from dtlib.parallelism.sequence.attention import allowed, cuts, position_rows, ring_forward
from dtlib.runtime.process_group import ranks_of


def lean_ring_attention(q_bnsd, k_bmsd, v_bmsd, positions, group, tiles: int = 2, mask=None):
    """`ring_attention` with a backward pass of its own; not differentiable twice.

    Arguments, result, errors: as `ring_attention`. Source: Liu, Zaharia and Abbeel 2023; Dao et al.
    2022 for the gradients of a tile.
    """
    return _LeanRing.apply(q_bnsd, k_bmsd, v_bmsd, positions, group, tiles, mask)


class _LeanRing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, positions, group, tiles, mask):
        state, _ = ring_forward(q, k, v, positions, group, tiles, mask)
        out = state.result()
        ctx.save_for_backward(q, k, v, out, state.log_sum())
        ctx.how = positions, group, tiles, mask
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        q, k, v, out, log_sum = ctx.saved_tensors
        positions, group, tiles, mask = ctx.how
        rank, P = ranks_of(group)
        table = None if positions is None else position_rows(positions, q.device)
        mean = (gradient * out).sum(-1)
        dq, travelling = torch.zeros_like(q), (k, v, torch.zeros_like(k), torch.zeros_like(v))
        for t in range(P):
            if t:
                travelling = messages.shift(travelling, group)
            places = table and (table[rank], table[(rank - t) % P])
            k, v, dk, dv = travelling
            facts = (gradient, log_sum, mean)
            add_gradients((dq, dk, dv), (q, k, v), facts, places, tiles, mask)
        dk, dv = messages.shift(travelling[2:], group)
        return dq, dk, dv, None, None, None, None


def add_gradients(sums, block, row_facts, places=None, tiles: int = 1, mask=None) -> None:
    """Add to dq, dk and dv what one block contributes to them.

    With the weights p = exp(score - log_sum) and the gradient g of the result: dv = p' g, and the
    gradient of a score is p (g v' - mean), where `mean` is g times the result: what all the keys
    get on average, for weights that add up to 1 can only be moved from one key to another.

    Arguments: `sums`, the tensors dq, dk, dv, changed in place; `block`, q, k, v; `row_facts`, for
    each query g, log_sum and mean; `places`, `tiles`, `mask` as of `block_state`. Returns nothing.
    """
    (dq, dk, dv), (q, k, v), (gradient, log_sum, mean) = sums, block, row_facts
    sharing, scale = q.shape[1] // k.shape[1], 1 / sqrt(q.shape[-1])
    log_sum = torch.where(log_sum.isfinite(), log_sum, 0)
    for rows in cuts(q.shape[2], tiles):
        for keys in cuts(k.shape[2], tiles):
            seen = allowed(places, rows, keys, mask)
            if seen is not None and not seen.any():
                continue
            some_k, some_v = (x[:, :, keys].repeat_interleave(sharing, dim=1) for x in (k, v))
            some_q, g = q[:, :, rows], gradient[:, :, rows]
            p = (some_q @ some_k.mT * scale - log_sum[:, :, rows, None]).exp()
            if seen is not None:
                p = p.masked_fill(~seen, 0)
            dscores = p * (g @ some_v.mT - mean[:, :, rows, None]) * scale
            dq[:, :, rows] += dscores @ some_k
            dk[:, :, keys] += _by_kv_head(dscores.mT @ some_q, sharing)
            dv[:, :, keys] += _by_kv_head(p.mT @ g, sharing)


def _by_kv_head(x_bntd, sharing: int):
    """Add up the gradients of the query heads that share a head of keys."""
    return x_bntd.unflatten(1, (-1, sharing)).sum(2)
