"""Ranks on a grid with named axes, and how a tensor lies along one of them.

The nouns:

- **Mesh**: ranks on a grid, the outermost axis first, so that neighbouring ranks differ in the
  last. Along an axis talk the ranks that differ in that coordinate only: one group for each choice
  of the others.
- **Placement**: what the ranks along one axis hold of a tensor, and so how it counts in an inner
  product and what its gradient is. `Replicate`: one vector that all ranks hold; counts once, and so
  does its gradient. `Copies`: the same values on every rank, each with users of its own; counts
  once for each rank, and its gradient is partial. `Partial`: every rank has a summand; its gradient
  is copies. `Shard`: every rank has a part; so has its gradient.

All of this is arithmetic and needs no torch; `make_groups` makes process groups of a mesh.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from dtlib.formulas.require import require, require_count
from dtlib.later import np


@dataclass(frozen=True)
class Mesh:
    """Ranks on a grid of this shape, with a name for each axis, the outermost first.

    Arguments: `shape`, the size of each axis; `axes`, their names; `ranks`, row by row (None: from
    0 on). Raises ValueError for sizes that are not whole numbers of at least 1, for names that are
    not one for each axis and all different, and for ranks that do not fill the grid once.

    >>> mesh = Mesh((2, 4), ("dp", "tp"))
    >>> mesh, mesh.size, mesh.coordinates(6), mesh.rank(dp=1, tp=2)
    (Mesh(dp=2, tp=4), 8, {'dp': 1, 'tp': 2}, 6)
    """

    shape: Sequence[int]
    axes: Sequence[str]
    ranks: Sequence[int] | None = None

    def __post_init__(self):
        shape, axes = tuple(self.shape), tuple(self.axes)
        one_each = len(axes) == len(set(axes)) == len(shape)
        require(one_each, "Mesh", "axes", axes, f"one name for each of {len(shape)} axes")
        require_count("Mesh", **dict(zip(axes, shape, strict=True)))
        ranks = tuple(range(prod(shape)) if self.ranks is None else self.ranks)
        filled = len(ranks) == len(set(ranks)) == prod(shape)
        require(filled, "Mesh", "ranks", ranks, f"{prod(shape)} different ones")
        for field, value in (("shape", shape), ("axes", axes), ("ranks", ranks)):
            object.__setattr__(self, field, value)

    @classmethod
    def of(cls, **sizes: int) -> "Mesh":
        """The mesh of the ranks from 0 on with axes of these sizes, the outermost first.

        >>> Mesh.of(dp=2, tp=4) == Mesh((2, 4), ("dp", "tp"))
        True
        """
        return cls(tuple(sizes.values()), tuple(sizes))

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return len(self.ranks)

    @property
    def grid(self) -> "np.ndarray":
        """The ranks as an array with a dimension for each axis."""
        return np.array(self.ranks).reshape(self.shape)

    def coordinates(self, rank: int) -> dict[str, int]:
        """The place of a rank along each axis. Raises ValueError for a rank that is not here."""
        require(rank in self.ranks, "Mesh", "rank", rank, f"one of {_listed(self.ranks)}")
        index, places = self.ranks.index(rank), []
        for size in reversed(self.shape):
            index, place = divmod(index, size)
            places.append(place)
        return dict(zip(self.axes, reversed(places), strict=True))

    def rank(self, **coordinates: int) -> int:
        """The rank at these places, one for each axis. Raises ValueError for others."""
        named = set(coordinates) == set(self.axes)
        require(named, "Mesh", "coordinates", coordinates, f"one each of {', '.join(self.axes)}")
        index = 0
        for axis, size in zip(self.axes, self.shape, strict=True):
            place = coordinates[axis]
            require(place in range(size), "Mesh", axis, place, f"from 0 to {size - 1}")
            index = index * size + int(place)
        return self.ranks[index]

    def groups(self, axis: str) -> list[list[int]]:
        """All groups along an axis, each in the order of the axis.

        Raises ValueError for an axis that is not here.

        >>> Mesh.of(dp=2, tp=2).groups("dp")
        [[0, 2], [1, 3]]
        """
        along = self._dim(axis)
        return np.moveaxis(self.grid, along, -1).reshape(-1, self.shape[along]).tolist()

    def groups_of(self, rank: int) -> dict[str, list[int]]:
        """The group of one rank along each axis. Raises ValueError for a rank that is not here.

        >>> Mesh.of(dp=2, ep=8, tp=4).groups_of(13)
        {'dp': [13, 45], 'ep': [1, 5, 9, 13, 17, 21, 25, 29], 'tp': [12, 13, 14, 15]}
        """
        return {axis: list(self.sub(axis, rank=rank).ranks) for axis in self.axes}

    def sub(self, *axes: str, rank: int) -> "Mesh":
        """The mesh of some axes, in the order of this one, that a rank spans: others stay its own.

        Raises ValueError for an axis or a rank that is not here.

        >>> Mesh.of(pp=2, dp=2, tp=2).sub("pp", "tp", rank=3)
        Mesh(pp=2, tp=2; ranks 2, 3, 6, 7)
        """
        kept = {self._dim(axis) for axis in axes}
        places = self.coordinates(rank).values()
        cut = tuple(slice(None) if i in kept else place for i, place in enumerate(places))
        shape, names = ([of[i] for i in sorted(kept)] for of in (self.shape, self.axes))
        return Mesh(shape, names, self.grid[cut].flatten().tolist())

    def _dim(self, axis: str) -> int:
        require(axis in self.axes, "Mesh", "axis", axis, f"one of {', '.join(self.axes)}")
        return self.axes.index(axis)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{a}={size}" for a, size in zip(self.axes, self.shape, strict=True))
        from_zero = self.ranks == tuple(range(self.size))
        return f"Mesh({sizes})" if from_zero else f"Mesh({sizes}; ranks {_listed(self.ranks)})"


def _listed(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    return shown if len(ranks) <= 8 else f"{shown}, ..., {ranks[-1]}"


def make_groups(mesh: Mesh) -> dict:
    """On real ranks: this rank's process group along each axis of a mesh of all ranks.

    Every rank makes every group, in one order, because torch's `new_group` is a call of all ranks.
    Raises ValueError for a mesh of fewer ranks, or more, than there are.
    """
    import torch.distributed as dist

    world = dist.get_world_size()
    everyone = sorted(mesh.ranks) == list(range(world))
    require(everyone, "make_groups", "mesh", mesh, f"one of all ranks, 0 to {world - 1}")
    own = {}
    for axis in mesh.axes:
        for members in mesh.groups(axis):
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[axis] = group
    return own


@dataclass(frozen=True)
class Placement:
    """What the ranks along one axis hold of a tensor: one of the four classes below.

    `same_everywhere`: all ranks hold the same values. `counts_once`: in an inner product it is one
    vector; otherwise the ranks' products are added.
    """

    same_everywhere: ClassVar[bool] = False
    counts_once: ClassVar[bool] = False

    @property
    def gradient(self) -> "Placement":
        """The placement of the gradient."""
        return self


class Replicate(Placement):
    """One vector, which all ranks hold and which counts once."""

    same_everywhere = counts_once = True

    def __str__(self) -> str:
        return "replicated"


class Copies(Placement):
    """The same values on every rank, each with users of its own."""

    same_everywhere = True

    @property
    def gradient(self) -> Placement:
        return Partial()

    def __str__(self) -> str:
        return "copies"


class Partial(Placement):
    """Every rank has a summand of one vector."""

    @property
    def gradient(self) -> Placement:
        return Copies()

    def __str__(self) -> str:
        return "partial"


@dataclass(frozen=True)
class Shard(Placement):
    """Every rank has an equal part of one tensor, cut along dimension `dim`.

    Raises ValueError for a dimension that is not a whole number.

    >>> Shard(1), str(Shard(1)), Partial().gradient
    (Shard(dim=1), 'sharded', Copies())
    """

    dim: int = 0

    def __post_init__(self):
        whole = isinstance(self.dim, int) and not isinstance(self.dim, bool)
        require(whole, "Shard", "dim", self.dim, "a whole number")

    def __str__(self) -> str:
        return "sharded"
