"""A GPT cut into stages: the same blocks, in the same order, in several modules."""

from collections.abc import Sequence

import torch
from torch import nn

from dtlib.models import GPT
from dtlib.models.protocols import DecoderModel, require_parts


class GPTStage(nn.Module):
    """The layers ``first`` to ``last - 1`` of a model, with its embedding before the first layer
    and its norm and head after the last.

    The parameters are the model's own, under the names that they have there. ``tied`` names those
    that other stages use too, each with the numbers of all stages that do: where these lie on
    different ranks, `run` adds their gradients.
    """

    def __init__(self, model: GPT, first: int, last: int):
        super().__init__()
        self.tied: dict[str, tuple[int, ...]] = {}
        self.spec = model.spec
        self.blocks = nn.ModuleDict({str(i): model.blocks[i] for i in range(first, last)})
        self.embeds, self.ends = first == 0, last == len(model.blocks)
        if self.embeds:
            self.embedding = model.embedding
            if model.spec.positions:
                self.position_embedding = model.position_embedding
        if self.ends:
            self.norm, self.head = model.norm, model.head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(x.shape[1], device=x.device)
        if self.embeds:
            x = GPT.embed(self, x, positions)
        for block in self.blocks.values():
            x = block(x, positions)
        return self.head(self.norm(x)) if self.ends else x

    def boundary(self, tokens_bs: torch.Tensor) -> tuple[int, ...]:
        """The shape of what one stage hands to the next for these tokens."""
        return (*tokens_bs.shape, self.spec.hidden)


def stages_of(model: GPT, n: int, layers: Sequence[int] | None = None) -> list[GPTStage]:
    """A model cut into ``n`` stages: their composition is the model.

    Equation: f = f_(n-1) ∘ ... ∘ f_0; composition is associative, so it may be cut anywhere.
    Arguments: ``model``; ``n`` stages; ``layers`` of each stage (None: equally many). The stages
    share the model's parameters, so gradients of the stages are gradients of the model.
    The embedding of a tied model is also its head: the first stage and the last both have it, and
    say so in their ``tied``.
    Returns the stages, in order. Raises ValueError for cuts that do not add up and for a stage
    without a layer, TypeError for a model that is no `DecoderModel`. Source: Huang et al. 2019.

    >>> from dtlib.foundations import TransformerSpec
    >>> model = GPT(TransformerSpec("tiny", layers=4, hidden=8, heads=2, vocab=11))
    >>> [list(stage.blocks) for stage in stages_of(model, 2)]
    [['0', '1'], ['2', '3']]
    >>> tokens = torch.tensor([[1, 2, 3]])
    >>> first, last = stages_of(model, 2, layers=[1, 3])
    >>> torch.equal(last(first(tokens)), model(tokens))
    True
    """
    require_parts("stages_of", DecoderModel, model, "model")
    total = len(model.blocks)
    if not 1 <= n <= total:
        raise ValueError(f"n must be from 1 to the model's {total} layers; got n = {n} stages")
    if layers is None:
        if total % n:
            raise ValueError(
                f"n must divide the model's {total} layers, or layers must say how many each stage "
                f"has; got n = {n}"
            )
        layers = [total // n] * n
    if len(layers) != n or min(layers) < 1 or sum(layers) != total:
        raise ValueError(
            f"layers must be n = {n} numbers of at least 1 that add up to {total}; "
            f"got {list(layers)}"
        )
    ends = [sum(layers[: k + 1]) for k in range(n)]
    stages = [GPTStage(model, end - count, end) for end, count in zip(ends, layers, strict=True)]
    if model.spec.tied and n > 1:
        stages[0].tied = {"embedding.weight": (0, n - 1)}
        stages[-1].tied = {"head.weight": (0, n - 1)}
    return stages
