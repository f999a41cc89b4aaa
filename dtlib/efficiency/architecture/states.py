"""Attention without softmax: a state of fixed size, and the scan that carries it over ranks.

The noun is `LinearState`, what a stretch of text does to a state S: it becomes a S + A. Such maps
with `then` are a monoid, associative and not commutative, so any grouping of stretches will do, and
no other order. Shapes: b sequences, n heads, s tokens, k numbers of a key, d of a value.
"""

from typing import NamedTuple

import torch

from dtlib.formulas.require import require
from dtlib.parallelism.operators.adjoint import shift
from dtlib.runtime.process_group import ranks_of


class LinearState(NamedTuple):
    """The map S -> keep S + added: `keep` (n,), one factor a head; `added` (b, n, k, d).

    >>> early = LinearState(torch.tensor([0.5]), torch.ones(1, 1, 1, 1))
    >>> late = LinearState(torch.tensor([0.25]), torch.full((1, 1, 1, 1), 3.0))
    >>> early.then(late).added.item(), late.then(early).added.item()
    (3.25, 2.5)
    """

    keep: torch.Tensor
    added: torch.Tensor

    @classmethod
    def of(cls, k_bnsk, v_bnsd, decay_n) -> "LinearState":
        """What these tokens add: each k v', faded by the tokens after it."""
        tokens = k_bnsk.shape[2]
        after_s = torch.arange(tokens - 1, -1, -1, device=k_bnsk.device)
        faded_bnsk = k_bnsk * decay_n[:, None, None] ** after_s[:, None]
        return cls(decay_n**tokens, faded_bnsk.mT @ v_bnsd)

    def then(self, later: "LinearState") -> "LinearState":
        """First this stretch, then the later one."""
        faded = later.keep[:, None, None] * self.added
        return LinearState(self.keep * later.keep, faded + later.added)


def linear_attention(q_bnsk, k_bnsk, v_bnsd, decay_n=None):
    """Masked attention whose weights are q k' themselves, faded by distance: every pair, plainly.

    Equation: y_i = sum over j <= i of decay^(i - j) (q_i k_j') v_j. Arguments: queries, keys,
    values; `decay_n`, a factor of each head, by default 1. Returns (b, n, s, d).
    Raises ValueError for a factor outside 0 to 1. Source: Katharopoulos et al. 2020, without their
    normaliser; Sun et al. 2023 for the factor.
    """
    decay_n = _checked(decay_n, q_bnsk)
    places = torch.arange(q_bnsk.shape[2], device=q_bnsk.device)
    apart_ss = places[:, None] - places[None, :]
    fade_nss = decay_n[:, None, None] ** apart_ss.clamp(min=0) * (apart_ss >= 0)
    return (q_bnsk @ k_bnsk.mT * fade_nss) @ v_bnsd


def carried_attention(q_bnsk, k_bnsk, v_bnsd, before_bnkd, decay_n=None):
    """The same for a stretch of text, with the state of all that came before.

    >>> q, k, v = (torch.randn(1, 2, 6, 4).double() for _ in range(3))
    >>> state = LinearState.of(k[:, :, :4], v[:, :, :4], torch.ones(2).double()).added
    >>> late = carried_attention(q[:, :, 4:], k[:, :, 4:], v[:, :, 4:], state)
    >>> bool(torch.allclose(late, linear_attention(q, k, v)[:, :, 4:]))
    True
    """
    decay_n = _checked(decay_n, q_bnsk)
    past_s = torch.arange(1, q_bnsk.shape[2] + 1, device=q_bnsk.device)
    faded_bnsk = q_bnsk * decay_n[:, None, None] ** past_s[:, None]
    return linear_attention(q_bnsk, k_bnsk, v_bnsd, decay_n) + faded_bnsk @ before_bnkd


def state_before(own: LinearState, group) -> torch.Tensor:
    """The state at the beginning of this rank's stretch: an exclusive scan over the ranks.

    In round i each rank combines what it has with what rank r - 2^i has, so that after
    ceil(log2 P) rounds it knows all stretches up to its own; one more message hands that on.
    Returns (b, n, k, d), zero on rank 0. Backwards the messages turn round.
    Source: Hillis and Steele 1986.
    """
    rank, P = ranks_of(group)
    state, step = own, 1
    while step < P:
        earlier = LinearState(*shift(tuple(state), group, step))
        state = _only_if(rank >= step, earlier).then(state)
        step *= 2
    return _only_if(rank > 0, LinearState(*shift(tuple(state), group))).added


def shared_linear_attention(q_bnsk, k_bnsk, v_bnsd, group, decay_n=None):
    """Linear attention over a sequence that ranks hold in contiguous, equal shares.

    Each rank computes its stretch's state, a scan carries it, and nothing else is sent: k d numbers
    for each head, however long the text is. Arguments: this rank's queries, keys and values.
    """
    decay_n = _checked(decay_n, q_bnsk)
    before = state_before(LinearState.of(k_bnsk, v_bnsd, decay_n), group)
    return carried_attention(q_bnsk, k_bnsk, v_bnsd, before, decay_n)


def _only_if(counts: bool, state: LinearState) -> LinearState:
    """The state, or that of no text: with weight 0, so that its sender still gets a gradient."""
    if counts:
        return state
    return LinearState(torch.ones_like(state.keep), 0 * state.added)


def _checked(decay_n, q_bnsk):
    if decay_n is None:
        return q_bnsk.new_ones(q_bnsk.shape[1])
    good = bool(((decay_n >= 0) & (decay_n <= 1)).all()) and decay_n.shape == q_bnsk.shape[1:2]
    allowed = f"{q_bnsk.shape[1]} factors from 0 to 1"
    require(good, "linear_attention", "decay_n", decay_n.tolist(), allowed)
    return decay_n
