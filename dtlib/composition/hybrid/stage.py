"""A stretch of a model's layers, of which a rank has its part: what a pipeline's stage is here."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import nn

from dtlib.composition.hybrid.blocks import HybridBlock
from dtlib.composition.hybrid.places import Places
from dtlib.formulas.require import require
from dtlib.memory.recompute.policy import checkpoint
from dtlib.models.gpt import check_tokens
from dtlib.parallelism.operators.keeper import KeepsGroups
from dtlib.parallelism.tensor.layers import ColumnParallelLinear, VocabParallelEmbedding
from dtlib.parallelism.tensor.model import on_stream
from dtlib.runtime.process_group import ranks_of


class HybridStage(KeepsGroups):
    """This rank's part of the layers `first` to `last - 1`, with embedding and head at the ends.

    Arguments: `model`, the undivided `GPT`; `first` and `last`; `places`, and `exchange`, the
    function of tokens and the name of the attention, both as of `HybridBlock`.
    Parameters have the names that they have in the model; `tied` as of `GPTStage`.
    """

    def __init__(self, model, first: int, last: int, places: Places, exchange: tuple):
        super().__init__()
        spec, group, divided = model.spec, places.tp, places.layout.sequence_parallel
        self.spec, self.group, self.sequence_parallel = spec, group, divided
        self.tied: dict[str, tuple[int, ...]] = {}
        self.segment = places.layout.segment
        self.embeds, self.ends = first == 0, last == len(model.blocks)
        self.blocks = nn.ModuleDict(
            {str(i): HybridBlock(model.blocks[i], places, *exchange) for i in range(first, last)}
        )
        if self.embeds:
            self.embedding = VocabParallelEmbedding(
                model.embedding, group, sequence_parallel=divided
            )
            if spec.positions:
                self.position_embedding = on_stream(model.position_embedding, group, divided)
        if self.ends:
            self.norm = on_stream(model.norm, group, divided)
            self.head = ColumnParallelLinear(model.head, group, sequence_parallel=divided)

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Tokens or the stream before it, to the stream or to logits of this rank's words."""
        if self.embeds:
            x = self.embed(x, positions)
        blocks, run = list(self.blocks.values()), _through if self.segment == 1 else _again
        for first in range(0, len(blocks), self.segment):
            x = run(blocks[first : first + self.segment], x, positions)
        return self.head(self.norm(x)) if self.ends else x

    def embed(self, tokens_bs: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """What enters the first layer: of all tokens of this rank of cp, or of its own of tp."""
        check_tokens(self.spec, tokens_bs, positions)
        x_bsh = self.embedding(tokens_bs)
        if not self.spec.positions:
            return x_bsh
        rank, P = ranks_of(self.group)
        own = positions.chunk(P)[rank] if self.sequence_parallel else positions
        return x_bsh + self.position_embedding(own)


def _through(blocks: Sequence[nn.Module], x: torch.Tensor, positions: torch.Tensor):
    for block in blocks:
        x = block(x, positions)
    return x


def _again(blocks: Sequence[nn.Module], x: torch.Tensor, positions: torch.Tensor):
    """Of several layers that are run again, the input of the first is kept."""
    return checkpoint(partial(_through, blocks), x, positions)


def hybrid_stages(model, layers: Sequence[int], own: Sequence[int], places, exchange) -> dict:
    """The stages that this rank has, by number, of a model cut into stretches of `layers`.

    A tied table is in the first stage and the last: on one rank it is one parameter, on several
    both say so in their `tied`. Raises ValueError for numbers that do not add up to the model's.
    """
    total = len(model.blocks)
    require(sum(layers) == total, "parallelize", "layers of the stages", layers, f"{total} in all")
    ends = [sum(layers[: s + 1]) for s in range(len(layers))]
    stages = {s: HybridStage(model, ends[s] - layers[s], ends[s], places, exchange) for s in own}
    if model.spec.tied:
        _tie(stages, len(layers) - 1)
    return stages


def _tie(stages: dict[int, HybridStage], last: int) -> None:
    if 0 in stages and last in stages:
        stages[last].head.weight = stages[0].embedding.weight
    if last > 0 and 0 in stages:
        stages[0].tied = {"embedding.weight": (0, last)}
    if last > 0 and last in stages:
        stages[last].tied = {"head.weight": (0, last)}
