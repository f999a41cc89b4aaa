"""Latent attention: keys and values made from one short vector, in two orders of the products.

Shapes are in the names: b sequences, s new tokens, t cached tokens, h the width of the stream, n
heads, c numbers of the latent, r rotary ones, d those of a head.
"""

from math import sqrt
from typing import NamedTuple

import torch
from torch import nn

from dtlib.formulas.require import require
from dtlib.models.gpt import draw_weights, rotary


class LatentCache(NamedTuple):
    """What is kept of tokens: latents (b, t, c), rotary keys (b, t, r), and their places (t,)."""

    latent_btc: torch.Tensor
    key_btr: torch.Tensor
    positions: torch.Tensor

    def after(self, earlier: "LatentCache | None") -> "LatentCache":
        """Both, the earlier tokens first; None is no token."""
        if earlier is None:
            return self
        latents, keys = (torch.cat(pair, 1) for pair in zip(earlier[:2], self[:2], strict=True))
        return LatentCache(latents, keys, torch.cat([earlier.positions, self.positions]))

    @property
    def bytes(self) -> int:
        """Of latents and rotary keys."""
        return self.latent_btc.nbytes + self.key_btr.nbytes


class LatentAttention(nn.Module):
    """Causal attention whose keys and values are linear in a latent that all heads share.

    Equation: c = norm(x W_DKV), k = [c W_UK, rotary(x W_KR)], v = c W_UV; queries likewise from a
    latent of their own. Explicit: softmax(q k' / sqrt(d)) v. Absorbed: (q W_UK') c' is the same
    score, and (softmax c) W_UV the same result, so that no key and no value is ever made.
    Arguments: `spec`, a TransformerSpec with `mla`; `seed` of the weights; `dtype`.
    Raises ValueError for a spec without `mla`, with biases, or an odd `rope_dim`.
    Source: DeepSeek-AI 2024.

    >>> from dtlib.foundations import MLA, TransformerSpec
    >>> mla = MLA(q_rank=6, kv_rank=5, rope_dim=2, nope_dim=3, value_dim=4)
    >>> spec = TransformerSpec("tiny", 1, 8, 2, 10, mla=mla, norm="rms", bias=False)
    >>> attention, x = LatentAttention(spec, dtype=torch.float64), torch.ones(1, 3, 8).double()
    >>> bool((attention(x) - attention(x, absorb=True)).abs().max() < 1e-12)
    True
    """

    def __init__(self, spec, seed: int = 0, dtype: torch.dtype = torch.float32):
        super().__init__()
        owner = f"LatentAttention {spec.name!r}"
        require(spec.mla is not None, owner, "mla", None, "given")
        require(not (spec.bias or spec.qkv_bias), owner, "bias", True, "False")
        rotated = spec.mla.rope_dim
        require(rotated % 2 == 0, owner, "rope_dim", rotated, "even, for pairs that are turned")
        self.mla, self.heads = mla, n = spec.mla, spec.heads

        def linear(inputs, outputs):
            return nn.Linear(inputs, outputs, bias=False, dtype=dtype)

        with torch.random.fork_rng(devices=[]):
            self.query_latent = linear(spec.hidden, mla.q_rank)
            self.query_norm = nn.RMSNorm(mla.q_rank, eps=1e-6, dtype=dtype)
            self.query = linear(mla.q_rank, n * (mla.nope_dim + mla.rope_dim))
            self.latent_and_key = linear(spec.hidden, mla.kv_rank + mla.rope_dim)
            self.latent_norm = nn.RMSNorm(mla.kv_rank, eps=1e-6, dtype=dtype)
            self.key_and_value = linear(mla.kv_rank, n * (mla.nope_dim + mla.value_dim))
            self.out = linear(n * mla.value_dim, spec.hidden)
        draw_weights(self, seed)

    def forward(self, x_bsh, positions=None, cache: LatentCache | None = None, absorb=False):
        """New tokens that attend to `cache` (by default to themselves), as (b, s, h)."""
        if positions is None:
            positions = torch.arange(x_bsh.shape[1], device=x_bsh.device)
        cache = self.remember(x_bsh, positions) if cache is None else cache
        mix = self.absorbed if absorb else self.explicit
        mixed_bnsd = mix(*self.ask(x_bsh, positions), positions, cache)
        return self.out(mixed_bnsd.transpose(1, 2).flatten(2))

    def remember(self, x_bsh, positions) -> LatentCache:
        """All that later tokens need of these: a latent each, and a rotary key for all heads."""
        sizes = self.mla.kv_rank, self.mla.rope_dim
        latent_bsc, key_bsr = self.latent_and_key(x_bsh).split(sizes, dim=-1)
        return LatentCache(self.latent_norm(latent_bsc), rotary(key_bsr, positions), positions)

    def ask(self, x_bsh, positions):
        """The queries of every head: numbers without a rotation, and rotated ones."""
        sizes = self.mla.nope_dim, self.mla.rope_dim
        queries = self.query(self.query_norm(self.query_latent(x_bsh)))
        q_bnsd, q_bnsr = queries.unflatten(-1, (self.heads, -1)).transpose(1, 2).split(sizes, -1)
        return q_bnsd, rotary(q_bnsr, positions)

    def explicit(self, q_bnsd, q_bnsr, positions, cache):
        """Keys and values of every head, then attention as ever."""
        sizes = self.mla.nope_dim, self.mla.value_dim
        made = self.key_and_value(cache.latent_btc).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k_bntd, v_bntd = made.split(sizes, dim=-1)
        scores = q_bnsd @ k_bntd.mT + q_bnsr @ cache.key_btr[:, None].mT
        return self._weights(scores, positions, cache) @ v_bntd

    def absorbed(self, q_bnsd, q_bnsr, positions, cache):
        """The queries take W_UK, the result takes W_UV; keys and values are the latents."""
        up_ndc, out_ndc = self.expansions()
        asked_bnsc, latent_b1tc = q_bnsd @ up_ndc, cache.latent_btc[:, None]
        scores = asked_bnsc @ latent_b1tc.mT + q_bnsr @ cache.key_btr[:, None].mT
        mixed_bnsc = self._weights(scores, positions, cache) @ latent_b1tc
        return mixed_bnsc @ out_ndc.mT

    def expansions(self):
        """W_UK and W_UV of every head, each (n, d, c)."""
        both_ndc = self.key_and_value.weight.unflatten(0, (self.heads, -1))
        return both_ndc.split((self.mla.nope_dim, self.mla.value_dim), dim=1)

    def _weights(self, scores_bnst, positions, cache):
        scale = 1 / sqrt(self.mla.nope_dim + self.mla.rope_dim)
        later_st = cache.positions[None, :] > positions[:, None]
        return (scores_bnst * scale).masked_fill(later_st, float("-inf")).softmax(dim=-1)
