"""Recomputation on tensor-parallel ranks: running a layer again repeats its sums, or it does not.

A tensor-parallel block adds over the ranks twice in its forward pass. Whoever runs all of it again
sends those sums again. A sum's own derivative needs nothing that was saved, so a piece that ends
*before* the sum can be run again without it; what is kept then is the input of each half.
"""

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from dtlib.formulas.require import require
from dtlib.memory.recompute.policy import checkpoint
from dtlib.parallelism.tensor.layers import leave


class RecomputedTensorBlock(nn.Module):
    """A `TensorParallelBlock` that is run again in its backward pass.

    Equation: with `keep_sums`, for both halves x + leave(checkpoint(partial sum, x)); without,
    checkpoint(block, x). Both have the gradients of the block, bit for bit.
    Arguments: `block`, without sequence parallelism; `keep_sums`, whether what the ranks have added
    up is kept, so that it is not added again: one more tensor of the stream for each layer.
    Raises ValueError for another block. Source: Korthikanti et al. 2023 count the repeated sums.
    """

    def __init__(self, block: nn.Module, keep_sums: bool):
        super().__init__()
        kind = type(block).__name__
        good = hasattr(block, "enter") and not block.sequence_parallel
        allowed = "a TensorParallelBlock without sequence parallelism"
        require(good, "RecomputedTensorBlock", "block", kind, allowed)
        self.block, self.keep_sums = block, keep_sums

    def forward(self, x_bsh: torch.Tensor, positions: torch.Tensor | None = None):
        block = self.block
        if not self.keep_sums:
            return checkpoint(block, x_bsh, positions)
        attend = partial(_partial_attention, block)
        x_bsh = x_bsh + _added(block.attention.out, checkpoint(attend, x_bsh, positions))
        feed = partial(_partial_feed_forward, block)
        return x_bsh + _added(block.feed_forward.down, checkpoint(feed, x_bsh))


def _partial_attention(block, x_bsh, positions):
    """This rank's share of the attention's output: what its heads add to it."""
    return _until_the_sum(
        block.attention, "out", block.enter(block.attention_norm(x_bsh)), positions
    )


def _partial_feed_forward(block, x_bsh):
    return _until_the_sum(block.feed_forward, "down", block.enter(block.feed_forward_norm(x_bsh)))


def _until_the_sum(module, name, *arguments):
    """Run a module whose last layer is row-parallel, up to where that layer would add."""
    last = getattr(module, name)
    forward = last.forward
    last.forward = lambda x: F.linear(x, last.weight)
    try:
        return module(*arguments)
    finally:
        last.forward = forward


def _added(last, partial_bsh):
    y_bsh = leave(partial_bsh, last.group, last.sequence_parallel)
    return y_bsh if last.bias is None else y_bsh + last.bias
