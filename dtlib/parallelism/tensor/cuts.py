"""Which part of a layer a rank holds, cut from a layer that exists or drawn in its place.

The nouns: a `Cut` says which part of a tensor a rank has; `Undivided` is the layer whose parts the
ranks have, and which need not exist anywhere. Torch stores a matrix of the text transposed: what
we call its columns are rows here.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from math import prod, sqrt
from typing import NamedTuple

import torch
from torch import nn

from dtlib.formulas.require import require, require_divisor
from dtlib.runtime.process_group import ranks_of, told

RUN = 2**20  # numbers that are drawn at once


class Cut(NamedTuple):
    """Equal parts along `dim`, each held by `copies` ranks in a row; without `dim`, all by all.

    >>> Cut(dim=0).part(torch.arange(8), rank=1, P=4)
    tensor([2, 3])
    >>> Cut(dim=0, copies=2).part(torch.arange(8), rank=1, P=4)
    tensor([0, 1, 2, 3])
    """

    dim: int | None = None
    copies: int = 1

    def own(self, size: int, rank: int, P: int) -> slice:
        """The numbers that `rank` of `P` has of `size` along `dim`: `P / copies` must divide it."""
        require_divisor("Cut", "copies", self.copies, "P", P)
        require_divisor("Cut", "the number of parts", P // self.copies, "the size", size)
        width = size * self.copies // P
        return slice(rank // self.copies * width, (rank // self.copies + 1) * width)

    def part(self, whole: torch.Tensor, rank: int, P: int) -> torch.Tensor:
        """What `rank` of `P` holds of a tensor, in memory of its own."""
        if self.dim is None:
            return whole.detach().clone()
        own = self.own(whole.shape[self.dim], rank, P)
        part = whole.detach().narrow(self.dim, own.start, own.stop - own.start)
        return part.clone(memory_format=torch.contiguous_format)

    def whole(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """The tensor of which the ranks hold these parts."""
        return parts[0].clone() if self.dim is None else torch.cat(parts[:: self.copies], self.dim)


class Undivided:
    """The layer that ranks divide: one that exists, or torch's own of some sizes, yet to be drawn.

    Equation: torch draws a matrix row by row, so rows a to b are what is drawn after a rows. Every
    rank draws all, a run of rows at a time, and keeps its part: the ranks together hold, to the
    bit, what `kind(*given)` holds in one process on a CPU that starts from the same state of
    torch's generator, and leave the generator as it does.
    Arguments: `kind`, `nn.Linear` or `nn.Embedding`; `given`, such a layer, which the group may
    follow, or the sizes; `group`; `options` as of `kind`: sizes by name, `bias`, `dtype`, `device`.
    Raises ValueError for options of a layer that exists, and for one that does more than `kind`
    does with its weight and bias (an adapter, a hook, a weight that is computed), which parts of
    those would not do; and, on all ranks, when they would draw from different states.
    """

    def __init__(self, kind: type[nn.Module], given: tuple, group, **options):
        given += tuple(options.pop(name) for name in ("linear", "embedding") if name in options)
        self.exists = any(isinstance(value, nn.Module) for value in given)
        if self.exists and group is None:
            *given, group = given
        self.group, (self.rank, self.P) = group, ranks_of(group)
        if self.exists:
            require(not options, kind.__name__, "options", options, "none: the layer has its own")
            self.layer = given[0]
            allowed = f"a plain {kind.__name__}: nothing but its weight and bias would be divided"
            require(_is_plain(self.layer, kind), "a divided layer", "layer", self.layer, allowed)
            return
        self.device = torch.empty(0, device=options.get("device")).device
        self.layer = kind(*given, **options | {"device": "meta"})
        self._draw = _INITIAL[kind]
        if self.device.type != "meta":
            _require_same_state(kind.__name__, group)

    def parameter(self, name: str, cut: Cut) -> nn.Parameter | None:
        """The rank's part of a parameter; None if the layer has none of this name.

        To be called for the parameters in the order in which torch draws them.
        """
        whole = getattr(self.layer, name)
        if whole is None:
            return None
        drawn = not self.exists and self.device.type != "meta"
        part = self._drawn(whole, cut) if drawn else cut.part(whole, self.rank, self.P)
        return nn.Parameter(part, requires_grad=whole.requires_grad)

    def _drawn(self, whole: torch.Tensor, cut: Cut) -> torch.Tensor:
        part = torch.empty_like(cut.part(whole, self.rank, self.P), device=self.device)
        own = cut.own(len(whole), self.rank, self.P) if cut.dim == 0 else slice(0, len(whole))
        for first, run in self._runs(whole):
            among = slice(max(first, own.start), min(first + len(run), own.stop))
            if among.start < among.stop:
                rows = run[among.start - first : among.stop - first]
                rows = rows if cut.dim == 0 else cut.part(rows, self.rank, self.P)
                part[among.start - own.start : among.stop - own.start] = rows
        return part

    def _runs(self, whole) -> Iterator[tuple[int, torch.Tensor]]:
        """All rows in order; normal numbers come in sixteens, and so do the rows of a run."""
        width = prod(whole.shape[1:])
        rows = max(16, RUN // max(1, width) // 16 * 16)
        first = 0
        while first < len(whole):
            last = len(whole) if len(whole) - first < 2 * rows else first + rows
            run = torch.empty(last - first, *whole.shape[1:], dtype=whole.dtype, device="cpu")
            yield first, self._draw(run, self.layer)
            first = last


def _is_plain(layer: nn.Module, kind: type[nn.Module]) -> bool:
    hooks = len(layer._forward_hooks) + len(layer._forward_pre_hooks)
    names = {name for name, _ in layer.named_parameters()}
    return type(layer).forward is kind.forward and names <= {"weight", "bias"} and not hooks


def _draw_linear(run: torch.Tensor, layer: nn.Linear) -> torch.Tensor:
    if run.ndim > 1:
        return nn.init.kaiming_uniform_(run, a=sqrt(5))
    bound = 1 / sqrt(layer.in_features)
    return nn.init.uniform_(run, -bound, bound)


def _draw_embedding(run: torch.Tensor, layer: nn.Embedding) -> torch.Tensor:
    return nn.init.normal_(run)


_INITIAL: dict[type, Callable] = {nn.Linear: _draw_linear, nn.Embedding: _draw_embedding}


def _require_same_state(owner: str, group) -> None:
    state = sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()[:8]
    states = told(state, group)
    require(len(set(states)) == 1, owner, "the state of torch's generator on the ranks", states,
            "one and the same: call torch.manual_seed with one seed on all of them")  # fmt: skip
