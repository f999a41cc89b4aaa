"""Tensor parallelism: every matrix of a layer divided among the ranks, by columns or by rows.

The nouns: a `Cut` says which part of a parameter a rank holds; the *stream* is what runs between
the blocks, and every rank has all of it (or, with sequence parallelism, the tokens that are its
own); `enter` leads from the stream into the work that the ranks divide, `leave` back.

A matrix here is W in Y = X W. torch stores its transpose: what we call the columns of W are the
rows of ``linear.weight``. Layers are made from undivided ones, so that all ranks hold parts of one
and the same initial model. Shapes: b sequences, s tokens, h the width of the stream.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from dtlib.foundations.require import require, require_divisor
from dtlib.parallelism import messages
from dtlib.parallelism.adjoint import (
    all_gather,
    copy_to_ranks,
    reduce_scatter,
    sum_over_ranks,
)
from dtlib.parallelism.messages import ranks_of

TOKENS = 1  # the dim of x_bsh that sequence parallelism divides


class Cut(NamedTuple):
    """Equal parts along `dim`, each held by `copies` ranks in a row; without `dim`, all by all.

    >>> Cut(dim=0).part(torch.arange(8), rank=1, P=4)
    tensor([2, 3])
    >>> Cut(dim=0, copies=2).part(torch.arange(8), rank=1, P=4)
    tensor([0, 1, 2, 3])
    """

    dim: int | None = None
    copies: int = 1

    def part(self, whole: torch.Tensor, rank: int, P: int) -> torch.Tensor:
        """What `rank` of `P` holds of a tensor. `P / copies` must divide it."""
        if self.dim is None:
            return whole.detach().clone()
        parts = whole.detach().chunk(P // self.copies, self.dim)
        return parts[rank // self.copies].clone(memory_format=torch.contiguous_format)

    def whole(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """The tensor of which the ranks hold these parts."""
        return parts[0].clone() if self.dim is None else torch.cat(parts[:: self.copies], self.dim)


def enter(x_bsh: torch.Tensor, group, sequence_parallel: bool = False) -> torch.Tensor:
    """From the stream to all tokens on every rank, each of which goes on with its own part.

    Nothing to send, and f's sum on the way back; with sequence parallelism an all-gather.
    """
    return all_gather(x_bsh, group, TOKENS) if sequence_parallel else copy_to_ranks(x_bsh, group)


def leave(partial_bsh: torch.Tensor, group, sequence_parallel: bool = False) -> torch.Tensor:
    """From the ranks' partial sums back to the stream: g's all-reduce, or a reduce-scatter."""
    if sequence_parallel:
        return reduce_scatter(partial_bsh, group, TOKENS)
    return sum_over_ranks(partial_bsh, group)


def sum_gradient(parameter: nn.Parameter | None, group) -> None:
    """From now on, add up the parameter's gradient over the ranks as soon as a rank has its share.

    For a parameter of which ranks hold copies that each see only a part of the work: norms and
    biases under sequence parallelism, shared key and value heads.
    """
    if parameter is not None and parameter.requires_grad:
        parameter.register_hook(lambda share: messages.all_reduce(share, group))


class ColumnParallelLinear(nn.Module):
    """This rank's columns of Y = X W + b: all of X goes in, the columns' part of Y comes out.

    Equation: X [W_0 | W_1] = [X W_0 | X W_1]; backwards dX = dY_0 W_0' + dY_1 W_1', a sum over
    the ranks, which `enter` makes.
    Arguments: `linear`, the undivided layer; `group`; `copies`, ranks in a row that hold the same
    columns, whose gradients are added over `copies_group`; `entered`, when the caller has done
    `enter` for several layers at once; `sequence_parallel`, when X comes divided by tokens.
    Raises ValueError when the ranks cannot hold equal parts. Source: Shoeybi et al. 2019.
    """

    def __init__(
        self,
        linear: nn.Linear,
        group,
        *,
        copies: int = 1,
        copies_group=None,
        entered: bool = False,
        sequence_parallel: bool = False,
    ):
        super().__init__()
        rank, P = ranks_of(group)
        columns = linear.out_features
        require_divisor("ColumnParallelLinear", "P", P // copies, "out_features", columns)
        self.group, self.cut = group, Cut(0, copies)
        self.entered, self.sequence_parallel = entered, sequence_parallel
        self.weight = _parameter(self.cut.part(linear.weight, rank, P), linear.weight)
        self.bias = None
        if linear.bias is not None:
            self.bias = _parameter(self.cut.part(linear.bias, rank, P), linear.bias)
        if copies > 1:
            for parameter in self.parameters():
                sum_gradient(parameter, copies_group)

    def forward(self, x_bsh: torch.Tensor) -> torch.Tensor:
        if not self.entered:
            x_bsh = enter(x_bsh, self.group, self.sequence_parallel)
        return F.linear(x_bsh, self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """This rank's rows of Y = X W + b: its columns of X go in, the whole Y comes out.

    Equation: [X_0 | X_1] [W_0 ; W_1] = X_0 W_0 + X_1 W_1, added by `leave`, and the bias once,
    after the sum. Backwards each rank has all of dY already.
    Arguments: `linear`, the undivided layer; `group`; `sequence_parallel`, when Y goes out divided
    by tokens (each rank then sees a part of the bias's gradient, which is added up).
    Raises ValueError when the ranks cannot hold equal parts. Source: Shoeybi et al. 2019.
    """

    def __init__(self, linear: nn.Linear, group, *, sequence_parallel: bool = False):
        super().__init__()
        rank, P = ranks_of(group)
        require_divisor("RowParallelLinear", "P", P, "in_features", linear.in_features)
        self.group, self.cut, self.sequence_parallel = group, Cut(1), sequence_parallel
        self.weight = _parameter(self.cut.part(linear.weight, rank, P), linear.weight)
        self.bias = None if linear.bias is None else _parameter(linear.bias, linear.bias)
        if sequence_parallel:
            sum_gradient(self.bias, group)

    def forward(self, x_bsi: torch.Tensor) -> torch.Tensor:
        y_bsh = leave(F.linear(x_bsi, self.weight), self.group, self.sequence_parallel)
        return y_bsh if self.bias is None else y_bsh + self.bias


class VocabParallelEmbedding(nn.Module):
    """This rank's words of the table: the rows of other words count as 0, and the sum has them all.

    Equation: a lookup is a product with a matrix of ones and zeros, and the table is divided by
    rows, so it is a row-parallel layer.
    Arguments: `embedding`, the undivided table; `group`; `sequence_parallel` as of a row-parallel
    layer. Raises ValueError when the ranks cannot hold equally many words, for a table with padding
    or a largest norm, and for a token that no rank has. Source: Shoeybi et al. 2019.
    """

    def __init__(self, embedding: nn.Embedding, group, *, sequence_parallel: bool = False):
        super().__init__()
        rank, P = ranks_of(group)
        self.words = embedding.num_embeddings
        for option in ("padding_idx", "max_norm"):
            value = getattr(embedding, option)
            require(value is None, "VocabParallelEmbedding", option, value, "None: a plain table")
        require_divisor("VocabParallelEmbedding", "P", P, "the vocabulary", self.words)
        self.group, self.cut, self.sequence_parallel = group, Cut(0), sequence_parallel
        self.weight = _parameter(self.cut.part(embedding.weight, rank, P), embedding.weight)
        self.first = rank * self.words // P

    def forward(self, tokens_bs: torch.Tensor) -> torch.Tensor:
        if tokens_bs.numel() and not 0 <= int(tokens_bs.min()) <= int(tokens_bs.max()) < self.words:
            raise ValueError(
                f"VocabParallelEmbedding: tokens are from {int(tokens_bs.min())} to "
                f"{int(tokens_bs.max())}, but must be from 0 to {self.words - 1}"
            )
        row, mine = own_words(tokens_bs, self.first, len(self.weight))
        x_bsh = F.embedding(row, self.weight) * mine[..., None]
        return leave(x_bsh, self.group, self.sequence_parallel)


def own_words(words: torch.Tensor, first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For each word its place among those of a rank (any, for another's), and whether it is one."""
    place = words - first
    mine = (place >= 0) & (place < count)
    return place.clamp(0, count - 1), mine


def copies_group_of(group, copies: int):
    """The ranks that hold the same part as this one, when each is held by `copies` in a row.

    All ranks of the group must call it. Returns None for one copy.
    """
    rank, _ = ranks_of(group)
    if copies == 1:
        return None
    first = rank // copies * copies
    members = dist.get_process_group_ranks(group)[first : first + copies]
    return dist.new_group(members, use_local_synchronization=True)


def _parameter(values: torch.Tensor, like: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(values.detach().clone(), requires_grad=like.requires_grad)
