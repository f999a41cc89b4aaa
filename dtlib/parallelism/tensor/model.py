"""A whole model by tensor parallelism: blocks whose matrices are divided, and their state dicts.

Heads are column blocks, so a rank's share of attention is attention with fewer heads, and its share
of a feed-forward block one with less width: the classes are those of `dtlib.models`, and only their
matrices are replaced. Parameters keep their names.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy

import torch
from torch import nn

from dtlib.formulas.require import require, require_divisor
from dtlib.models.gpt import check_tokens
from dtlib.models.protocols import (
    DecoderBlock,
    DecoderModel,
    HeadedAttention,
    WidenedFeedForward,
    parts_of,
    require_parts,
)
from dtlib.parallelism.operators.keeper import KeepsGroups
from dtlib.parallelism.tensor.cuts import Cut
from dtlib.parallelism.tensor.layers import (
    ColumnParallelLinear,
    OnOwnTokens,
    RowParallelLinear,
    VocabParallelEmbedding,
    copies_group_of,
    enter,
)
from dtlib.runtime.process_group import ranks_of

_BY_COLUMNS, _BY_ROWS, _WHOLE = Cut(0), Cut(1), Cut()
_CUTS = {
    "embedding": _BY_COLUMNS, "head": _BY_COLUMNS, "query": _BY_COLUMNS, "up": _BY_COLUMNS,
    "gate": _BY_COLUMNS, "out": _BY_ROWS, "down": _BY_ROWS,
}  # fmt: skip


class TensorParallelBlock(KeepsGroups):
    """One layer on one of P ranks: two all-reduces forward, two backward.

    Equation: x + leave(attention(enter(norm(x)))), then the same with the feed-forward block; with
    sequence parallelism x and the norms have this rank's tokens only, `enter` gathers all of them
    and `leave` scatters. The gradients of norms and of the biases that follow `leave` are then
    shares, which are added over the ranks.
    Arguments: `block`, the undivided `Block`; `group`; `sequence_parallel`; `copies_group`, the
    ranks that share this one's key and value heads, where a caller has it already; `share`, what
    makes this rank's share of the feed-forward block, by default `share_of_feed_forward`.
    Raises ValueError for heads, key heads or widths that the ranks cannot share equally; TypeError
    for a block that lacks a part, as one with experts does (chapter 18 divides those).
    Source: Shoeybi et al. 2019; Korthikanti et al. 2023.
    """

    def __init__(self, block: nn.Module, group, sequence_parallel: bool = False, copies_group=None,
                 share: Callable | None = None):  # fmt: skip
        super().__init__()
        share = share or share_of_feed_forward
        require_parts("TensorParallelBlock", DecoderBlock, block, "block")
        self.group, self.sequence_parallel = group, sequence_parallel
        self.attention_norm = on_stream(block.attention_norm, group, sequence_parallel)
        self.attention = share_of_attention(block.attention, group, sequence_parallel, copies_group)
        self.feed_forward_norm = on_stream(block.feed_forward_norm, group, sequence_parallel)
        self.feed_forward = share(block.feed_forward, group, sequence_parallel)

    def forward(self, x_bsh: torch.Tensor, positions: torch.Tensor | None = None):
        """`positions` are those of all tokens, also where x has only some of them."""
        x_bsh = x_bsh + self.attention(self.enter(self.attention_norm(x_bsh)), positions)
        return x_bsh + self.feed(self.feed_forward_norm(x_bsh))

    def feed(self, x_bsh: torch.Tensor) -> torch.Tensor:
        """The second half of the block, without its norm: from the stream to the stream."""
        return self.feed_forward(self.enter(x_bsh))

    def enter(self, x_bsh: torch.Tensor) -> torch.Tensor:
        """From the stream to all tokens, for work that the ranks divide: once for each half."""
        return enter(x_bsh, self.group, self.sequence_parallel)


def on_stream(module: nn.Module, group, sequence_parallel: bool = False) -> nn.Module:
    """A copy of what stands in the stream: every rank has all of it, for all tokens or its own."""
    copied = deepcopy(module)
    return OnOwnTokens(copied, group) if sequence_parallel else copied


def share_of_attention(attention, group, sequence_parallel: bool = False, copies_group=None):
    """This rank's heads. Where there are fewer key heads than ranks, ranks in a row share one."""
    _, P = ranks_of(group)
    owner = "TensorParallelBlock"
    _require_only(attention, HeadedAttention, "attention")
    require_divisor(owner, "P", P, "heads", attention.heads)
    copies = key_copies(attention.kv_heads, P)
    if copies > 1 and copies_group is None:
        copies_group = copies_group_of(group, copies)
    share = deepcopy(attention)
    share.heads, share.kv_heads = attention.heads // P, max(1, attention.kv_heads // P)
    shared = {"copies": copies, "copies_group": copies_group}
    share.query = ColumnParallelLinear(attention.query, group, entered=True)
    share.key = ColumnParallelLinear(attention.key, group, entered=True, **shared)
    share.value = ColumnParallelLinear(attention.value, group, entered=True, **shared)
    share.out = RowParallelLinear(attention.out, group, sequence_parallel=sequence_parallel)
    return share


def share_of_feed_forward(feed_forward, group, sequence_parallel: bool = False):
    """This rank's columns of the matrix that goes up, and the rows of the one that goes down."""
    _require_only(feed_forward, WidenedFeedForward, "feed_forward", "gate")
    _, P = ranks_of(group)
    width = feed_forward.up.out_features
    require_divisor("TensorParallelBlock", "P", P, "the feed-forward width", width)
    share = deepcopy(feed_forward)
    for name in ("gate", "up"):
        if hasattr(share, name):
            matrix = getattr(feed_forward, name)
            setattr(share, name, ColumnParallelLinear(matrix, group, entered=True))
    share.down = RowParallelLinear(feed_forward.down, group, sequence_parallel=sequence_parallel)
    return share


def _require_only(module, protocol, name: str, *others: str) -> None:
    """It has the protocol's parts, and no parameters elsewhere: each rank would use those alone."""
    require_parts("TensorParallelBlock", protocol, module, name)
    parts = {*parts_of(protocol), *others}
    unknown = [n for n, _ in module.named_parameters() if n.split(".")[0] not in parts]
    allowed = f"none outside of {', '.join(sorted(parts))}"
    require(not unknown, "TensorParallelBlock", f"parameters of {name}", unknown, allowed)


class TensorParallelGPT(KeepsGroups):
    """What `tensor_parallel` makes of a GPT. Its logits are this rank's words: (b, s, v / P)."""

    def __init__(self, model, group, sequence_parallel: bool = False):
        super().__init__()
        spec, self.group, self.sequence_parallel = model.spec, group, sequence_parallel
        self.spec = spec
        divided = {"sequence_parallel": sequence_parallel}
        self.embedding = VocabParallelEmbedding(model.embedding, group, **divided)
        if spec.positions:
            table = model.position_embedding
            self.position_embedding = on_stream(table, group, sequence_parallel)
        copies = copies_group_of(group, key_copies(spec.kv_heads, ranks_of(group)[1]))
        self.blocks = nn.ModuleList(
            TensorParallelBlock(block, group, sequence_parallel, copies) for block in model.blocks
        )
        self.norm = on_stream(model.norm, group, sequence_parallel)
        self.head = ColumnParallelLinear(model.head, group, **divided)
        if model.head.weight is model.embedding.weight:
            self.head.weight = self.embedding.weight

    def forward(self, tokens_bs: torch.Tensor, positions: torch.Tensor | None = None):
        """Logits of this rank's words, for all tokens; every rank gets the same tokens."""
        if positions is None:
            positions = torch.arange(tokens_bs.shape[-1], device=tokens_bs.device)
        check_tokens(self.spec, tokens_bs, positions)
        x_bsh = self.embedding(tokens_bs)
        if self.spec.positions:
            last, rows = int(positions.max()), self.spec.positions
            allowed = f"below {rows}: the table has {rows} rows"
            require(last < rows, "tensor_parallel", "the last position", last, allowed)
            x_bsh = x_bsh + self.position_embedding(self._own_tokens(positions))
        for block in self.blocks:
            x_bsh = block(x_bsh, positions)
        return self.head(self.norm(x_bsh))

    def _own_tokens(self, positions):
        rank, P = ranks_of(self.group)
        return positions.chunk(P)[rank] if self.sequence_parallel else positions


def tensor_parallel(model, group, sequence_parallel: bool = False) -> TensorParallelGPT:
    """A GPT whose matrices, heads and words are divided among the ranks of a group.

    Equation: every matrix that widens is cut by columns, every one that narrows by rows; the table
    of words and the head by words.
    Arguments: `model`, a `GPT` without experts, or another `DecoderModel` whose blocks work alike,
    the same on every rank, and left as it is; `group`;
    `sequence_parallel`, to divide also what lies between the blocks, by tokens.
    Returns a module with the model's parameter names. Its forward gives this rank's part of the
    logits, for `vocab_parallel_cross_entropy`; `gather_slices` makes them whole.
    Raises TypeError for a model that lacks a part, by name; ValueError for parameters that it would
    not divide, and for what the ranks cannot share equally: heads, key heads, width of the
    feed-forward block, words, and, when it runs, tokens.
    Source: Shoeybi et al. 2019; Korthikanti et al. 2023 for sequence parallelism.
    """
    require_parts("tensor_parallel", DecoderModel, model)
    require(model.spec.moe is None, "tensor_parallel", "moe", model.spec.moe, "None (chapter 18)")
    require_divisor("tensor_parallel", "P", ranks_of(group)[1], "heads", model.spec.heads)
    divided = TensorParallelGPT(model, group, sequence_parallel)
    names, own = ({name for name, _ in m.named_parameters()} for m in (model, divided))
    allowed = "none: it would leave them out, or keep apart what the model shares"
    require(
        names == own, "tensor_parallel", "parameters beyond a GPT's", sorted(names ^ own), allowed
    )
    return divided


def key_copies(kv_heads: int, P: int) -> int:
    """On how many ranks each key head lies: one, unless there are more ranks than key heads.

    >>> [key_copies(8, P) for P in (2, 8, 16)]
    [1, 1, 2]
    """
    good = max(P, kv_heads) % min(P, kv_heads) == 0
    allowed = f"a divisor or a multiple of kv_heads, which is {kv_heads}"
    require(good, "tensor parallelism", "P", P, allowed)
    return max(1, P // kv_heads)


def cut_of(name: str, kv_heads: int, P: int) -> Cut:
    """How the parameter of this name in a GPT lies on P ranks.

    >>> cut_of("blocks.0.feed_forward.down.weight", kv_heads=8, P=4)
    Cut(dim=1, copies=1)
    >>> cut_of("blocks.0.attention.key.bias", kv_heads=2, P=4)
    Cut(dim=0, copies=2)
    """
    layer, kind = name.split(".")[-2:]
    if layer in ("key", "value"):
        return Cut(0, key_copies(kv_heads, P))
    cut = _CUTS.get(layer, _WHOLE)
    return _WHOLE if kind == "bias" and cut is _BY_ROWS else cut


def shard_state(state: Mapping[str, torch.Tensor], spec, rank: int, P: int) -> dict:
    """The state dict of one of P ranks, from that of the whole model. Bits are only copied."""
    return {name: cut_of(name, spec.kv_heads, P).part(t, rank, P) for name, t in state.items()}


def merge_states(states: Sequence[Mapping[str, torch.Tensor]], spec) -> dict:
    """The state dict of the whole model, from those of all ranks in order.

    Raises ValueError for states of other names, and for a parameter of which ranks hold copies that
    differ by a single bit: an update that one of them missed.
    """
    P, whole = len(states), {}
    for rank, state in enumerate(states):
        other = sorted(set(state) ^ set(states[0]))
        require(not other, "merge_states", f"names of rank {rank} alone, or not", other, "none")
    for name in states[0]:
        cut, parts = cut_of(name, spec.kv_heads, P), [state[name] for state in states]
        copies = P if cut.dim is None else cut.copies
        for rank, part in enumerate(parts):
            first = rank // copies * copies
            if not torch.equal(part, parts[first]):
                raise ValueError(
                    f"merge_states: {name} differs between ranks {first} and {rank}, "
                    "but must be the same on both: they hold copies of it"
                )
        whole[name] = cut.whole(parts)
    return whole
