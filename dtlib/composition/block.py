"""A feed-forward block as a typed program: what it is given, and what is sent where.

The block is x W1 -> gelu -> W2 = y, of b tokens, width h and inner width f. It has five places at
which a value may change its placement: x, W1, z = x W1 before the gelu, W2, and y.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dtlib.composition.prices import Price, Prices
from dtlib.composition.types import Typed, Types, check_step
from dtlib.formulas.table import Table
from dtlib.formulas.units import format_quantity
from dtlib.mesh import Mesh, Placement, Shard

FIRST, SECOND = "bh,hf->bf", "bf,fh->bh"
PLACES = ("x", "w1", "z", "w2", "y")
LETTERS = {"x": "bh", "w1": "hf", "z": "bf", "w2": "fh", "y": "bh"}


class SentLine(NamedTuple):
    """A line of `dtlib.composition.types.SENT` along an axis."""

    name: str
    axis: str
    dim: int = 0
    to: int | None = None


@dataclass(frozen=True)
class BlockProgram:
    """The block as a program of any interpreter: ``program(do, x, w1, w2)`` is y.

    Arguments: ``mesh``; ``sizes`` of b, h and f; ``given``, for x, w1 and w2 the placement on each
    axis; ``sent``, for a place the lines that are sent there; ``element_bytes``.
    """

    mesh: Mesh
    sizes: Mapping[str, int]
    given: Mapping[str, Mapping[str, Placement]]
    sent: Mapping[str, tuple[SentLine, ...]]
    element_bytes: float = 2

    def __call__(self, do, x, w1, w2, curve: str | Callable = "gelu"):
        """y of an interpreter's values; all but `Types` need ``curve`` as a function."""
        x, w1 = self._send(do, "x", x), self._send(do, "w1", w1)
        z = self._send(do, "z", do.einsum(FIRST, x, w1))
        z, w2 = do.pointwise(curve, z), self._send(do, "w2", w2)
        return self._send(do, "y", do.einsum(SECOND, z, w2))

    def step(self, do, x, w1, w2, curve: str | Callable = "gelu"):
        """The loss of a block alone: the sum of y's squares."""
        y = self(do, x, w1, w2, curve)
        return do.einsum("bh,bh->", y, y)

    def _send(self, do, place: str, value):
        for line in self.sent.get(place, ()):
            value = do.send(line.name, value, line.axis, dim=line.dim, to=line.to)
        return value

    def check(self) -> Types:
        """Every line of the step with its types. Raises PlacementError."""
        weights = {name: self.given[name] for name in ("w1", "w2")}
        return check_step(self.step, self.mesh.axes, weights, {"x": self.given["x"]})

    @cached_property
    def priced(self) -> Prices:
        """The block's lines with their prices. Raises PlacementError."""
        do = Prices(self.mesh, {name: shape_of(self.sizes, name) for name in ("x", "w1", "w2")})
        self(do, *(do.value(name, **self.given[name]) for name in ("x", "w1", "w2")))
        return do

    @property
    def sent_bytes(self) -> tuple[float, float]:
        """Bytes that a rank sends, forward and backward."""
        each = [one.sent_bytes(self.element_bytes) for one in self.priced.prices.values()]
        return tuple(map(sum, zip((0.0, 0.0), *each, strict=True)))

    @property
    def weight_bytes(self) -> float:
        """Bytes of both weights that a rank keeps."""
        kept = 0.0
        for name in ("w1", "w2"):
            elements = self.sizes["h"] * self.sizes["f"]
            for axis, size in zip(self.mesh.axes, self.mesh.shape, strict=True):
                elements /= size if isinstance(self.given[name][axis], Shard) else 1
            kept += elements * self.element_bytes
        return kept

    @property
    def work_share(self) -> float:
        """The part of both products' multiplications that a rank does; it is 1 where all do all."""
        shares = self.priced.shares.values()
        return sum(shares) / len(shares)

    def table(self) -> Table:
        """What is given and each line, with its placement and the bytes that a rank sends."""
        forward, backward = self.sent_bytes
        title = (
            f"Each rank sends {_bytes(forward)} forward and {_bytes(backward)} backward, "
            f"and keeps {_bytes(self.weight_bytes)} of weights"
        )
        given = [("given", Typed(name, placed)) for name, placed in self.given.items()]
        rows = [
            (made.name, line, *map(made.said, self.mesh.axes), *self._spent(made.name))
            for line, made in (*given, *self.priced.lines)
        ]
        columns = ("value", "line", *self.mesh.axes, "forward", "backward")
        return Table(title, columns, tuple(rows))

    def _spent(self, name: str) -> list[str]:
        price = self.priced.prices.get(name, Price(None, None))
        spent = price.sent_bytes(self.element_bytes)
        pairs = zip(price, spent, strict=True)
        return [f"{change.collective}, {_bytes(sent)}" if sent else "" for change, sent in pairs]

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_markdown_(self) -> str:
        return self.table()._repr_markdown_()


def _bytes(sent: float) -> str:
    return format_quantity(sent, "B", 3)


def shape_of(sizes: Mapping[str, int], name: str) -> tuple[int, ...]:
    """The whole shape of a value of the block, by its sizes b, h and f."""
    return tuple(sizes[letter] for letter in LETTERS[name])
