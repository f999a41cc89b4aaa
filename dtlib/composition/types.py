"""A training step as a typed program: what its values are on every axis, and their gradients.

The nouns:

- **Program**: a function of an interpreter ``do`` and of values. It speaks of local work
  (`einsum`, `add`, `pointwise`, `along`) and of communication along a named axis (`send`).
- **Interpreter**: `Alone` runs a program in one process, where whole tensors meet and nothing is
  sent; `OnRanks` runs it on this rank's pieces; `Types` computes placements alone, and refuses the
  line after which the ranks would no longer compute what one process does.
- **Typed**: what `Types` computes with: a name, and a placement for each axis.

A placement says what the ranks' values mean: one value (`Replicate`, `Copies`), a sum (`Partial`),
pieces (`Shard`). A rule holds if doing the line on every rank is doing it once to what they mean,
and its derivative is the same line of `Placement.gradient`. So a program that types means the same
in its forward and in its backward pass; nobody has to look at the backward pass.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from dtlib.errors import DtlibError
from dtlib.formulas.require import require
from dtlib.formulas.table import Table
from dtlib.mesh import Copies, Partial, Placement, Replicate, Shard


class PlacementError(DtlibError, TypeError):
    """A line whose ranks would not compute what one process computes: the line, the axis, why."""


@dataclass(frozen=True)
class Typed:
    """A value of a program: its name, and its placement on each axis."""

    name: str
    placements: Mapping[str, Placement]

    def __getitem__(self, axis: str) -> Placement:
        return self.placements[axis]

    def said(self, axis: str) -> str:
        """The placement on an axis in words."""
        return _said(self[axis])

    def __repr__(self) -> str:
        return f"{self.name}: {', '.join(f'{axis} {self.said(axis)}' for axis in self.placements)}"


def _said(placed: Placement) -> str:
    return f"sharded {placed.dim}" if isinstance(placed, Shard) else str(placed)


# What a line sends: its placement before and after, as `ADJOINTS` certifies them on real ranks.
SENT = {
    "copy_to_ranks": (Replicate, Copies),
    "sum_over_ranks": (Partial, Replicate),
    "own_slice": (Replicate, Shard),
    "gather_slices": (Shard, Replicate),
    "all_reduce": (Partial, Copies),
    "all_gather": (Shard, Copies),
    "reduce_scatter": (Partial, Shard),
    "turn": (Shard, Shard),
}


class Types:
    """The interpreter that computes placements. It keeps each line with what came of it.

    Argument: ``axes``, their names. Its methods raise PlacementError.

    >>> do = Types(["tp"])
    >>> x, w = do.value("x", tp=Copies()), do.value("w", tp=Shard(1))
    >>> y = do.einsum("bh,hf->bf", x, w)
    >>> y
    (1): tp sharded 1
    >>> z = do.einsum("bf,fh->bh", y, do.value("v", tp=Shard(0)))
    >>> do.pointwise("gelu", z)
    Traceback (most recent call last):
    ...
    dtlib.composition.types.PlacementError: gelu of (2), on tp: gelu of a sum is not the sum ...
    """

    def __init__(self, axes):
        self.axes, self.lines = tuple(axes), []

    def value(self, name: str, **placements: Placement) -> Typed:
        """A weight or an input with its placements; on an axis that is not named it is copies."""
        for axis in placements:
            require(axis in self.axes, "Types", "axis", axis, f"one of {', '.join(self.axes)}")
        return Typed(name, {axis: placements.get(axis, Copies()) for axis in self.axes})

    def einsum(self, spec: str, *values: Typed) -> Typed:
        """Products of elements, summed over the letters that the result has not."""
        letters, _, out = spec.partition("->")
        each = letters.split(",")
        return self._line(
            f"{spec} of {_names(values)}",
            values,
            lambda line, axis: _multilinear(line, axis, values, each, out),
        )

    def add(self, *values: Typed) -> Typed:
        return self._line(f"the sum of {_names(values)}", values, lambda *at: _sum(*at, values))

    def pointwise(self, f: str | Callable, value: Typed) -> Typed:
        """A function of each element that is not linear."""
        line = f"{_called(f)} of {value.name}"
        return self._line(line, (value,), lambda *at: _curved(*at, f, value))

    def along(self, f: str | Callable, value: Typed, dim: int) -> Typed:
        """A function of whole stretches along a dimension, such as a softmax or a norm."""
        line = f"{_called(f)} of {value.name} along {dim}"

        def rule(line, axis):
            if value[axis] == Shard(dim):
                _refuse(line, axis, "each rank has a piece of every stretch, and none a whole one")
            return _curved(line, axis, f, value)

        return self._line(line, (value,), rule)

    def send(
        self, name: str, value: Typed, axis: str, dim: int = 0, to: int | None = None
    ) -> Typed:
        """A line of `SENT` along an axis, which cuts or joins ``dim``; `turn` cuts ``to`` instead.

        Where two axes cut one dimension the outer one cuts first, so the inner one must be joined
        before the outer one may be, and cut after it.
        """
        require(name in SENT, "send", "name", name, f"one of {', '.join(SENT)}")
        turns = "a dimension for 'turn', and None for the others"
        require((to is not None) == (name == "turn"), "send", "to", to, turns)
        line, (before, after) = f"{name} of {value.name}", SENT[name]
        wanted = Shard(dim) if before is Shard else before()
        if value[axis] != wanted:
            _refuse(line, axis, f"it takes {_said(wanted)}, and gets {_said(value[axis])}")
        got = Shard(to if name == "turn" else dim) if after is Shard else after()
        for inner in self.axes[self.axes.index(axis) + 1 :]:
            if isinstance(value[inner], Shard) and value[inner] in (wanted, got):
                _refuse(line, axis, f"{inner}, which lies within it, cuts the same dimension")
        return self._keep(line, {**value.placements, axis: got})

    def _line(self, line: str, values, rule: Callable) -> Typed:
        return self._keep(line, {axis: rule(line, axis) for axis in self.axes})

    def _keep(self, line: str, placements: Mapping[str, Placement]) -> Typed:
        made = Typed(f"({len(self.lines) + 1})", placements)
        self.lines.append((line, made))
        return made

    def table(self) -> Table:
        """Every line with what it is on each axis."""
        rows = [
            (one.name, line, *(_said(one[axis]) for axis in self.axes)) for line, one in self.lines
        ]
        return Table("The types of a program", ("value", "line", *self.axes), tuple(rows))


def _names(values) -> str:
    return ", ".join(one.name for one in values)


def _called(f) -> str:
    return f if isinstance(f, str) else f.__name__


def _refuse(line: str, axis: str, why: str) -> NoReturn:
    raise PlacementError(f"{line}, on {axis}: {why}")


def _multilinear(line, axis, values, each, out) -> Placement:
    """A product: cut along a letter, all that have it must be cut there, and others be copies."""
    cut = {letters[one[axis].dim] for one, letters in zip(values, each, strict=True)
           if isinstance(one[axis], Shard)}  # fmt: skip
    if len(cut) > 1:
        _refuse(
            line, axis, f"cut along {' and '.join(sorted(cut))}, only blocks of it would be made"
        )
    adds = [one.name for one in values if one[axis] == Partial()]
    if len(adds) > 1:
        _refuse(line, axis, "a product of sums is not the sum of the products")
    if not cut and not adds:
        return _alike(line, axis, values)
    (letter,) = cut or {""}
    for one, letters in zip(values, each, strict=True):
        placed = one[axis]
        if letter and letter in letters and not isinstance(placed, Shard):
            _refuse(line, axis, f"{one.name} is whole along {letter}, the other in pieces")
        if placed == Partial() and letter:
            _refuse(
                line, axis, f"{one.name} is a sum over the ranks, each of which has another piece"
            )
        if placed == Replicate():
            _refuse(line, axis, _FORGOTTEN.format(one.name))
    if adds:
        return Partial()
    return Shard(out.index(letter)) if letter in out else Partial()


_FORGOTTEN = (
    "every rank makes a use of its own of {}, whose gradient would be a summand that nobody adds: "
    "copy_to_ranks first"
)


def _alike(line, axis, values) -> Placement:
    """What values are together that must all be of one kind."""
    kinds = {one[axis] for one in values}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds == {Replicate(), Copies()}:
        name = next(one.name for one in values if one[axis] == Replicate())
        _refuse(line, axis, _FORGOTTEN.format(name))
    _refuse(line, axis, f"{' and '.join(sorted(map(_said, kinds)))} do not mean one thing together")


def _sum(line, axis, values) -> Placement:
    kinds = {one[axis] for one in values}
    if Partial() in kinds and len(kinds) > 1:
        name = next(one.name for one in values if one[axis] != Partial())
        _refuse(line, axis, f"{name} would be added once on every rank")
    return _alike(line, axis, values)


def _curved(line, axis, f, value) -> Placement:
    if value[axis] == Partial():
        name = _called(f)
        _refuse(line, axis, f"{name} of a sum is not the sum of {name} of its summands")
    return value[axis]


def check_step(step: Callable, axes, weights: Mapping, inputs: Mapping) -> Types:
    """Type a training step: ``step(do, **values)`` gives the loss of the weights and inputs.

    Arguments: ``axes`` of the mesh; ``weights`` and ``inputs``, for each name its placements by
    axis. Returns the interpreter with all lines.
    Raises PlacementError for a line that does not type; for a weight that is copies or a sum; for
    a loss that is copies or in pieces.

    >>> def step(do, x, w):
    ...     w = do.send("copy_to_ranks", w, "dp")
    ...     return do.einsum("bf->", do.pointwise("square", do.einsum("bh,hf->bf", x, w)))
    >>> check_step(step, ["dp"], {"w": {"dp": Replicate()}}, {"x": {"dp": Shard(0)}}).table()
    The types of a program
      value  line                 dp
      (1)    copy_to_ranks of w   copies
      (2)    bh,hf->bf of x, (1)  sharded 0
      (3)    square of (2)        sharded 0
      (4)    bf-> of (3)          partial
    """
    do = Types(axes)
    values = {name: do.value(name, **placed) for name, placed in {**weights, **inputs}.items()}
    for name in weights:
        _check(f"the weight {name}", values[name], {Copies: OWN_STEP, Partial: NO_WEIGHT})
    _check("the loss", step(do, **values), {Copies: OWN_SEED, Shard: NO_NUMBER})
    return do


OWN_STEP = "its gradient would be a summand on every rank, and each would step by its own"
NO_WEIGHT = "a sum over ranks is no weight that a rank can change"
OWN_SEED = (
    "every rank would begin with a gradient of 1 for one and the same loss, and gradients would be "
    "as many times too large as there are ranks"
)
NO_NUMBER = "it is in pieces, and a loss is a number"


def _check(line: str, value: Typed, forbidden: Mapping[type, str]) -> None:
    for axis, placed in value.placements.items():
        if type(placed) in forbidden:
            _refuse(line, axis, forbidden[type(placed)])
