"""What a typed program sends: every line's bytes, forward and backward, without a number computed.

The types of a line say both: forward a value changes its placement along one axis, backward its
gradient changes from the placement that belongs to the second to the one that belongs to the
first. Each is one `Change`, whose price is known.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from dtlib.composition.placement import Change, Placed
from dtlib.composition.types import Typed, Types
from dtlib.machines.machine import Link
from dtlib.mesh import Copies, Mesh, Placement, Replicate, Shard


class Price(NamedTuple):
    """The changes of a sent line, forward and backward; None where nothing is sent or cut."""

    forward: Change | None
    backward: Change | None

    def sent_bytes(self, element_bytes: float) -> tuple[float, float]:
        """Bytes that a rank sends, forward and backward, where the parts are equal."""
        return tuple(one.sent_bytes(element_bytes) if one else 0.0 for one in self)

    def time(self, links: Mapping[str, Link], element_bytes: float) -> float:
        """Seconds forward and backward together, with a link for each axis."""
        return sum(one.time(links[one.axis], element_bytes) for one in self if one)


class Prices(Types):
    """The interpreter that computes placements, as `Types` does, and with them what is sent.

    Arguments: ``mesh``; ``shapes``, the whole shape of each value that the program is given.
    `prices` has the `Price` of every sent line by the name of what came of it, `shares` of every
    product the part of its multiplications that a rank does. Its methods raise PlacementError.

    >>> do = Prices(Mesh.of(tp=4), {"x": (6, 8)})
    >>> do.send("copy_to_ranks", do.value("x", tp=Replicate()), "tp")
    (1): tp copies
    >>> do.prices["(1)"]
    Price(forward=None, backward=all-reduce along tp)
    >>> do.prices["(1)"].sent_bytes(element_bytes=2)
    (0.0, 144.0)
    """

    def __init__(self, mesh: Mesh, shapes: Mapping[str, Sequence[int]]):
        super().__init__(mesh.axes)
        self.mesh, self.shapes = mesh, dict(shapes)
        self.prices, self.shares = {}, {}

    def einsum(self, spec: str, *values: Typed) -> Typed:
        letters, _, out = spec.partition("->")
        sizes = {}
        for one, each in zip(values, letters.split(","), strict=True):
            sizes.update(zip(each, self.shapes[one.name], strict=True))
        made = super().einsum(spec, *values)
        self.shapes[made.name] = tuple(sizes[letter] for letter in out)
        divided = (
            size
            for axis, size in zip(self.axes, self.mesh.shape, strict=True)
            if any(isinstance(one[axis], Shard) for one in values)
        )
        self.shares[made.name] = 1 / prod(divided)
        return made

    def add(self, *values: Typed) -> Typed:
        return self._shaped(super().add(*values), values[0])

    def pointwise(self, f, value: Typed) -> Typed:
        return self._shaped(super().pointwise(f, value), value)

    def along(self, f, value: Typed, dim: int) -> Typed:
        return self._shaped(super().along(f, value, dim), value)

    def send(
        self, name: str, value: Typed, axis: str, dim: int = 0, to: int | None = None
    ) -> Typed:
        made = self._shaped(super().send(name, value, axis, dim, to), value)
        self.prices[made.name] = Price(
            self._change(axis, made.name, value.placements, made.placements),
            self._change(axis, made.name, _gradients(made), _gradients(value)),
        )
        return made

    def _shaped(self, made: Typed, like: Typed) -> Typed:
        self.shapes[made.name] = self.shapes[like.name]
        return made

    def _change(self, axis: str, name: str, before: Mapping, after: Mapping) -> Change | None:
        first, last = (self._placed(name, placements) for placements in (before, after))
        return None if first == last else Change(axis, first, last)

    def _placed(self, name: str, placements: Mapping[str, Placement]) -> Placed:
        """How a value lies; for what is sent, copies are the same as what is replicated."""
        lies = {
            axis: Replicate() if placed == Copies() else placed
            for axis, placed in placements.items()
        }
        return Placed.on(self.mesh, self.shapes[name], **lies)


def _gradients(value: Typed) -> dict[str, Placement]:
    return {axis: placed.gradient for axis, placed in value.placements.items()}
