"""How a tensor lies on a mesh, and the cheapest way to lay it otherwise.

The nouns:

- **Placed**: a tensor of one shape on a mesh with a placement for each axis, and so which part of
  the whole each rank holds.
- **Change**: another placement along one axis: one collective of that axis's groups, with a price.
- **Way**: changes one after the other, from one `Placed` to another.

All of it is arithmetic; `dtlib.composition.redistribute` carries a way out on real ranks.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod

from dtlib.collectives import (
    pairwise_all_to_all_time,
    ring_all_gather_time,
    ring_all_reduce_time,
    ring_reduce_scatter_time,
)
from dtlib.formulas.require import require
from dtlib.machines.machine import Link
from dtlib.mesh import Mesh, Partial, Placement, Replicate, Shard


@dataclass(frozen=True)
class Placed:
    """A tensor of this shape on a mesh, with a placement for each axis, the outermost first.

    Where two axes cut one dimension, the outer one cuts first. A dimension that an axis does not
    divide is cut as `torch.chunk` cuts it: equal parts, then a shorter one, then empty ones.
    Raises ValueError unless there is one placement for each axis, each of them `Replicate`,
    `Partial` or a `Shard` of a dimension that the tensor has.

    >>> mesh = Mesh.of(dp=2, tp=2)
    >>> weight = Placed.on(mesh, (5, 8), dp=Shard(0), tp=Shard(1))
    >>> weight
    Placed(5 × 8; dp cuts 0, tp cuts 1)
    >>> weight.part(3)
    (slice(3, 5, None), slice(4, 8, None))
    """

    mesh: Mesh
    shape: Sequence[int]
    placements: Sequence[Placement]

    def __post_init__(self):
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "placements", tuple(self.placements))
        one_each = len(self.placements) == len(self.mesh.axes)
        axes = ", ".join(self.mesh.axes)
        require(one_each, "Placed", "placements", self.placements, f"one for each of {axes}")
        for axis, placement in zip(self.mesh.axes, self.placements, strict=True):
            allowed = f"Replicate(), Partial() or a Shard of one of {len(self.shape)} dimensions"
            require(placement in self.choices, "Placed", axis, placement, allowed)

    @classmethod
    def on(cls, mesh: Mesh, shape: Sequence[int], **placements: Placement) -> "Placed":
        """The same with placements by the names of their axes; an axis that is not named copies."""
        for axis in placements:
            require(axis in mesh.axes, "Placed", "axis", axis, f"one of {', '.join(mesh.axes)}")
        return cls(mesh, shape, [placements.get(axis, Replicate()) for axis in mesh.axes])

    def __getitem__(self, axis: str) -> Placement:
        """The placement along an axis."""
        return self.placements[self.mesh.axes.index(axis)]

    def but(self, **placements: Placement) -> "Placed":
        """The same tensor with other placements along some axes."""
        now = dict(zip(self.mesh.axes, self.placements, strict=True))
        return Placed.on(self.mesh, self.shape, **now | placements)

    def part(self, rank: int) -> tuple[slice, ...]:
        """Which indices of the whole tensor a rank's piece has, in each dimension."""
        kept = [range(length) for length in self.shape]
        places = self.mesh.coordinates(rank).values()
        for placement, size, place in zip(self.placements, self.mesh.shape, places, strict=True):
            if isinstance(placement, Shard):
                kept[placement.dim] = chunk(kept[placement.dim], size, place)
        return tuple(slice(one.start, one.stop) for one in kept)

    def shared(self, axis: str) -> float:
        """The elements of what one group along an axis has among it: the whole, cut by the others.

        >>> Placed.on(Mesh.of(dp=2, tp=4), (6, 8), dp=Shard(0), tp=Shard(1)).shared("tp")
        24.0
        """
        cuts = (
            size
            for other, size in zip(self.mesh.axes, self.mesh.shape, strict=True)
            if other != axis and isinstance(self[other], Shard)
        )
        return prod(self.shape) / prod(cuts)

    @property
    def choices(self) -> list[Placement]:
        """The placements that an axis may have."""
        return [Replicate(), Partial(), *map(Shard, range(len(self.shape)))]

    def cut_last(self, axis: str) -> bool:
        """Whether no axis within this one cuts the same dimension: its groups hold whole stretches.

        >>> twice = Placed.on(Mesh.of(dp=2, tp=2), (8,), dp=Shard(0), tp=Shard(0))
        >>> twice.cut_last("dp"), twice.cut_last("tp")
        (False, True)
        """
        inner = self.placements[self.mesh.axes.index(axis) + 1 :]
        return not isinstance(self[axis], Shard) or self[axis] not in inner

    def __repr__(self) -> str:
        said = {Replicate: "{} copies", Partial: "{} adds", Shard: "{} cuts {dim}"}
        words = [
            said[type(one)].format(axis, dim=getattr(one, "dim", ""))
            for axis, one in zip(self.mesh.axes, self.placements, strict=True)
        ]
        return f"Placed({' × '.join(map(str, self.shape))}; {', '.join(words)})"


def chunk(whole: range, parts: int, place: int) -> range:
    """One of the parts of a stretch, as `torch.chunk` cuts it; the last ones may be short or empty.

    >>> [len(chunk(range(5), 4, place)) for place in range(4)]
    [2, 2, 1, 0]
    """
    length = -(-len(whole) // parts)
    start = min(whole.start + place * length, whole.stop)
    return range(start, min(start + length, whole.stop))


FREE = ("slice", "keep one", "pad with zeros")
_COLLECTIVES = {
    (Shard, Replicate): "all-gather",
    (Partial, Shard): "reduce-scatter",
    (Partial, Replicate): "all-reduce",
    (Shard, Shard): "all-to-all",
    (Replicate, Shard): "slice",
    (Replicate, Partial): "keep one",
    (Shard, Partial): "pad with zeros",
}
_TIMES = {
    "all-gather": ring_all_gather_time,
    "reduce-scatter": ring_reduce_scatter_time,
    "all-reduce": ring_all_reduce_time,
}


@dataclass(frozen=True)
class Change:
    """A tensor gets another placement along one axis.

    `before` and `after` differ in that axis alone.

    >>> placed = Placed.on(Mesh.of(tp=4), (8, 8), tp=Shard(0))
    >>> turn = Change("tp", placed, placed.but(tp=Shard(1)))
    >>> turn, turn.sent_bytes(element_bytes=4)
    (all-to-all along tp, 48.0)
    """

    axis: str
    before: Placed
    after: Placed

    @property
    def collective(self) -> str:
        """What the groups of the axis do, or what each rank does by itself."""
        return _COLLECTIVES[type(self.before[self.axis]), type(self.after[self.axis])]

    def time(self, link: Link, element_bytes: float) -> float:
        """Seconds on a one-port `link` between neighbours along the axis.

        With q ranks along the axis and n bytes among them: (q - 1) (α + n / (q β)) for an
        all-gather or a reduce-scatter, twice that for an all-reduce. In an all-to-all a rank has
        but 1/q of the n bytes, and keeps 1/q of these: the q-th part of what gathering sends.
        """
        if self.collective in FREE:
            return 0.0
        q = self.before.mesh.shape[self.before.mesh.axes.index(self.axis)]
        n = self.before.shared(self.axis) * element_bytes
        if self.collective == "all-to-all":
            return pairwise_all_to_all_time(n / q, q, link.alpha, link.beta)
        return _TIMES[self.collective](n, q, link.alpha, link.beta)

    def sent_bytes(self, element_bytes: float) -> float:
        """Bytes that a rank sends, where the parts are equal."""
        return self.time(ONE_BYTE_A_SECOND, element_bytes)

    def __repr__(self) -> str:
        return f"{self.collective} along {self.axis}"


ONE_BYTE_A_SECOND = Link("one byte a second", 0.0, 1.0, "bytes counted as seconds", "")


@dataclass(frozen=True)
class Way:
    """Changes one after the other. `len` counts them."""

    changes: tuple[Change, ...]

    def __len__(self) -> int:
        return len(self.changes)

    def sent_bytes(self, element_bytes: float = 4) -> float:
        """Bytes that a rank sends along all axes."""
        return sum(change.sent_bytes(element_bytes) for change in self.changes)

    def time(self, links: Mapping[str, Link], element_bytes: float = 4) -> float:
        """Seconds, with a link for each axis."""
        return sum(change.time(links[change.axis], element_bytes) for change in self.changes)

    def __repr__(self) -> str:
        return ", then ".join(map(repr, self.changes)) or "nothing to do"


def changes(placed: Placed, target: Placed) -> Iterator[Change]:
    """Every change that one collective can make, on the way to a target.

    A dimension that two axes cut is given back by the inner one first, and cut by it last:
    otherwise a group would hold stretches with holes. Nobody makes summands that the target does
    not ask for.
    """
    for axis in placed.mesh.axes:
        for placement in placed.choices:
            after = placed.but(**{axis: placement})
            wanted = not isinstance(placement, Partial) or target[axis] == placement
            if after != placed and wanted and placed.cut_last(axis) and after.cut_last(axis):
                yield Change(axis, placed, after)


def cheapest_way(
    source: Placed,
    target: Placed,
    links: Mapping[str, Link] | None = None,
    element_bytes: float = 4,
) -> Way:
    """The way from one placement to another that takes the least time; among equals the shortest.

    Dijkstra's algorithm, from state to state of the graph that `changes` spans; a tensor of d
    dimensions on a mesh of k axes has at most (d + 2)^k of them.

    Arguments: ``source`` and ``target``, of one shape on one mesh; ``links``, one for each axis
    (None: bytes are counted instead of seconds); ``element_bytes``.
    Raises ValueError for tensors of two shapes or meshes.

    >>> mesh = Mesh.of(dp=2, tp=4)
    >>> rows = Placed.on(mesh, (8, 8), tp=Shard(0))
    >>> way = cheapest_way(rows, rows.but(tp=Shard(1)))
    >>> way, way.sent_bytes()
    (all-to-all along tp, 48.0)

    Summands are added while each rank has the least of them, not after they were gathered:

    >>> cheapest_way(rows.but(dp=Partial()), rows.but(dp=Shard(0), tp=Replicate()))
    all-to-all along tp, then reduce-scatter along dp, then all-gather along tp
    """
    same = (source.mesh, source.shape) == (target.mesh, target.shape)
    require(same, "cheapest_way", "target", target, f"of the shape and mesh of {source!r}")
    links = links or dict.fromkeys(source.mesh.axes, ONE_BYTE_A_SECOND)
    order, reached = count(), set()
    waiting = [(0.0, 0, next(order), source, ())]
    while waiting:
        time, steps, _, here, way = heapq.heappop(waiting)
        if here == target:
            return Way(way)
        if here in reached:
            continue
        reached.add(here)
        for change in changes(here, target):
            more = change.time(links[change.axis], element_bytes)
            entry = (time + more, steps + 1, next(order), change.after, (*way, change))
            heapq.heappush(waiting, entry)
    raise AssertionError("every placement can be reached: through Replicate on every axis")
