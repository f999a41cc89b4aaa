"""Tensor parallelism: every matrix of a layer divided among the ranks, by columns or by rows.

The nouns: a `Cut` says which part of a parameter a rank holds; the *stream* is what runs between
the blocks, and every rank has all of it (or, with sequence parallelism, the tokens that are its
own); `enter` leads from the stream into the work that the ranks divide, `leave` back.

A matrix here is W in Y = X W. torch stores its transpose: what we call the columns of W are the
rows of ``linear.weight``. Layers are made from undivided ones, so that all ranks hold parts of one
and the same initial model, or from their sizes, and then no rank ever holds a whole matrix.
Shapes: b sequences, s tokens, h the width of the stream.
"""

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from dtlib.formulas.require import require, require_divisor
from dtlib.parallelism.operators import messages
from dtlib.parallelism.operators.adjoint import (
    all_gather,
    copy_to_ranks,
    gather_slices,
    own_slice,
    reduce_scatter,
    sum_over_ranks,
)
from dtlib.parallelism.operators.groups import group_within
from dtlib.parallelism.operators.keeper import KeepsGroups
from dtlib.parallelism.tensor.cuts import Cut, Undivided
from dtlib.runtime.process_group import ranks_of

TOKENS = -2  # the dim of x_bsh, and of x_sh, that sequence parallelism divides


def enter(x_bsh: torch.Tensor, group, sequence_parallel: bool = False) -> torch.Tensor:
    """From the stream to all tokens on every rank, each of which goes on with its own part.

    Nothing to send, and f's sum on the way back; with sequence parallelism an all-gather of equally
    many tokens of each rank: x is (b, s / P, h), or (s / P, h) of one sequence.
    """
    if not sequence_parallel:
        return copy_to_ranks(x_bsh, group)
    _require_stream("enter", x_bsh)
    return all_gather(x_bsh, group, TOKENS)


def leave(partial_bsh: torch.Tensor, group, sequence_parallel: bool = False) -> torch.Tensor:
    """From the ranks' partial sums back to the stream: g's all-reduce, or a reduce-scatter.

    With sequence parallelism raises ValueError, before anything is sent, for what is not (b, s, h)
    or (s, h), and for s tokens that the ranks cannot share equally.
    """
    if not sequence_parallel:
        return sum_over_ranks(partial_bsh, group)
    _require_stream("leave", partial_bsh)
    tokens = partial_bsh.shape[TOKENS]
    require_divisor("sequence parallelism", "P", ranks_of(group)[1], "the tokens", tokens)
    return reduce_scatter(partial_bsh, group, TOKENS)


def sum_gradient(parameter: nn.Parameter | None, group) -> None:
    """From now on, add up the parameter's gradient over the ranks as soon as a rank has its share.

    For a single parameter of which ranks hold copies that each see only a part of the work, in code
    that cannot be changed to lead it through f, as `OnOwnTokens` does for a module. The hook is
    this parameter's: a copy of it, or another that takes its place, has none. It also acts when a
    frozen parameter is trained later.

    >>> norm = nn.LayerNorm(8)  # of a stream that is divided by tokens
    >>> for parameter in norm.parameters():
    ...     sum_gradient(parameter, group=None)  # here: the ranks that share the sequence
    """
    if parameter is None:
        return
    trained = parameter.requires_grad
    parameter.requires_grad_().register_hook(lambda share: messages.all_reduce(share, group))
    parameter.requires_grad_(trained)


class OnOwnTokens(KeepsGroups):
    """A module of which all ranks have copies, and which each runs on some of the tokens only.

    Equation: f in front of the parameters. Each rank uses the one vector differently, so the shares
    of its gradient are added, whoever runs the module, and after it was copied, loaded or frozen.
    For norms, and whatever else works token by token, on a stream that sequence parallelism
    divides: in a block of yours ``self.norm = OnOwnTokens(nn.LayerNorm(h), group)``.
    Arguments: `module`, whose parameters keep their names and are shared with it; `group`.
    Source: Korthikanti et al. 2023.
    """

    def __init__(self, module: nn.Module, group):
        super().__init__()
        self.group, self._inside = group, (module,)  # in a tuple: its names get no prefix
        for name, parameter in module.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        for name, child in module.named_children():
            self.add_module(name, child)

    def lead_in(self, parameter: nn.Parameter) -> torch.Tensor:
        """f: the vector that counts once becomes this rank's copy."""
        return copy_to_ranks(parameter, self.group)

    def forward(self, *inputs):
        copies = {name: self.lead_in(parameter) for name, parameter in self.named_parameters()}
        return functional_call(self._inside[0], copies, inputs)

    def extra_repr(self) -> str:
        return str(self._inside[0])


class DividedLayer(KeepsGroups):
    """A layer of which each rank of `group` has the part that `cut` says; the others' base."""

    divided = ("weight",)

    @property
    def pieces(self) -> dict[str, int]:
        """How many different pieces there are of each parameter that is cut, by name."""
        pieces = ranks_of(self.group)[1] // self.cut.copies
        return {name: pieces for name in self.divided if getattr(self, name) is not None}

    def share(self, what: str, size: int) -> str:
        """Which columns, rows or words this rank has, in words."""
        rank, P = ranks_of(self.group)
        own = self.cut.own(size, rank, P)
        return f"{what} {own.start} to {own.stop - 1} on rank {rank} of {P}"


class ColumnParallelLinear(DividedLayer):
    """This rank's columns of Y = X W + b: all of X goes in, the columns' part of Y comes out.

    Equation: X [W_0 | W_1] = [X W_0 | X W_1]; backwards dX = dY_0 W_0' + dY_1 W_1', a sum over
    the ranks, which `enter` makes.
    Arguments: the undivided layer and the group, ``ColumnParallelLinear(linear, group)``; or sizes
    as for torch's own, ``ColumnParallelLinear(in_features, out_features, bias=True, group=group)``
    with `dtype` and `device`, which draws the columns that `Undivided` says; `gather_output`, to
    make Y whole on every rank; `copies`, ranks in a row that hold the same columns, whose gradients
    are added over `copies_group`; `entered`, when the caller has done `enter` for several layers at
    once; `sequence_parallel`, when X comes divided by tokens.
    Raises ValueError when the ranks cannot hold equal parts. Source: Shoeybi et al. 2019.
    """

    divided = ("weight", "bias")

    def __init__(self, *layer, group=None, copies: int = 1, copies_group=None,
                 entered: bool = False, sequence_parallel: bool = False,
                 gather_output: bool = False, **sizes):  # fmt: skip
        super().__init__()
        whole = Undivided(nn.Linear, layer, group, **sizes)
        self.group, P = whole.group, whole.P
        self.in_features, self.out_features = whole.layer.in_features, whole.layer.out_features
        owner = "ColumnParallelLinear"
        require_divisor(owner, "copies", copies, "P", P)
        require_divisor(owner, "P", P // copies, "out_features", self.out_features)
        alone = copies == 1 or not gather_output
        require(alone, owner, "gather_output", gather_output, "False where ranks hold copies")
        if copies > 1 and copies_group is None:
            copies_group = copies_group_of(self.group, copies)
        self.cut, self.copies_group = Cut(0, copies), copies_group
        self.entered, self.sequence_parallel = entered, sequence_parallel
        self.gather_output = gather_output
        self.weight = whole.parameter("weight", self.cut)
        self.bias = whole.parameter("bias", self.cut)

    def forward(self, x_bsh: torch.Tensor) -> torch.Tensor:
        if not self.entered:
            x_bsh = enter(x_bsh, self.group, self.sequence_parallel)
        weight, bias = self.weight, self.bias
        if self.cut.copies > 1:
            weight, bias = (_through_f(p, self.copies_group) for p in (weight, bias))
        y_bsp = F.linear(x_bsh, weight, bias)
        return gather_slices(y_bsp, self.group, -1) if self.gather_output else y_bsp

    def extra_repr(self) -> str:
        return f"{_sizes(self)}, {self.share('columns', self.out_features)}"


class RowParallelLinear(DividedLayer):
    """This rank's rows of Y = X W + b: its columns of X go in, the whole Y comes out.

    Equation: [X_0 | X_1] [W_0 ; W_1] = X_0 W_0 + X_1 W_1, added by `leave`, and the bias once,
    after the sum. Backwards each rank has all of dY already.
    Arguments: the layer, or its sizes, and the group, as for `ColumnParallelLinear`;
    `input_is_parallel`, False when X comes whole and the rank is to take its columns of it;
    `sequence_parallel`, when Y goes out divided by tokens (each rank then sees a part of the bias's
    gradient, which is added up).
    Raises ValueError when the ranks cannot hold equal parts. Source: Shoeybi et al. 2019.
    """

    def __init__(self, *layer, group=None, sequence_parallel: bool = False,
                 input_is_parallel: bool = True, **sizes):  # fmt: skip
        super().__init__()
        whole = Undivided(nn.Linear, layer, group, **sizes)
        self.group, P = whole.group, whole.P
        self.in_features, self.out_features = whole.layer.in_features, whole.layer.out_features
        require_divisor("RowParallelLinear", "P", P, "in_features", self.in_features)
        self.cut, self.sequence_parallel = Cut(1), sequence_parallel
        self.input_is_parallel = input_is_parallel
        self.weight = whole.parameter("weight", self.cut)
        self.bias = whole.parameter("bias", Cut())

    def forward(self, x_bsi: torch.Tensor) -> torch.Tensor:
        if not self.input_is_parallel:
            x_bsi = own_slice(x_bsi, self.group, -1)
        y_bsh = leave(F.linear(x_bsi, self.weight), self.group, self.sequence_parallel)
        if self.bias is None:
            return y_bsh
        bias = _through_f(self.bias, self.group) if self.sequence_parallel else self.bias
        return y_bsh + bias.to(y_bsh.dtype)  # under autocast the product has the fewer bits

    def extra_repr(self) -> str:
        return f"{_sizes(self)}, {self.share('rows', self.in_features)}"


class VocabParallelEmbedding(DividedLayer):
    """This rank's words of the table: the rows of other words count as 0, and the sum has them all.

    Equation: a lookup is a product with a matrix of ones and zeros, and the table is divided by
    rows, so it is a row-parallel layer.
    Arguments: the undivided table and the group, or its sizes as for torch's own,
    ``VocabParallelEmbedding(num_embeddings, embedding_dim, group=group)`` with `dtype` and
    `device`; `sequence_parallel` as of a row-parallel layer.
    Raises ValueError when the ranks cannot hold equally many words, for a table with padding
    or a largest norm, and for a token that no rank has. Source: Shoeybi et al. 2019.
    """

    def __init__(self, *table, group=None, sequence_parallel: bool = False, **sizes):
        super().__init__()
        whole = Undivided(nn.Embedding, table, group, **sizes)
        self.group, P = whole.group, whole.P
        self.num_embeddings, self.embedding_dim = whole.layer.weight.shape
        for option in ("padding_idx", "max_norm"):
            value = getattr(whole.layer, option)
            require(value is None, "VocabParallelEmbedding", option, value, "None: a plain table")
        require_divisor("VocabParallelEmbedding", "P", P, "the vocabulary", self.num_embeddings)
        self.cut, self.sequence_parallel = Cut(0), sequence_parallel
        self.weight = whole.parameter("weight", self.cut)
        self.words, self.first = self.num_embeddings, whole.rank * len(self.weight)

    def forward(self, tokens_bs: torch.Tensor) -> torch.Tensor:
        if tokens_bs.numel() and not 0 <= int(tokens_bs.min()) <= int(tokens_bs.max()) < self.words:
            raise ValueError(
                f"VocabParallelEmbedding: tokens are from {int(tokens_bs.min())} to "
                f"{int(tokens_bs.max())}, but must be from 0 to {self.words - 1}"
            )
        row, mine = own_words(tokens_bs, self.first, len(self.weight))
        x_bsh = F.embedding(row, self.weight) * mine[..., None]
        return leave(x_bsh, self.group, self.sequence_parallel)

    def extra_repr(self) -> str:
        share = self.share("words", self.num_embeddings)
        return f"{self.num_embeddings}, {self.embedding_dim}, {share}"


def own_words(words: torch.Tensor, first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For each word its place among those of a rank (any, for another's), and whether it is one."""
    place = words - first
    mine = (place >= 0) & (place < count)
    return place.clamp(0, count - 1), mine


def copies_group_of(group, copies: int):
    """The ranks that hold the same part as this one, when each is held by `copies` in a row.

    All ranks of the group must call it, and no others need to. Returns None for one copy.
    """
    rank, P = ranks_of(group)
    if copies == 1:
        return None
    if copies == P:
        return group
    first = rank // copies * copies
    return group_within(group, range(first, first + copies))


def _through_f(parameter: nn.Parameter | None, group) -> torch.Tensor | None:
    return None if parameter is None else copy_to_ranks(parameter, group)


def _require_stream(owner: str, x: torch.Tensor) -> None:
    shape = tuple(x.shape)
    allowed = "(sequences, tokens, width) or (tokens, width) with sequence parallelism"
    require(len(shape) in (2, 3), owner, "the shape of the stream", shape, allowed)


def _sizes(layer) -> str:
    return (
        f"in_features={layer.in_features}, out_features={layer.out_features}, "
        f"bias={layer.bias is not None}"
    )
