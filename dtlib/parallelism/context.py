"""A whole GPT on shares of the sequence: attention is exchanged, all else works token by token."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

from dtlib.foundations.require import require
from dtlib.parallelism import layouts
from dtlib.parallelism.messages import ranks_of
from dtlib.parallelism.sequence import (
    all_gather_attention,
    require_heads,
    ring_attention,
    ulysses_attention,
)

ATTENTIONS = {
    "ring": ring_attention,
    "all-gather": all_gather_attention,
    "ulysses": ulysses_attention,
}


class ContextParallel(nn.Module):
    """A GPT whose ranks each hold some tokens of every sequence, and all of the parameters.

    Arguments: `module`, a `dtlib.models.GPT`, whose attention this exchanges; `group`; `layout`, a
    function of (seq, P) as in `layouts`; `attention`, a name of `ATTENTIONS`.
    The loss is partitioned: each rank calls `backward` on the loss of its own tokens, and then all
    call `sum_gradients`. Raises ValueError for an unknown attention and heads that do not fit.
    """

    def __init__(self, module, group, layout: Callable, attention: str):
        super().__init__()
        names = ", ".join(map(repr, ATTENTIONS))
        require(attention in ATTENTIONS, "context_parallel", "attention", attention, names)
        self.module, self.group, self.layout = module, group, layout
        self.rank, self.P = ranks_of(group)
        for block in module.blocks:
            if attention == "ulysses":
                require_heads(block.attention.heads, block.attention.kv_heads, self.P)
            block.attention.mix = self._with_all(ATTENTIONS[attention])

    def forward(self, tokens_bs):
        """The logits of this rank's tokens, in the order of its layout; every rank passes all."""
        positions = self.positions(tokens_bs.shape[1]).to(tokens_bs.device)
        return self.module(tokens_bs[:, positions], positions)

    def own(self, x_bs):
        """This rank's columns of a tensor that has one for each token of the sequence."""
        return x_bs[:, self.positions(x_bs.shape[1])]

    def positions(self, seq: int) -> torch.Tensor:
        """The global positions of this rank's tokens. Raises ValueError as the layout does."""
        return torch.as_tensor(self.layout(seq, self.P)[self.rank])

    def sum_gradients(self) -> None:
        """Add every parameter's gradient over the ranks: each has seen its own tokens only."""
        for parameter in self.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad, group=self.group)

    def _with_all(self, attention: Callable) -> Callable:
        def mix(q_bnsd, k_bmsd, v_bmsd, own_positions):
            table = self.layout(q_bnsd.shape[2] * self.P, self.P)
            return attention(q_bnsd, k_bmsd, v_bmsd, table, self.group)

        return mix


def context_parallel(module, group, layout: Callable = layouts.zigzag, attention: str = "ring"):
    """`module` on shares of the sequence: see `ContextParallel`."""
    return ContextParallel(module, group, layout, attention)
