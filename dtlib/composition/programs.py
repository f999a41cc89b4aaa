"""Training steps of the book as programs, and eleven that train without an error and are wrong.

The nouns:

- **Step**: a program with the placements of its weights and inputs, and the shapes of the wholes.
- **Bug**: a step with one mistake in it, and the step that it should be.

Programs are those of `dtlib.composition.types`: one text for types, ranks and one process. Their
nonlinear functions are polynomials, so that on integers every result is exact.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dtlib.composition.types import Types, check_step
from dtlib.mesh import Copies, Placement, Replicate, Shard


@dataclass(frozen=True)
class Step:
    """A program, the placements of its weights and inputs by name and axis, and their shapes.

    >>> STEPS["data parallel"].axes, STEPS["data parallel"].weights
    (('dp',), {'w': {'dp': Replicate()}})
    """

    run: Callable[..., Any]
    weights: Mapping[str, Mapping[str, Placement]]
    inputs: Mapping[str, Mapping[str, Placement]]
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that it speaks of, in alphabetical order."""
        placed = (*self.weights.values(), *self.inputs.values())
        return tuple(sorted({axis for one in placed for axis in one}))

    def check(self) -> Types:
        """Its lines with their types. Raises PlacementError, as `check_step` does."""
        return check_step(self.run, self.axes, self.weights, self.inputs)


@dataclass(frozen=True)
class Bug:
    """A step with one mistake, and the name of the step in `STEPS` that it should be."""

    of: str
    step: Step


def square(x):
    """Each element times itself: a nonlinear function that keeps integers integers."""
    return x * x


def by_total(x, dim):
    """Each element times the sum of its stretch: it needs whole stretches, as a softmax does."""
    return x * x.sum(dim, keepdim=True)


def data_parallel(do, x, w):
    """Every rank has the weights and some rows of the batch."""
    w = do.send("copy_to_ranks", w, "dp")
    return do.einsum("bf->", do.pointwise(square, do.einsum("bh,hf->bf", x, w)))


def megatron_mlp(do, x, g, w, v):
    """A norm's weight, then two matrices, cut by columns and by rows."""
    x = do.einsum("bh,h->bh", x, g)
    x = do.send("copy_to_ranks", x, "tp")
    h = do.pointwise(square, do.einsum("bh,hf->bf", x, w))
    y = do.send("sum_over_ranks", do.einsum("bf,fh->bh", h, v), "tp")
    return do.einsum("bh->", do.pointwise(square, y))


def sequence_parallel_mlp(do, x, g, w, v):
    """The same with the stream cut by tokens before and after the two matrices."""
    g = do.send("copy_to_ranks", g, "tp")
    x = do.einsum("bh,h->bh", do.along(by_total, x, 1), g)
    x = do.send("all_gather", x, "tp", dim=0)
    h = do.pointwise(square, do.einsum("bh,hf->bf", x, w))
    y = do.send("reduce_scatter", do.einsum("bf,fh->bh", h, v), "tp", dim=0)
    return do.einsum("bh->", do.pointwise(square, y))


def fully_sharded(do, x, w):
    """Weights lie in pieces, and are gathered where they are used."""
    w = do.send("all_gather", w, "dp", dim=1)
    return do.einsum("bf->", do.pointwise(square, do.einsum("bh,hf->bf", x, w)))


def context_parallel(do, x, w):
    """One sequence in pieces: every rank has its own queries, and gathers all keys."""
    w = do.send("copy_to_ranks", w, "dp")
    q = do.einsum("sh,hf->sf", x, w)
    k = do.send("all_gather", q, "dp", dim=0)
    scores = do.along(by_total, do.einsum("sf,tf->st", q, k), 1)
    return do.einsum("sf->", do.einsum("st,tf->sf", scores, k))


def experts(do, x, w):
    """Tokens in pieces of the batch go to the experts that ranks own, and come back."""
    there = do.send("turn", x, "dp", dim=1, to=0)
    done = do.pointwise(square, do.einsum("ebh,ehf->ebf", there, w))
    back = do.send("turn", done, "dp", dim=0, to=1)
    return do.einsum("ebf->", do.pointwise(square, back))


def two_axes(do, x, w, v):
    """Two matrices cut along one axis, the batch along the other."""
    w, v = (do.send("copy_to_ranks", one, "dp") for one in (w, v))
    x = do.send("copy_to_ranks", x, "tp")
    h = do.pointwise(square, do.einsum("bh,hf->bf", x, w))
    y = do.send("sum_over_ranks", do.einsum("bf,fh->bh", h, v), "tp")
    return do.einsum("bh->", do.pointwise(square, y))


_MLP = {"x": (4, 4), "w": (4, 8), "v": (8, 4)}
_ROWS = {"x": (4, 4), "w": (4, 4)}
_HALVES = {"g": {"tp": Replicate()}, "w": {"tp": Shard(1)}, "v": {"tp": Shard(0)}}
_COPIED, _CUT = {"dp": Replicate()}, {"dp": Shard(0)}

STEPS = {
    "data parallel": Step(data_parallel, {"w": _COPIED}, {"x": _CUT}, _ROWS),
    "Megatron's MLP": Step(megatron_mlp, _HALVES, {"x": {"tp": Replicate()}}, _MLP | {"g": (4,)}),
    "sequence parallel": Step(
        sequence_parallel_mlp, _HALVES, {"x": {"tp": Shard(0)}}, _MLP | {"g": (4,)}
    ),
    "fully sharded": Step(fully_sharded, {"w": {"dp": Shard(1)}}, {"x": _CUT}, _ROWS),
    "context parallel": Step(context_parallel, {"w": _COPIED}, {"x": _CUT}, _ROWS),
    "experts": Step(
        experts, {"w": _CUT}, {"x": {"dp": Shard(1)}}, {"x": (4, 4, 2), "w": (4, 2, 4)}
    ),
    "two axes": Step(
        two_axes,
        {"w": _COPIED | {"tp": Shard(1)}, "v": _COPIED | {"tp": Shard(0)}},
        {"x": _CUT | {"tp": Replicate()}},
        _MLP,
    ),
}


@dataclass(frozen=True)
class _Slipping:
    """An interpreter that leaves one kind of message out, or sends another instead of it."""

    do: Any
    skips: str
    instead: str

    def __getattr__(self, name: str):
        return getattr(self.do, name)

    def send(self, name: str, x, axis: str, dim: int = 0, to: int | None = None):
        if name != self.skips:
            return self.do.send(name, x, axis, dim, to)
        return self.do.send(self.instead, x, axis, dim, to) if self.instead else x


def _without(of: str, skips: str, instead: str = "") -> Bug:
    """A step that never sends one kind of message, or sends another instead."""
    right = STEPS[of]

    def run(do, **values):
        return right.run(_Slipping(do, skips, instead), **values)

    return Bug(of, replace(right, run=run))


def _residual_on_every_rank(do, x, g, w, v):
    x = do.send("copy_to_ranks", do.einsum("bh,h->bh", x, g), "tp")
    partial = do.einsum("bf,fh->bh", do.pointwise(square, do.einsum("bh,hf->bf", x, w)), v)
    y = do.send("sum_over_ranks", do.add(partial, x), "tp")
    return do.einsum("bh->", do.pointwise(square, y))


def _square_before_the_sum(do, x, g, w, v):
    x = do.send("copy_to_ranks", do.einsum("bh,h->bh", x, g), "tp")
    y = do.pointwise(square, do.einsum("bf,fh->bh", do.einsum("bh,hf->bf", x, w), v))
    return do.einsum("bh->", do.send("sum_over_ranks", y, "tp"))


def _norm_over_a_piece(do, x, g, w, v):
    x = do.send("copy_to_ranks", do.einsum("bh,h->bh", x, g), "tp")
    h = do.along(by_total, do.einsum("bh,hf->bf", x, w), 1)
    y = do.send("sum_over_ranks", do.einsum("bf,fh->bh", h, v), "tp")
    return do.einsum("bh->", do.pointwise(square, y))


def _other(of: str, **changed) -> Bug:
    return Bug(of, replace(STEPS[of], **changed))


BROKEN = {
    "gradients that were never added": _without("data parallel", "copy_to_ranks"),
    "the forgotten f": _without("Megatron's MLP", "copy_to_ranks"),
    "the wrong g": _without("Megatron's MLP", "sum_over_ranks", "all_reduce"),
    "a norm's forgotten sum": _without("sequence parallel", "copy_to_ranks"),
    "a gather that does not add back": _without("sequence parallel", "all_gather", "gather_slices"),
    "a shard taken for the whole": _without("fully sharded", "all_gather"),
    "keys of one's own only": _without("context parallel", "all_gather"),
    "a residual on every rank": _other("Megatron's MLP", run=_residual_on_every_rank),
    "a square before the sum": _other("Megatron's MLP", run=_square_before_the_sum),
    "a norm over a piece": _other("Megatron's MLP", run=_norm_over_a_piece),
    "weights that drift apart": Bug(
        "data parallel",
        replace(_without("data parallel", "copy_to_ranks").step, weights={"w": {"dp": Copies()}}),
    ),
}
