"""The grid's models: the book's GPT with one layer, which differ in their width and nothing else.

A width that learns best at another rate would put the choice of the rate into the scaling law. So
weights start, and matrices learn, as the maximal update parametrisation has it: then one rate is
right for all widths (Yang et al. 2021), which chapter 10 tries.
"""

import math

import torch
from torch.nn import functional as F

from dtlib.formulas.require import require
from dtlib.models.gpt import GPT
from dtlib.models.spec import TransformerSpec
from dtlib.scaling_laws.grid.windows import SEQ

BASE_WIDTH = 32  # where all weights learn at the same rate
RULES = ("mup", "same")


def grid_spec(width: int, letters: int = 32) -> TransformerSpec:
    """One layer, as wide as asked; the alphabet has one letter more, which begins a window.

    Heads are 16 wide, but there are at least four of them: models with one head are off the line.
    Raises ValueError for a width that its heads do not divide.

    >>> spec = grid_spec(64)
    >>> spec.heads, spec.head_dim, spec.params()
    (4, 16, 55616)
    """
    heads = max(4, width // 16)
    allowed = f"a multiple of its {heads} heads, whole and positive"
    require(width > 0 and width % heads == 0, "grid_spec", "width", width, allowed)
    return TransformerSpec(
        f"width {width}", 1, width, heads, letters + 1, norm="rms", bias=False, positions=SEQ
    )


def grid_model(width: int, seed: int, letters: int = 32) -> GPT:
    """The model of `grid_spec`, with its weights drawn: the same seed gives the same bits.

    The stream starts at 1 in every entry, matrices keep its size, and the head starts at zero, so
    that the first loss is that of a model which knows nothing: log(letters + 1).

    >>> logits = grid_model(16, seed=1)(torch.zeros(1, 4, dtype=torch.long))
    >>> logits.shape, bool((logits == 0).all())
    (torch.Size([1, 4, 33]), True)
    """
    model = GPT(grid_spec(width, letters), seed)
    with torch.no_grad():
        for table in (model.embedding, model.position_embedding):
            table.weight.mul_(math.sqrt(width))  # the book's GPT draws 1 / sqrt(width)
        model.head.weight.zero_()
    for block in model.blocks:
        block.attention.mix = _fused_attention
    return model


def grid_optimizer(model: GPT, rate: float, rule: str = "mup") -> torch.optim.Optimizer:
    """Adam without decay; "mup": matrices learn at rate * 32 / width, all else at the rate.

    Adam moves every entry by about its rate, whatever the gradient. A matrix adds up `width` of
    such moves, so its result would move further the wider it is, were the rate not divided by the
    width. Rows of tables and norms are used one at a time: they keep theirs. "same" gives all one
    rate, as if there were no such thing.

    Raises ValueError for another rule.
    """
    require(rule in RULES, "grid_optimizer", "rule", rule, " or ".join(map(repr, RULES)))
    matrices = [w for w in model.blocks.parameters() if w.ndim == 2] + [model.head.weight]
    chosen = {id(w) for w in matrices}
    others = [w for w in model.parameters() if id(w) not in chosen]
    scale = BASE_WIDTH / model.spec.hidden if rule == "mup" else 1.0
    groups = [
        {"params": matrices, "lr": rate * scale, "peak": rate * scale},
        {"params": others, "lr": rate, "peak": rate},
    ]
    return torch.optim.Adam(groups, betas=(0.9, 0.98), fused=True)


def _fused_attention(q_bnsd, k_bnsd, v_bnsd, positions):
    """As `causal_attention`, for windows that begin at 0 and a head of keys for each of queries."""
    return F.scaled_dot_product_attention(q_bnsd, k_bnsd, v_bnsd, is_causal=True)
