"""Sliding windows: attention that asks one neighbour, and how far anything reaches through layers.

Shapes: b sequences, n heads, m key heads, s tokens of this rank, d numbers in a head.
"""

import numpy as np
import torch

from dtlib.formulas.require import require, require_count
from dtlib.parallelism.operators.adjoint import shift
from dtlib.parallelism.sequence.attention import block_state, with_gradients
from dtlib.parallelism.sequence.masks import causal_mask, window_mask
from dtlib.runtime.process_group import ranks_of


def halo_attention(q_bnsd, k_bmsd, v_bmsd, window: int, group):
    """Causal attention over `window` tokens, of a sequence that ranks hold in contiguous shares.

    Equation: rank r needs, besides its own, the last window - 1 keys and values of rank r - 1.
    Arguments: this rank's queries, keys and values; `window`; `group`. Returns (b, n, s, d).
    Backwards the gradients of the borrowed keys go home. Raises ValueError for a window that needs
    more than one neighbour: `ring_attention` of chapter 17 with a mask takes any.
    Source: Beltagy et al. 2020 for the window.
    """
    rank, P = ranks_of(group)
    tokens = q_bnsd.shape[2]
    _require_window(window, tokens, P)
    own = torch.arange(tokens, device=q_bnsd.device) + rank * tokens
    places, k_bmtd, v_bmtd = own, k_bmsd, v_bmsd
    if P > 1 and window > 1:
        lent = slice(tokens - (window - 1), None)
        halo_k, halo_v = shift((k_bmsd[:, :, lent], v_bmsd[:, :, lent]), group)
        k_bmtd = torch.cat([halo_k, k_bmsd], dim=2)
        v_bmtd = torch.cat([halo_v, v_bmsd], dim=2)
        # Rank 0 gets the end of the text: later than its own tokens, so that it sees none.
        neighbour = (rank - 1) % P
        places = torch.cat([own[lent] + (neighbour - rank) * tokens, own])
    seen = causal_mask & window_mask(window)
    state = block_state(q_bnsd, k_bmtd, v_bmtd, (own, places), mask=seen)
    return with_gradients(state.result(), q_bnsd, k_bmtd, v_bmtd)


def _require_window(window: int, tokens: int, P: int) -> None:
    owner = "halo_attention"
    require_count(owner, window=window)
    allowed = f"at most {tokens + 1}: {tokens} tokens of one neighbour, and the token itself"
    require(window <= tokens + 1 or P == 1, owner, "window", window, allowed)


def path_weights(layers: int, window: int, stay: float = 0.0) -> np.ndarray:
    """How much of a token's last layer comes from each distance, if windows are plain means.

    Equation: the distribution of a sum of `layers` steps, each 0 with the share `stay` (what passes
    by attention on the stream) and otherwise uniform on 0 ... window - 1. Far from the beginning.
    Returns an array of window_reach_tokens weights that add up to 1, the token itself first.
    Raises ValueError for a share outside 0 to 1, and counts below 1.

    >>> (9 * path_weights(2, 3)).round(6)
    array([1., 2., 3., 2., 1.])
    """
    require_count("path_weights", layers=layers, window=window)
    require(0 <= stay <= 1, "path_weights", "stay", stay, "from 0 to 1")
    step = np.full(window, (1 - stay) / window)
    step[0] += stay
    size = layers * (window - 1) + 1
    grid = 1 << (size - 1).bit_length()
    return np.clip(np.fft.irfft(np.fft.rfft(step, grid) ** layers, grid)[:size], 0, None)
