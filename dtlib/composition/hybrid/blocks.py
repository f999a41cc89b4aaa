"""One layer with its matrices divided along tp, its tokens along cp, and its experts.

A layer of chapter 15 whose attention exchanges tokens as in chapter 17, and whose experts, where it
has any, are those of chapter 18. Only what is new where they meet is written here.

An expert's matrices are divided along tp as those of a dense layer. Tokens enter that work once for
all experts, and the ranks of tp must choose the same experts: the router's scores are computed on
the stream, of which each rank of tp has the same tokens or (with sequence parallelism) its own, and
are then whole as a *replicated* tensor, which counts once, unlike the tokens that enter.
"""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import torch
from torch import nn

from dtlib.composition.hybrid.places import Places
from dtlib.layout import Layout
from dtlib.memory.recompute.policy import checkpoint
from dtlib.models.protocols import ExpertMixture
from dtlib.parallelism.expert.layer import MoELayer, experts_per_rank
from dtlib.parallelism.operators.adjoint import gather_slices, own_slice
from dtlib.parallelism.sequence.model import exchanging
from dtlib.parallelism.tensor.layers import TOKENS
from dtlib.parallelism.tensor.model import TensorParallelBlock, on_stream, share_of_feed_forward
from dtlib.runtime.process_group import ranks_of


class HybridBlock(TensorParallelBlock):
    """This rank's part of a layer, as a layout says.

    Arguments: `block`, the undivided one; `places`; `tokens`, a function of (seq, P) that says
    which tokens each rank of cp has, as in chapter 17; `attention`, how they are exchanged, a name
    of `ATTENTIONS`.
    Parameters keep their names. Raises as `TensorParallelBlock` and `MoELayer` do.
    """

    def __init__(self, block: nn.Module, places: Places, tokens: Callable, attention: str):
        layout, share = places.layout, partial(share_of_second_half, places=places)
        super().__init__(block, places.tp, layout.sequence_parallel, places.copies, share)
        if layout.cp > 1:
            self.attention.mix = exchanging(attention, tokens, places.cp)
        if layout.recompute == "selective":
            self.attention.mix = partial(checkpoint, self.attention.mix)
        self.run = how_to_run(layout)

    def forward(self, x_bsh: torch.Tensor, positions: torch.Tensor):
        """The layer; with recomputation its tape is made when the backward pass needs it."""
        return self.run(super().forward, x_bsh, positions)

    def feed(self, x_bsh: torch.Tensor) -> torch.Tensor:
        if not isinstance(self.feed_forward, MoELayer):
            return super().feed(x_bsh)
        scores_bse = self.feed_forward.router(x_bsh)
        if self.sequence_parallel:
            scores_bse = gather_slices(scores_bse, self.group, TOKENS)
        y_bsh = self.feed_forward(self.enter(x_bsh), scores_bse)
        return own_slice(y_bsh, self.group, TOKENS) if self.sequence_parallel else y_bsh


def share_of_second_half(feed_forward: nn.Module, group, sequence_parallel: bool, places: Places):
    """A dense one is divided along tp; of a mixture this rank has some experts, so divided."""
    if not isinstance(feed_forward, ExpertMixture):
        return share_of_feed_forward(feed_forward, group, sequence_parallel)
    own = experts_per_rank(len(feed_forward.experts), places.experts)
    first = ranks_of(places.experts)[0] * own
    experts = {
        number: share_of_feed_forward(feed_forward.experts[number], group)
        for number in range(first, first + own)
    }
    mixture = SimpleNamespace(
        router=on_stream(feed_forward.router, group, sequence_parallel),
        experts=[experts.get(number) for number in range(len(feed_forward.experts))],
        active=feed_forward.active,
        shared=nn.ModuleList(share_of_feed_forward(e, group) for e in feed_forward.shared),
    )
    return MoELayer(mixture, places.experts)


def how_to_run(layout: Layout) -> Callable:
    """What runs a layer: plainly, or so that of all that it makes only its input is kept."""
    alone = layout.recompute == "full" and layout.segment == 1  # else `HybridStage` runs several
    return checkpoint if alone else _plainly


def _plainly(function: Callable, *arguments):
    return function(*arguments)
