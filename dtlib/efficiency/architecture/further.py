"""A module that predicts the token after the next: one more layer, and no table of its own."""

from dataclasses import replace

import torch
from torch import nn

from dtlib.formulas.require import require
from dtlib.models.gpt import GPT, Block, draw_weights, make_norm, next_token_loss


class FurtherToken(nn.Module):
    """Guesses token i + 2 from the model's state at i and from token i + 1.

    Equation: x_i = M [norm(h_i), norm(embedding(t_{i+1}))], a layer over them, and the model's own
    head. It holds `further_params` parameters; table and head are the model's.
    Arguments: `spec` of the model; `seed`; `dtype`. Source: DeepSeek-AI 2024; Gloeckle et al. 2024
    for predicting several tokens.
    """

    def __init__(self, spec, seed: int = 0, dtype: torch.dtype = torch.float32):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            self.state_norm, self.token_norm = make_norm(spec, dtype), make_norm(spec, dtype)
            self.project = nn.Linear(2 * spec.hidden, spec.hidden, bias=False, dtype=dtype)
            self.block = Block(spec, spec.layers - 1, dtype)
            self.norm = make_norm(spec, dtype)
        draw_weights(self, seed)

    def forward(self, model: GPT, state_bsh: torch.Tensor, tokens_bs: torch.Tensor):
        """Logits (b, s - 1, v), place i of them for token i + 2.

        Raises ValueError for fewer than two tokens.
        """
        tokens = tokens_bs.shape[1]
        require(tokens > 1, "FurtherToken", "the number of tokens", tokens, "at least 2")
        positions = torch.arange(tokens - 1, device=tokens_bs.device)
        next_bsh = model.embed(tokens_bs[:, 1:], positions + 1)
        both = torch.cat([self.state_norm(state_bsh[:, :-1]), self.token_norm(next_bsh)], dim=-1)
        return model.head(self.norm(self.block(self.project(both), positions)))


def last_states(model: GPT, tokens_bs: torch.Tensor) -> torch.Tensor:
    """What leaves the model's last block: (b, s, h)."""
    positions = torch.arange(tokens_bs.shape[1], device=tokens_bs.device)
    x_bsh = model.embed(tokens_bs, positions)
    for block in model.blocks:
        x_bsh = block(x_bsh, positions)
    return x_bsh


def two_token_loss(model: GPT, further: FurtherToken, text_bs: torch.Tensor, weight: float = 0.3):
    """The loss of the next token, and `weight` times that of the one after it.

    `text_bs` has one token more than are read, as each of them is a target, too.

    >>> from dtlib.foundations import TransformerSpec
    >>> spec = TransformerSpec("tiny", 1, 8, 2, 10)
    >>> text = torch.tensor([[3, 1, 4, 1, 5]])
    >>> loss = two_token_loss(GPT(spec), FurtherToken(spec), text)
    >>> loss.shape
    torch.Size([])
    """
    tokens_bs = text_bs[:, :-1]
    state_bsh = last_states(model, tokens_bs)
    loss = next_token_loss(model.head(model.norm(state_bsh)), text_bs[:, 1:])
    return loss + weight * next_token_loss(further(model, state_bsh, tokens_bs), text_bs[:, 2:])


def further_params(spec) -> int:
    """The parameters of a `FurtherToken`: a layer, a matrix of 2 H rows, three norms.

    >>> from dtlib.foundations import published_models
    >>> round(further_params(published_models["deepseek-v3"]) / 1e9, 1)
    11.6
    """
    moe = spec.moe and replace(spec.moe, dense_layers=0)
    one = replace(spec, layers=1, moe=moe)
    parts = one.parameter_parts()
    outside = sum(parts.get(name, 0) for name in ("embedding", "positions", "head"))
    norm = next(w.size for w in one.weights() if w.name == "last")
    norm *= 2 if spec.norm == "layer" and spec.bias else 1
    return one.params() - outside + 2 * spec.hidden**2 + 2 * norm
