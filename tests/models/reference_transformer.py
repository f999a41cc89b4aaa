"""A transformer in plain torch, built from a spec's dimensions: the judge of its counts.

It knows nothing of the library's lists of weights and kept tensors. Parameters are counted on the
meta device, FLOPs by torch's own counter, and kept tensors by listening to autograd.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from dtlib.foundations import MLA, MoE, TransformerSpec

TINY = {"layers": 2, "hidden": 32, "heads": 4, "vocab": 50}
MODERN = {"gated": True, "norm": "rms", "bias": False}
SPECS = {
    "classical": TransformerSpec("classical", **TINY, tied=True, positions=16),
    "grouped": TransformerSpec("grouped", **TINY, **MODERN, kv_heads=2, ffn=48, qkv_bias=True),
    "experts": TransformerSpec(
        "experts", **TINY, **MODERN, kv_heads=1, moe=MoE(5, 2, ffn=24, shared=1, dense_layers=1)
    ),
    "latent": TransformerSpec(
        "latent", **TINY, **MODERN, mla=MLA(24, 20, rope_dim=4, nope_dim=8, value_dim=12)
    ),
}


def count(module) -> int:
    return sum(p.numel() for p in module.parameters())


class Norm(nn.Module):
    def __init__(self, spec, width=None):
        super().__init__()
        width = width or spec.hidden
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if spec.norm == "layer" and spec.bias else None

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias)


def dropout(x, spec):
    return torch.native_dropout(x, 0.5, True)[0] if spec.dropout else x


def core(q, k, v, spec, flash=False, again=False):
    """Attention of q (b, heads, s, d) to k, v (b, kv heads, s, d), without a mask."""
    if again:
        return checkpoint(core, q, k, v, spec, flash, use_reentrant=True)
    if flash:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1])
    b, heads, s, _ = q.shape
    q = q.reshape(b, k.shape[1], -1, q.shape[-1])
    scores = dropout(torch.softmax(q @ k.transpose(-1, -2), dim=-1), spec)
    return (scores @ v).reshape(b, heads, s, -1)


class Attention(nn.Module):
    def __init__(self, spec, *how):
        super().__init__()
        self.spec, self.how = spec, how
        h, d, bias = spec.hidden, spec.head_dim, spec.qkv_bias
        self.q = nn.Linear(h, spec.heads * d, bias)
        self.k = nn.Linear(h, spec.kv_heads * d, bias)
        self.v = nn.Linear(h, spec.kv_heads * d, bias)
        self.out = nn.Linear(spec.heads * d, h, spec.bias)

    def forward(self, x):
        split = lambda y: y.unflatten(-1, (-1, self.spec.head_dim)).transpose(1, 2)  # noqa: E731
        y = core(split(self.q(x)), split(self.k(x)), split(self.v(x)), self.spec, *self.how)
        return self.out(y.transpose(1, 2).flatten(2))


class LatentAttention(nn.Module):
    def __init__(self, spec, *how):
        super().__init__()
        self.spec, self.how, m = spec, how, spec.mla
        self.q_down = nn.Linear(spec.hidden, m.q_rank, False)
        self.q_up = nn.Linear(m.q_rank, spec.heads * (m.nope_dim + m.rope_dim), False)
        self.kv_down = nn.Linear(spec.hidden, m.kv_rank + m.rope_dim, False)
        self.kv_up = nn.Linear(m.kv_rank, spec.heads * (m.nope_dim + m.value_dim), False)
        self.q_norm, self.kv_norm = Norm(spec, m.q_rank), Norm(spec, m.kv_rank)
        self.out = nn.Linear(spec.heads * m.value_dim, spec.hidden, False)

    def forward(self, x):
        m, heads = self.spec.mla, self.spec.heads
        split = lambda y: y.unflatten(-1, (heads, -1)).transpose(1, 2)  # noqa: E731
        q = split(self.q_up(self.q_norm(self.q_down(x))))
        latent, rotary = self.kv_down(x).split([m.kv_rank, m.rope_dim], -1)
        both = split(self.kv_up(self.kv_norm(latent.contiguous())))
        nope, v = both.split([m.nope_dim, m.value_dim], -1)
        k = torch.cat([nope, rotary.unsqueeze(1).expand(-1, heads, -1, -1)], -1)
        y = core(q, k, v.contiguous(), self.spec, *self.how)
        return self.out(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, spec, width):
        super().__init__()
        self.gate = nn.Linear(spec.hidden, width, spec.bias) if spec.gated else None
        self.up = nn.Linear(spec.hidden, width, spec.bias)
        self.down = nn.Linear(width, spec.hidden, spec.bias)

    def forward(self, x):
        if self.gate is None:
            return self.down(F.gelu(self.up(x)))
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Mixture(nn.Module):
    def __init__(self, spec):
        super().__init__()
        moe = spec.moe
        self.active, self.router = moe.active, nn.Linear(spec.hidden, moe.experts, False)
        block = lambda: FeedForward(spec, moe.ffn)  # noqa: E731
        self.experts = nn.ModuleList(block() for _ in range(moe.experts))
        self.shared = nn.ModuleList(block() for _ in range(moe.shared))

    def forward(self, x_bsh):
        x = x_bsh.flatten(0, 1)
        share, choice = self.router(x).float().softmax(-1).topk(self.active)
        order = choice.flatten().argsort()
        sizes = choice.flatten().bincount(minlength=len(self.experts)).tolist()
        token = order // self.active
        rows = x.index_select(0, token)
        parts = [e(r) for e, r in zip(self.experts, rows.split(sizes), strict=True) if len(r)]
        weight = share.to(x.dtype).flatten().index_select(0, order)
        weighted = torch.cat(parts) * weight.unsqueeze(1)
        y = torch.zeros_like(x).scatter_add(0, token.unsqueeze(1).expand_as(weighted), weighted)
        for expert in self.shared:
            y = y + expert(x)
        return y.view_as(x_bsh)


class Layer(nn.Module):
    def __init__(self, spec, experts, flash=False, recompute="none"):
        super().__init__()
        self.spec, self.again = spec, recompute == "full"
        self.norm1, self.norm2 = Norm(spec), Norm(spec)
        how = (flash, recompute == "selective")
        self.attention = (LatentAttention if spec.mla else Attention)(spec, *how)
        self.block = Mixture(spec) if experts else FeedForward(spec, spec.ffn)

    def forward(self, x):
        return checkpoint(self.run, x, use_reentrant=True) if self.again else self.run(x)

    def run(self, x):
        x = x + dropout(self.attention(self.norm1(x)), self.spec)
        return x + dropout(self.block(self.norm2(x)), self.spec)


class Model(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.tokens = nn.Embedding(spec.vocab, spec.hidden)
        self.positions = nn.Embedding(spec.positions, spec.hidden) if spec.positions else None
        dense = spec.moe.dense_layers if spec.moe else spec.layers
        self.layers = nn.ModuleList(Layer(spec, i >= dense) for i in range(spec.layers))
        self.norm = Norm(spec)
        self.head = nn.Linear(spec.hidden, spec.vocab, False)
        if spec.tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def saved_bytes(layer, x) -> int:
    """Bytes that autograd keeps of `layer(x)`: each storage once, without the weights.

    Left out, as the source does, is what a norm keeps besides its input: numbers one per token.
    """
    kept, statistics = {}, x.shape[0] * x.shape[1]
    weights = {p.untyped_storage().data_ptr() for p in layer.parameters()}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights and tensor.numel() != statistics:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = layer(x)
    total = sum(storage.nbytes() for storage in kept.values())
    del y
    return total
