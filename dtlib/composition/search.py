"""The cheapest way to divide a feed-forward block, found among all that the types allow.

**The question.** Which program sends least in a forward and backward pass, if every rank does its
part of both products and keeps its part of both weights? x comes and y leaves in one placement, so
that blocks follow one another, and a loss of y must type.

Every weight's gradient is in the price: of a weight that is copied the ranks have summands, and the
backward pass of `copy_to_ranks` adds them; what was gathered is scattered back. A weight that was
gathered is kept until its backward pass; who gathers it again, as fully sharded training does,
sends half as much once more for it.

**What is found.** On one axis of P ranks with b tokens, width h and inner width f, one of three
matrices must travel, the stream of b h elements, a weight of h f or the inner activation of b f:
four times (P - 1)/P of it, while the others lie still. The smallest one travels, which is the one
without the largest of the three lengths:

- f is the largest: the stream travels. That is column-then-row, Megatron's.
- b is the largest: the weights travel. That is fully sharded data parallelism.
- h is the largest: the inner activation travels. Rows first, then columns.

To keep whole weights makes no program cheaper: what costs is the division of the work.
"""

import heapq
from collections.abc import Iterator, Mapping
from itertools import count, product
from typing import NamedTuple

from dtlib.composition.block import FIRST, PLACES, SECOND, BlockProgram, SentLine, shape_of
from dtlib.composition.placement import ONE_BYTE_A_SECOND
from dtlib.composition.prices import Prices
from dtlib.composition.types import SENT, PlacementError, Types
from dtlib.formulas.require import require, require_count, require_positive
from dtlib.machines.machine import Link
from dtlib.mesh import Mesh, Placement, Replicate, Shard


def cheapest_program(
    mesh: Mesh,
    *,
    tokens: int,
    hidden: int,
    ffn: int,
    given: Mapping[str, Mapping[str, Placement]] | None = None,
    divide_weights: bool = True,
    divide_work: bool = True,
    links: Mapping[str, Link] | None = None,
    element_bytes: float = 2,
) -> BlockProgram:
    """The program of the block that a rank sends least for, forward and backward.

    Dijkstra's algorithm, and so exact. A state is a value (x, z or y) with its placement. An edge
    is a line that is sent, at the price of it and of its transpose, or a product, at the price of
    the weight's cheapest way to the placement it is needed in. Edges are what `Types` does not
    refuse. Among equals: the fewest lines, then the stream that is replicated.

    Arguments: ``mesh``; ``tokens`` of all its ranks together, ``hidden`` and ``ffn``, the widths;
    ``given``, placements by axis of x (and so of y), w1 or w2 that are not to be chosen, on an axis
    that is not named replicated; ``divide_weights``, no axis keeps a weight that is chosen whole;
    ``divide_work``, a rank does but its part of each product; ``links``, one for each axis (None:
    bytes are counted instead of seconds); ``element_bytes``.
    Raises ValueError for sizes that are no counts, and for ``given`` of other names or axes, or
    with another placement than `Replicate` or a `Shard` of 0 or 1.

    >>> cheapest_program(Mesh.of(tp=4), tokens=1024, hidden=1024, ffn=4096)
    Each rank sends 3.15 MB forward and 3.15 MB backward, and keeps 4.19 MB of weights
      value  line                   tp          forward              backward
      x      given                  replicated
      w1     given                  sharded 1
      w2     given                  sharded 0
      (1)    copy_to_ranks of x     copies                           all-reduce, 3.15 MB
      (2)    bh,hf->bf of (1), w1   sharded 1
      (3)    gelu of (2)            sharded 1
      (4)    bf,fh->bh of (3), w2   partial
      (5)    sum_over_ranks of (4)  replicated  all-reduce, 3.15 MB

    With more tokens than the block is wide, it is the weights that travel:

    >>> cheapest_program(Mesh.of(tp=4), tokens=8192, hidden=1024, ffn=4096).sent["w1"]
    (SentLine(name='all_gather', axis='tp', dim=0, to=None),)
    """
    require_count("cheapest_program", tokens=tokens, hidden=hidden, ffn=ffn)
    require_positive("cheapest_program", element_bytes=element_bytes)
    links = links or dict.fromkeys(mesh.axes, ONE_BYTE_A_SECOND)
    sizes = {"b": tokens, "h": hidden, "f": ffn}
    search = _Search(mesh, sizes, divide_work, links, element_bytes)
    pinned = {name: _pinned(mesh, name, placed) for name, placed in (given or {}).items()}
    whole, parts = [Replicate()], [Shard(0), Shard(1)]
    axes = range(len(mesh.axes))
    stored = [*product(*([*([] if divide_weights else whole), *parts] for _ in axes))]
    streams = [*product(*([*whole, *parts] for _ in axes))]
    weights = {
        name: search.ways(name, [pinned[name]] if name in pinned else stored)
        for name in ("w1", "w2")
    }
    return search.cheapest([pinned["x"]] if "x" in pinned else streams, weights)


def _pinned(mesh: Mesh, name: str, placed: Mapping[str, Placement]) -> tuple[Placement, ...]:
    require(name in ("x", "w1", "w2"), "cheapest_program", "given", name, "one of x, w1, w2")
    for axis, one in placed.items():
        known = f"one of {', '.join(mesh.axes)}"
        require(axis in mesh.axes, "cheapest_program", f"given axis of {name}", axis, known)
        allowed = (Replicate(), Shard(0), Shard(1))
        words = "Replicate(), Shard(0) or Shard(1)"
        require(one in allowed, "cheapest_program", f"given {name} on {axis}", one, words)
    return tuple(placed.get(axis, Replicate()) for axis in mesh.axes)


class _Reached(NamedTuple):
    """A placement that a value can have: what that costs, from where, by which lines."""

    cost: tuple[float, int]
    start: tuple[Placement, ...]
    sent: tuple[SentLine, ...]


class _Search:
    """The graph of placements of the block's values, and Dijkstra's algorithm on it."""

    def __init__(self, mesh: Mesh, sizes, divide_work: bool, links, element_bytes: float):
        self.mesh, self.sizes, self.divide_work = mesh, sizes, divide_work
        self.links, self.element_bytes, self._known = links, element_bytes, {}

    def cheapest(self, streams, weights) -> BlockProgram:
        """The first to come out at y in the placement in which it went in at x."""
        order, reached = count(), set()
        waiting = [
            (0.0, 0, n, next(order), ("x", stream), {"x": ()}, {"x": stream})
            for n, stream in enumerate(streams)
        ]
        while waiting:
            time, steps, n, _, (place, here), sent, given = heapq.heappop(waiting)
            if (place, here) == ("y", streams[n]):
                return self._program(given, sent)
            if (n, place, here) in reached:
                continue
            reached.add((n, place, here))
            for more, line, after in self.lines(place, here):
                there = {**sent, place: (*sent[place], line)}
                entry = (_sum(time, more), steps + 1, n, next(order), (place, after), there, given)
                heapq.heappush(waiting, entry)
            for weight, after, way in self._products(place, here, weights):
                then = PLACES[PLACES.index(place) + 2]
                (more, further), start, sends = way
                entry = (_sum(time, more), steps + further, n, next(order), (then, after),
                         {**sent, weight: sends, then: ()}, {**given, weight: start})  # fmt: skip
                heapq.heappush(waiting, entry)
        raise AssertionError("every block can be divided: gather the weights")

    def _program(self, given, sent) -> BlockProgram:
        by_axis = {name: dict(zip(self.mesh.axes, one, strict=True)) for name, one in given.items()}
        used = {place: sent[place] for place in PLACES if sent[place]}
        found = BlockProgram(self.mesh, self.sizes, by_axis, used, self.element_bytes)
        found.check()
        return found

    def ways(self, name: str, starts) -> dict[tuple, _Reached]:
        """For every placement of a value the cheapest way to it from one of the starts."""
        order, found = count(), {}
        waiting = [(0.0, 0, next(order), start, start, ()) for start in starts]
        while waiting:
            time, steps, _, here, start, sent = heapq.heappop(waiting)
            if here in found:
                continue
            found[here] = _Reached((time, steps), start, sent)
            for more, line, after in self.lines(name, here):
                entry = (_sum(time, more), steps + 1, next(order), after, start, (*sent, line))
                heapq.heappush(waiting, entry)
        return found

    def lines(self, place: str, here: tuple[Placement, ...]) -> list[tuple]:
        """The lines that may be sent of a value: price, line, placement afterwards."""
        if (place, here) not in self._known:
            self._known[place, here] = list(self._lines(place, here))
        return self._known[place, here]

    def _lines(self, place: str, here: tuple[Placement, ...]) -> Iterator[tuple]:
        do = Prices(self.mesh, {place: shape_of(self.sizes, place)})
        value = do.value(place, **dict(zip(self.mesh.axes, here, strict=True)))
        for name, axis, dim in product(SENT, self.mesh.axes, (0, 1)):
            try:
                line = SentLine(name, axis, dim, 1 - dim if name == "turn" else None)
                made = do.send(*line[:1], value, *line[1:])
            except PlacementError:
                continue
            price = do.prices[made.name].time(self.links, self.element_bytes)
            yield price, line, tuple(made.placements.values())

    def _products(self, place: str, here: tuple[Placement, ...], weights) -> Iterator[tuple]:
        """The products that a value may enter: the weight, what comes of it, the weight's way."""
        if place == "y":
            return
        weight, spec = ("w1", FIRST) if place == "x" else ("w2", SECOND)
        for needed, way in weights[weight].items():
            do = Types(self.mesh.axes)
            value, matrix = (
                do.value(name, **dict(zip(self.mesh.axes, placed, strict=True)))
                for name, placed in ((place, here), (weight, needed))
            )
            try:
                value = do.pointwise("gelu", value) if place == "z" else value
                made = do.einsum(spec, value, matrix)
            except PlacementError:
                continue
            if not self.divide_work or all(map(_divided, here, needed)):
                yield weight, tuple(made.placements.values()), way


def _divided(one: Placement, other: Placement) -> bool:
    """Whether the ranks along an axis share the work of a product."""
    return isinstance(one, Shard) or isinstance(other, Shard)


def _sum(one: float, other: float) -> float:
    """Rounded, so that programs of one price are equal in whatever order it was added up."""
    return float(f"{one + other:.12g}")
