"""Which part of each of a model's weights lies on which rank, and how to make them whole again.

The nouns:

- **Piece**: a name of the undivided model and the box of that weight, a stretch along each
  dimension, that a rank has. Ranks with the same piece have the same numbers.
- **Owner**: the first rank that has a piece. It speaks for the others.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from dtlib.parallelism.tensor.cuts import Cut
from dtlib.parallelism.tensor.model import cut_of
from dtlib.runtime.process_group import told


class Piece(NamedTuple):
    """A box of a weight: (start, stop) along each dimension."""

    name: str
    box: tuple[tuple[int, int], ...]

    @property
    def place(self) -> tuple[slice, ...]:
        """Where it lies in the whole weight."""
        return tuple(slice(*stretch) for stretch in self.box)


def piece_of(name: str, shape: torch.Size, cut: Cut, rank: int, P: int) -> Piece:
    """The piece that `rank` of `P` along tp has of a weight that is cut so.

    >>> piece_of("query.weight", torch.Size([8, 6]), Cut(0), rank=1, P=4).box
    ((2, 4), (0, 6))
    >>> piece_of("key.weight", torch.Size([4, 6]), Cut(0, copies=2), rank=3, P=4).box
    ((2, 4), (0, 6))
    """
    box = [(0, size) for size in shape]
    if cut.dim is not None:
        own = cut.own(shape[cut.dim], rank, P)
        box[cut.dim] = (own.start, own.stop)
    return Piece(name, tuple(box))


class Pieces:
    """The pieces of all ranks of a model, and which parameter of this rank is which.

    Arguments: `model`, the undivided one; `stages`, the modules of this rank, whose parameters have
    its names; `tp` and `everyone`, groups. Every rank makes it, and they tell each other.
    Attributes: `of`, the piece of each parameter of this rank; `holders`, the ranks of each piece.
    """

    def __init__(self, model: nn.Module, stages: Mapping[int, nn.Module], tp, everyone):
        rank, P = dist.get_rank(tp), dist.get_world_size(tp)
        self.everyone = everyone
        name_of = {parameter: name for name, parameter in model.named_parameters()}
        alias = {n: name_of[p] for n, p in model.named_parameters(remove_duplicate=False)}
        self.shapes = {name: parameter.shape for parameter, name in name_of.items()}
        self.of: dict[nn.Parameter, Piece] = {}
        for known_as, parameter in (n for s in stages.values() for n in s.named_parameters()):
            name = alias[known_as]
            cut = cut_of(name, model.spec.kv_heads, P)
            self.of[parameter] = piece_of(name, self.shapes[name], cut, rank, P)
        self.holders: dict[Piece, list[int]] = {}
        for place, pieces in enumerate(told(list(self.of.values()), everyone)):
            for piece in dict.fromkeys(pieces):
                self.holders.setdefault(piece, []).append(place)

    def copies(self, parameter: nn.Parameter) -> int:
        """On how many ranks the same numbers lie."""
        return len(self.holders[self.of[parameter]])

    def owns(self, parameter: nn.Parameter) -> bool:
        """Whether this rank speaks for the parameter's piece."""
        return self.holders[self.of[parameter]][0] == dist.get_rank(self.everyone)

    def whole(self, values: Mapping[nn.Parameter, torch.Tensor]) -> dict[str, torch.Tensor]:
        """A tensor for each parameter of this rank, put together by name, on every rank.

        What no rank has a value for is left out. Every rank calls it.
        """
        own = {
            self.of[p]: value.detach().cpu()
            for p, value in values.items()
            if value is not None and self.owns(p)
        }
        everybody = told(own, self.everyone)
        found: dict[str, torch.Tensor] = {}
        for piece, value in ((p, v) for of_rank in everybody for p, v in of_rank.items()):
            if piece.name not in found:
                found[piece.name] = value.new_zeros(self.shapes[piece.name])
            found[piece.name][piece.place] = value
        return {name: found[name] for name in self.shapes if name in found}
