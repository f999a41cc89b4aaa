"""A GPT that fits on a page: the model that every strategy parallelises, and must equal.

The noun is `GPT`, built from a `TransformerSpec`: a table of tokens, `Block`s of attention and
feed-forward, a last norm, a head. Nothing here knows of ranks. A rank that holds some tokens of a
sequence only says where they stand (`positions`), and that is all that attention needs to know.
Shapes are in the names: b sequences, s tokens, h numbers wide, v words; n query heads, m key and
value heads, d numbers in a head. There is no dropout: a reference is the same on every run.
"""

from math import sqrt

import torch
from torch import nn
from torch.nn import functional as F

from dtlib.formulas.require import require, require_divisor


class GPT(nn.Module):
    """Tokens in, logits of each next token out: `spec` as a module of `spec.params()` parameters.

    Arguments: `spec`, a TransformerSpec without `mla`; `seed` of its weights, the same bits on
    every rank; `dtype`. Under ``torch.device("meta")`` it has shapes and no weights.
    Raises ValueError for a spec that it cannot build.
    Source: Radford et al. 2019; Touvron et al. 2023 for rotary positions, RMS norms and gates.

    >>> from dtlib.foundations import TransformerSpec
    >>> spec = TransformerSpec("tiny", layers=2, hidden=16, heads=4, vocab=50, norm="rms")
    >>> model = GPT(spec)
    >>> model(torch.tensor([[3, 1, 4, 1, 5]])).shape
    torch.Size([1, 5, 50])
    >>> sum(p.numel() for p in model.parameters()) == spec.params()
    True
    """

    def __init__(self, spec, seed: int = 0, dtype: torch.dtype = torch.float32):
        super().__init__()
        _check_spec(spec)
        self.spec = spec
        with torch.random.fork_rng(devices=[]):  # torch draws weights too, which we replace
            self.embedding = nn.Embedding(spec.vocab, spec.hidden, dtype=dtype)
            if spec.positions:
                self.position_embedding = nn.Embedding(spec.positions, spec.hidden, dtype=dtype)
            self.blocks = nn.ModuleList(Block(spec, i, dtype) for i in range(spec.layers))
            self.norm = make_norm(spec, dtype)
            self.head = nn.Linear(spec.hidden, spec.vocab, bias=False, dtype=dtype)
        if spec.tied:
            self.head.weight = self.embedding.weight
        draw_weights(self, seed)

    def forward(self, tokens_bs: torch.Tensor, positions: torch.Tensor | None = None):
        """Logits (b, s, v); token j stands at `positions[j]` of its sequence, by default at j."""
        if positions is None:
            positions = torch.arange(tokens_bs.shape[-1], device=tokens_bs.device)
        x_bsh = self.embed(tokens_bs, positions)
        for block in self.blocks:
            x_bsh = block(x_bsh, positions)
        return self.head(self.norm(x_bsh))

    def embed(self, tokens_bs: torch.Tensor, positions: torch.Tensor):
        """What enters the first block: a row for each token, and for its place if that is learned.

        Raises ValueError for tokens or positions that have no row, or that do not fit each other.
        """
        check_tokens(self.spec, tokens_bs, positions)
        x_bsh = _rows(self.embedding, "tokens", tokens_bs)
        if self.spec.positions:
            x_bsh = x_bsh + _rows(self.position_embedding, "positions", positions)
        return x_bsh


class Block(nn.Module):
    """One layer: attention moves numbers between tokens, feed-forward works on each token alone.

    Both read a normed copy of x and add their result to x itself. `layer` counts from 0.
    """

    def __init__(self, spec, layer: int = 0, dtype: torch.dtype = torch.float32):
        super().__init__()
        experts = spec.moe and layer >= spec.moe.dense_layers
        self.attention_norm = make_norm(spec, dtype)
        self.attention = Attention(spec, dtype)
        self.feed_forward_norm = make_norm(spec, dtype)
        self.feed_forward = (
            MixtureOfExperts(spec, dtype) if experts else FeedForward(spec, spec.ffn, dtype)
        )

    def forward(self, x_bsh: torch.Tensor, positions: torch.Tensor | None = None):
        x_bsh = x_bsh + self.attention(self.attention_norm(x_bsh), positions)
        return x_bsh + self.feed_forward(self.feed_forward_norm(x_bsh))


class Attention(nn.Module):
    """Causal self-attention; `heads / kv_heads` query heads share one head of keys and values."""

    def __init__(self, spec, dtype: torch.dtype = torch.float32):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = spec.heads, spec.kv_heads, spec.head_dim
        self.rotates = not spec.positions
        self.mix = causal_attention  # a rank with a share of the sequence has another
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.query = nn.Linear(spec.hidden, queries, bias=spec.qkv_bias, dtype=dtype)
        self.key = nn.Linear(spec.hidden, keys, bias=spec.qkv_bias, dtype=dtype)
        self.value = nn.Linear(spec.hidden, keys, bias=spec.qkv_bias, dtype=dtype)
        self.out = nn.Linear(queries, spec.hidden, bias=spec.bias, dtype=dtype)

    def forward(self, x_bsh: torch.Tensor, positions: torch.Tensor | None = None):
        if positions is None:
            positions = torch.arange(x_bsh.shape[1], device=x_bsh.device)
        q_bnsd, k_bmsd, v_bmsd = (
            part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for part in (self.query(x_bsh), self.key(x_bsh), self.value(x_bsh))
        )
        if self.rotates:
            q_bnsd, k_bmsd = rotary(q_bnsd, positions), rotary(k_bmsd, positions)
        mixed_bnsd = self.mix(q_bnsd, k_bmsd, v_bmsd, positions)
        return self.out(mixed_bnsd.transpose(1, 2).flatten(2))


def causal_attention(q_bnsd, k_bmsd, v_bmsd, positions):
    """Each token's mean of the values up to its own, weighted by softmax(q k' / sqrt d)."""
    sharing = q_bnsd.shape[1] // k_bmsd.shape[1]
    k_bnsd, v_bnsd = (x.repeat_interleave(sharing, dim=1) for x in (k_bmsd, v_bmsd))
    scores_bnss = q_bnsd @ k_bnsd.transpose(-2, -1) / sqrt(q_bnsd.shape[-1])
    later_ss = positions[None, :] > positions[:, None]
    return scores_bnss.masked_fill(later_ss, float("-inf")).softmax(dim=-1) @ v_bnsd


def rotary(x_bnsd: torch.Tensor, positions: torch.Tensor, base: float = 10_000.0):
    """Turn pair i of each head's numbers, (x_i, x_(i + d/2)), by the angle position / base^(2i/d).

    The product of a query and a key that are both turned depends on how far apart they stand only.
    Source: Su et al. 2021.
    """
    half = x_bnsd.shape[-1] // 2
    turns = torch.arange(half, device=x_bnsd.device, dtype=torch.float64) / half
    angle_sd = positions[:, None] * base**-turns
    cos, sin = angle_sd.cos().to(x_bnsd.dtype), angle_sd.sin().to(x_bnsd.dtype)
    first, second = x_bnsd.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class FeedForward(nn.Module):
    """Up to `width` numbers, a bend, down again: GELU, or with a gate SiLU(gate) up (SwiGLU)."""

    def __init__(self, spec, width: int, dtype: torch.dtype = torch.float32):
        super().__init__()
        if spec.gated:
            self.gate = nn.Linear(spec.hidden, width, bias=spec.bias, dtype=dtype)
        self.up = nn.Linear(spec.hidden, width, bias=spec.bias, dtype=dtype)
        self.down = nn.Linear(width, spec.hidden, bias=spec.bias, dtype=dtype)
        self.gated = spec.gated

    def forward(self, x: torch.Tensor):
        bent = F.silu(self.gate(x)) * self.up(x) if self.gated else F.gelu(self.up(x))
        return self.down(bent)


class MixtureOfExperts(nn.Module):
    """Each token goes to the `active` experts that its router finds most probable.

    Their results are added with those probabilities as weights, which for more than one expert are
    divided by their sum; `shared` experts see every token, with weight 1.
    Source: Shazeer et al. 2017; Jiang et al. 2024 for the division.
    """

    def __init__(self, spec, dtype: torch.dtype = torch.float32):
        super().__init__()
        moe, self.active = spec.moe, spec.moe.active
        self.router = nn.Linear(spec.hidden, moe.experts, bias=False, dtype=dtype)
        self.experts = nn.ModuleList(FeedForward(spec, moe.ffn, dtype) for _ in range(moe.experts))
        self.shared = nn.ModuleList(FeedForward(spec, moe.ffn, dtype) for _ in range(moe.shared))

    def forward(self, x: torch.Tensor):
        rows_th = x.flatten(0, -2)
        weights, chosen = self.router(rows_th).softmax(dim=-1).topk(self.active, dim=-1)
        if self.active > 1:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        out_th = sum((expert(rows_th) for expert in self.shared), torch.zeros_like(rows_th))
        for number, expert in enumerate(self.experts):
            row, place = (chosen == number).nonzero(as_tuple=True)
            result = weights[row, place, None] * expert(rows_th[row])
            out_th = out_th.index_add(0, row, result)
        return out_th.view_as(x)


def next_token_loss(logits_bsv: torch.Tensor, targets_bs: torch.Tensor, reduction: str = "mean"):
    """Cross-entropy of the tokens that really followed; a target of -100 is left out.

    `reduction` is "mean" over the targets that count (NaN if there are none), or "sum", which ranks
    with unequal numbers of targets can add.
    Raises ValueError for another reduction, or targets of another shape.

    >>> next_token_loss(torch.zeros(1, 2, 8), torch.tensor([[5, -100]]))  # log 8
    tensor(2.0794)
    """
    owner, shape = "next_token_loss", tuple(logits_bsv.shape[:-1])
    require(reduction in ("mean", "sum"), owner, "reduction", reduction, "'mean' or 'sum'")
    found = tuple(targets_bs.shape)
    require(found == shape, owner, "the shape of targets_bs", found, f"{shape}, as of logits_bsv")
    logits, targets = logits_bsv.flatten(0, -2), targets_bs.flatten()
    return F.cross_entropy(logits, targets, ignore_index=-100, reduction=reduction)


def make_norm(spec, dtype: torch.dtype = torch.float32):
    """The norm that the spec names."""
    if spec.norm == "rms":
        return nn.RMSNorm(spec.hidden, eps=1e-5, dtype=dtype)
    return nn.LayerNorm(spec.hidden, eps=1e-5, bias=spec.bias, dtype=dtype)


@torch.no_grad()
def draw_weights(model: nn.Module, seed: int) -> None:
    """Fill a model's parameters, in the order of its definition, from a generator of its own.

    Matrices have standard deviation 1 / sqrt(inputs). Biases and norms do not start at 0 and 1,
    where a bias that is added twice would not be seen. All are drawn in 64 bits, then rounded.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.is_meta:
            continue
        noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64, device="cpu")
        start = 0 if weight.ndim > 1 or name.endswith("bias") else 1
        scale = 1 / sqrt(weight.shape[-1]) if weight.ndim > 1 else 0.1
        weight.copy_(start + scale * noise)


def _rows(table, argument, numbers):
    try:
        return table(numbers)
    except IndexError:
        least, most, rows = int(numbers.min()), int(numbers.max()), table.num_embeddings
        found = f"from {least} to {most}"
        allowed = f"must be from 0 to {rows - 1}: the table has {rows} rows"
        raise ValueError(f"GPT: {argument} are {found}, but {allowed}") from None


def _check_spec(spec):
    owner = f"GPT {spec.name!r}"
    require(spec.mla is None, owner, "mla", spec.mla, "None: latent attention is not built here")
    require_divisor(owner, "kv_heads", spec.kv_heads, "heads", spec.heads)
    even = spec.positions > 0 or spec.head_dim % 2 == 0
    require(even, owner, "head_dim", spec.head_dim, "even, for pairs of numbers that are turned")


def check_tokens(spec, tokens_bs, positions) -> None:
    """Raise ValueError unless there are sequences of tokens, with one position for each place."""
    owner, shape = f"GPT {spec.name!r}", tuple(tokens_bs.shape)
    require(len(shape) == 2, owner, "the shape of tokens", shape, "(sequences, tokens)")
    found, allowed = tuple(positions.shape), f"{shape[1:]}: one position for each token"
    require(found == shape[1:], owner, "the shape of positions", found, allowed)
