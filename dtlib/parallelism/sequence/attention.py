"""Attention over a sequence that is shared out over ranks: three ways, one result.

Only attention lets tokens look at each other, so it is all that has to be rewritten. Each function
takes this rank's queries, keys and values and returns this rank's result:

- `ring_attention`: keys and values go round, queries stay; states are merged (`SoftmaxState`).
- `all_gather_attention`: every rank fetches all keys and values first.
- `ulysses_attention`: an all-to-all turns shares of the tokens into shares of the heads, and back.

Shapes are in the names: b sequences, n query heads, m key and value heads (m divides n), s tokens,
d numbers in a head (those of a value may be another number). `positions` is a table of `layouts`:
row r has the global positions of rank r's tokens, and masks are made of nothing else (`masks`).
It is the same on all ranks. Without it every token sees every token.
The loss is partitioned: every collective goes backwards as its own transpose.
"""

from itertools import pairwise
from math import sqrt

import torch

from dtlib.formulas.require import require, require_divisor
from dtlib.parallelism.operators import messages
from dtlib.parallelism.operators.adjoint import all_gather, all_to_all, shift
from dtlib.parallelism.sequence.masks import Mask, causal_mask
from dtlib.parallelism.sequence.softmax_state import SoftmaxState
from dtlib.runtime.process_group import ranks_of


def ring_attention(q_bnsd, k_bmsd, v_bmsd, positions, group, tiles: int = 2, mask=None):
    """In step t rank r meets the keys of rank r - t; afterwards they move on to rank r + 1.

    Arguments: this rank's `q_bnsd`, `k_bmsd`, `v_bmsd`; `positions`, a layout's table or None for
    no mask; `group`; `tiles`, into how many parts queries and keys of a block are cut so that parts
    that the mask forbids are not computed; `mask`, a `Mask`, by default `causal_mask`.
    Returns what attention gives for this rank's queries, 0 for one that sees no key.
    Backwards the shifts turn round by themselves; all that passed by is kept for that.
    Raises ValueError for heads and tokens that do not fit, positions of other ranks, and a mask
    without positions; TypeError for what is no `Mask`, such as a bias that is added to scores.
    Source: Liu, Zaharia and Abbeel 2023.
    """
    state, last = ring_forward(q_bnsd, k_bmsd, v_bmsd, positions, group, tiles, mask)
    return with_gradients(state.result(), q_bnsd, *last)


def ring_forward(q_bnsd, k_bmsd, v_bmsd, positions, group, tiles: int = 2, mask=None):
    """The ring itself: this rank's final state, and the keys and values it met last."""
    rank, P = ranks_of(group)
    table = positions_table(positions, mask, group, q_bnsd, k_bmsd, v_bmsd)
    travelling = (k_bmsd, v_bmsd)
    state = SoftmaxState.identity(q_bnsd, width=v_bmsd.shape[-1])
    for t in range(P):
        if t:
            travelling = shift(travelling, group)
        places = table and (table[rank], table[(rank - t) % P])
        state = state.merge(block_state(q_bnsd, *travelling, places, tiles, mask))
    return state, travelling


def all_gather_attention(q_bnsd, k_bmsd, v_bmsd, positions, group, tiles: int = 2, mask=None):
    """Every rank fetches the keys and values of all, and needs no merging between ranks.

    Arguments, result, errors: as `ring_attention`. Backwards the gather is a reduce-scatter.
    Source: Llama team 2024.
    """
    rank, _ = ranks_of(group)
    table = positions_table(positions, mask, group, q_bnsd, k_bmsd, v_bmsd)
    k_bmtd, v_bmtd = (all_gather(x, group, dim=2) for x in (k_bmsd, v_bmsd))
    places = table and (table[rank], torch.cat(table))
    state = block_state(q_bnsd, k_bmtd, v_bmtd, places, tiles, mask)
    return with_gradients(state.result(), q_bnsd, k_bmtd, v_bmtd)


def ulysses_attention(q_bnsd, k_bmsd, v_bmsd, positions, group, tiles: int = 2, mask=None):
    """An all-to-all gives every rank all tokens of n / P heads; another one takes the result back.

    With fewer key heads than ranks, each key head is sent to as many ranks as have queries for it.
    Arguments and result: as `ring_attention`. Raises ValueError unless P divides n, and m and P
    divide each other. Source: Jacobs et al. 2023.
    """
    _, P = ranks_of(group)
    table = positions_table(positions, mask, group, q_bnsd, k_bmsd, v_bmsd)
    heads, kv_heads = q_bnsd.shape[1], k_bmsd.shape[1]
    require_heads(heads, kv_heads, P)
    copies = max(1, P // kv_heads)
    k_bmsd, v_bmsd = (x.repeat_interleave(copies, dim=1) for x in (k_bmsd, v_bmsd))
    q, k, v = (sequence_to_heads(x, group) for x in (q_bnsd, k_bmsd, v_bmsd))
    places = table and (torch.cat(table),) * 2
    state = block_state(q, k, v, places, tiles, mask)
    return heads_to_sequence(with_gradients(state.result(), q, k, v), group)


def sequence_to_heads(x_bnsd, group):
    """From all heads of this rank's tokens to this rank's heads of all tokens, in rank order."""
    _, P = ranks_of(group)
    parts_pbnsd = torch.stack(x_bnsd.chunk(P, dim=1))
    return torch.cat(all_to_all(parts_pbnsd, group).unbind(), dim=2)


def heads_to_sequence(x_bnsd, group):
    """The inverse: cut the tokens, and put what arrives together along the heads."""
    _, P = ranks_of(group)
    parts_pbnsd = torch.stack(x_bnsd.chunk(P, dim=2))
    return torch.cat(all_to_all(parts_pbnsd, group).unbind(), dim=1)


def with_gradients(result, *inputs):
    """The result, plus a 0 from every input: one that the mask left out has the gradient 0.

    Without it a rank that saw nothing would take no part in the backward messages.
    """
    return result + sum(x[:, :, :0].sum() for x in inputs)


def block_state(
    q_bnsd, k_bmtd, v_bmtd, places=None, tiles: int = 1, mask: Mask | None = None
) -> SoftmaxState:
    """What the queries know after these keys: states of tiles, merged one after the other.

    Arguments: queries, keys, values; `places`, the positions of the queries and of the keys, or
    None for no mask; `tiles`, parts along each side; `mask`, by default causal. A tile of which no
    pair is seen is skipped, and one of which all are needs no mask, as in the future and the past
    of a causal one. Returns a `SoftmaxState` of the shape b, n, s.

    >>> q, k, v = (torch.randn(1, 2, 8, 4, dtype=torch.float64) for _ in range(3))
    >>> places = (torch.arange(8),) * 2
    >>> expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    >>> [bool(torch.allclose(block_state(q, k, v, places, n).result(), expected)) for n in (1, 4)]
    [True, True]
    """
    sharing = q_bnsd.shape[1] // k_bmtd.shape[1]
    k, v = (x.repeat_interleave(sharing, dim=1) for x in (k_bmtd, v_bmtd))
    rows = []
    for queries in cuts(q_bnsd.shape[2], tiles):
        q = q_bnsd[:, :, queries]
        state = SoftmaxState.identity(q, v.shape[-1])
        for keys in cuts(k.shape[2], tiles):
            seen = allowed(places, queries, keys, mask)
            if seen is None or seen.any():
                state = state.merge(tile_state(q, k[:, :, keys], v[:, :, keys], seen))
        rows.append(state)
    return SoftmaxState(*(torch.cat(parts, dim=2) for parts in zip(*rows, strict=True)))


def tile_state(q_bnsd, k_bntd, v_bntd, seen_st=None) -> SoftmaxState:
    """The state of one tile: scores q k' / sqrt(d), where `seen_st` allows them."""
    scores_bnst = q_bnsd @ k_bntd.transpose(-2, -1) / sqrt(q_bnsd.shape[-1])
    if seen_st is not None and not seen_st.all():
        scores_bnst = scores_bnst.masked_fill(~seen_st, -torch.inf)
    return SoftmaxState.of(scores_bnst, v_bntd)


def allowed(places, queries: slice, keys: slice, mask: Mask | None = None):
    """Which of these keys each of these queries sees; None for all, where there are no places."""
    if places is None:
        return None
    return (mask or causal_mask)(places[0][queries], places[1][keys])


def cuts(tokens: int, tiles: int) -> list[slice]:
    """The tokens cut into as many slices of about one size; none is empty."""
    edges = [tokens * i // tiles for i in range(tiles + 1)]
    return [slice(a, b) for a, b in pairwise(edges) if b > a]


def require_heads(heads: int, kv_heads: int, P: int) -> None:
    """Ulysses gives every rank whole heads. Raises ValueError where that cannot be."""
    require_divisor("ulysses_attention", "P", P, "the query heads", heads)
    fits = kv_heads % P == 0 or P % kv_heads == 0
    require(fits, "ulysses_attention", "kv_heads", kv_heads, f"a multiple or a divisor of P = {P}")


def positions_table(positions, mask, group, q_bnsd, k_bmsd, v_bmsd) -> list[torch.Tensor] | None:
    """The positions of every rank as tensors, after a look at the shapes and the mask.

    Without positions nobody knows how many tokens the others have, so the ranks tell each other.
    """
    require_shapes(q_bnsd, k_bmsd, v_bmsd)
    require_mask(mask, positions)
    _, P = ranks_of(group)
    tokens = q_bnsd.shape[2]
    if positions is None:
        counts = messages.all_gather(torch.tensor([tokens], device=q_bnsd.device), group).tolist()
        require_equal_tokens("the numbers of tokens of the ranks", counts)
        return None
    rows = position_rows(positions, q_bnsd.device)
    require_equal_tokens("the lengths of the rows of positions", [row.numel() for row in rows])
    found, expected = (len(rows), *(rows[0].shape if rows else ())), (P, tokens)
    rule = f"{expected}: one row for each rank, one column for each of its tokens"
    require(found == expected, "attention", "the shape of positions", found, rule)
    return rows


def position_rows(positions, device) -> list[torch.Tensor]:
    """A layout's table as one tensor for each rank."""
    return [torch.as_tensor(row, device=device) for row in positions]


def require_equal_tokens(argument: str, counts: list[int]) -> None:
    """Raise ValueError, on all ranks alike, unless all have equally many tokens."""
    require(len(set(counts)) <= 1, "attention", argument, counts, "the same for all")


def require_shapes(q_bnsd, k_bmsd, v_bmsd) -> None:
    """Raise ValueError for queries, keys and values that do not belong together."""
    q, k, v = (tuple(x.shape) for x in (q_bnsd, k_bmsd, v_bmsd))
    for name, shape in (("q", q), ("k", k), ("v", v)):
        rule = "(sequences, heads, tokens, width)"
        require(len(shape) == 4, "attention", f"the shape of {name}", shape, rule)
    require_divisor("attention", "kv_heads", k[1], "heads", q[1])
    for name, found, width in (("k", k, q[3]), ("v", v, v[3])):
        expected = (q[0], k[1], q[2], width)
        require(found == expected, "attention", f"the shape of {name}", found, f"{expected}")


def require_mask(mask, positions) -> None:
    """Raise unless it is a `Mask` with positions to go by, or None."""
    if mask is None:
        return
    if not isinstance(mask, Mask):
        kind = type(mask).__name__
        raise TypeError(
            f"attention: mask is a {kind}, but must be a Mask of positions; a bias that is added "
            "to the scores and a table of one block are not implemented"
        )
    require(positions is not None, "attention", "positions", None, "given where a mask is")
