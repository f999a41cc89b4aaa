"""A whole GPT on shares of the sequence: attention is exchanged, all else works token by token."""

from collections.abc import Callable

import torch
import torch.distributed as dist

from dtlib.formulas.require import require
from dtlib.models.protocols import MixingAttention, PositionedModel, require_parts
from dtlib.parallelism.operators.keeper import KeepsGroups
from dtlib.parallelism.sequence import layouts
from dtlib.parallelism.sequence.attention import (
    all_gather_attention,
    require_heads,
    ring_attention,
    ulysses_attention,
)
from dtlib.runtime.process_group import ranks_of

ATTENTIONS = {
    "ring": ring_attention,
    "all-gather": all_gather_attention,
    "ulysses": ulysses_attention,
}


class ContextParallel(KeepsGroups):
    """A GPT whose ranks each hold some tokens of every sequence, and all of the parameters.

    Arguments: `module`, a `dtlib.models.GPT` or another `PositionedModel` whose blocks have a
    causal `MixingAttention`, which this exchanges; `group`; `layout`, a function of (seq, P) as in
    `layouts`; `attention`, a name of `ATTENTIONS`.
    The loss is partitioned: each rank calls `backward` on the loss of its own tokens, and then all
    call `sum_gradients`, once a step. Raises ValueError for an unknown attention and heads that do
    not fit, and TypeError for a model that lacks a part.
    """

    def __init__(self, module, group, layout: Callable, attention: str):
        super().__init__()
        names = ", ".join(map(repr, ATTENTIONS))
        require(attention in ATTENTIONS, "context_parallel", "attention", attention, names)
        require_parts("context_parallel", PositionedModel, module)
        self.module, self.group, self.layout = module, group, layout
        self.rank, self.P = ranks_of(group)
        for number, block in enumerate(module.blocks):
            part = getattr(block, "attention", None)
            require_parts("context_parallel", MixingAttention, part, f"blocks[{number}].attention")
            if attention == "ulysses":
                require_heads(part.heads, part.kv_heads, self.P)
            part.mix = exchanging(attention, layout, group)

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
        for parameter in trained_parameters(self.module):
            dist.all_reduce(parameter.grad, group=self.group)


def exchanging(attention: str, layout: Callable, group) -> Callable:
    """The `mix` of a `MixingAttention` whose ranks each hold the tokens that the layout says."""
    (_, P), exchange = ranks_of(group), ATTENTIONS[attention]

    def mix(q_bnsd, k_bmsd, v_bmsd, own_positions):
        return exchange(q_bnsd, k_bmsd, v_bmsd, layout(q_bnsd.shape[2] * P, P), group)

    return mix


def trained_parameters(module) -> list:
    """What every rank has and trains; a parameter that no token of this rank reached has 0.

    Raises ValueError for experts that are spread over ranks: another rank has others.
    """
    spread = [
        name
        for name, part in module.named_modules()
        if isinstance(part, KeepsGroups) and hasattr(part, "experts")
    ]
    rule = "none: dtlib.parallelism.sum_gradients takes experts that are spread over ranks"
    require(not spread, "ContextParallel.sum_gradients", "a part that is spread", spread, rule)
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    return trained


def context_parallel(module, group, layout: Callable = layouts.zigzag, attention: str = "ring"):
    """`module` on shares of the sequence: see `ContextParallel`."""
    return ContextParallel(module, group, layout, attention)
