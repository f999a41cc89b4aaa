"""Training steps that the book knows, as programs, and what is wrong with their broken twins."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from dtlib.mesh import Copies, Partial, Replicate, Shard


def square(x):
    return x * x


def by_total(x, dim):
    """What a softmax or a norm is to integers: each element with the sum of its stretch."""
    return x * x.sum(dim, keepdim=True)


class Step(NamedTuple):
    """A program, the placements of its weights and inputs, and their shapes."""

    run: object
    weights: dict
    inputs: dict
    shapes: dict


def data_parallel(do, x, w):
    w = do.send("copy_to_ranks", w, "dp")
    return do.einsum("bf->", do.pointwise(square, do.einsum("bh,hf->bf", x, w)))


def megatron_mlp(do, x, g, w, v):
    x = do.einsum("bh,h->bh", x, g)
    x = do.send("copy_to_ranks", x, "tp")
    h = do.pointwise(square, do.einsum("bh,hf->bf", x, w))
    y = do.send("sum_over_ranks", do.einsum("bf,fh->bh", h, v), "tp")
    return do.einsum("bh->", do.pointwise(square, y))


def sequence_parallel_mlp(do, x, g, w, v):
    g = do.send("copy_to_ranks", g, "tp")
    x = do.einsum("bh,h->bh", do.along(by_total, x, 1), g)
    x = do.send("all_gather", x, "tp", dim=0)
    h = do.pointwise(square, do.einsum("bh,hf->bf", x, w))
    y = do.send("reduce_scatter", do.einsum("bf,fh->bh", h, v), "tp", dim=0)
    return do.einsum("bh->", do.pointwise(square, y))


def fully_sharded(do, x, w):
    w = do.send("all_gather", w, "dp", dim=0)
    return do.einsum("bf->", do.pointwise(square, do.einsum("bh,hf->bf", x, w)))


def context_parallel(do, x, w):
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
    w, v = (do.send("copy_to_ranks", one, "dp") for one in (w, v))
    x = do.send("copy_to_ranks", x, "tp")
    h = do.pointwise(square, do.einsum("bh,hf->bf", x, w))
    y = do.send("sum_over_ranks", do.einsum("bf,fh->bh", h, v), "tp")
    return do.einsum("bh->", do.pointwise(square, y))


R, S = Replicate(), Shard
MLP = {"x": (4, 4), "w": (4, 8), "v": (8, 4)}
ROWS = {"x": (4, 4), "w": (4, 4)}
STEPS = {
    "data parallel": Step(data_parallel, {"w": {"dp": R}}, {"x": {"dp": S(0)}}, ROWS),
    "Megatron's MLP": Step(
        megatron_mlp,
        {"g": {"tp": R}, "w": {"tp": S(1)}, "v": {"tp": S(0)}},
        {"x": {"tp": R}},
        MLP | {"g": (4,)},
    ),
    "sequence parallel": Step(
        sequence_parallel_mlp,
        {"g": {"tp": R}, "w": {"tp": S(1)}, "v": {"tp": S(0)}},
        {"x": {"tp": S(0)}},
        MLP | {"g": (4,)},
    ),
    "fully sharded": Step(fully_sharded, {"w": {"dp": S(0)}}, {"x": {"dp": S(0)}}, ROWS),
    "context parallel": Step(context_parallel, {"w": {"dp": R}}, {"x": {"dp": S(0)}}, ROWS),
    "experts": Step(
        experts, {"w": {"dp": S(0)}}, {"x": {"dp": S(1)}}, {"x": (4, 4, 2), "w": (4, 2, 4)}
    ),
    "two axes": Step(
        two_axes,
        {"w": {"dp": R, "tp": S(1)}, "v": {"dp": R, "tp": S(0)}},
        {"x": {"dp": S(0), "tp": R}},
        MLP,
    ),
}


class Broken(NamedTuple):
    """A step with one mistake: `skips` a line that is sent, or sends `instead` of it another."""

    step: str
    says: str
    skips: str = ""
    instead: str = ""
    weights: Mapping = MappingProxyType({})
    run: object = None


def added_once_too_often(do, x, g, w, v):
    x = do.send("copy_to_ranks", do.einsum("bh,h->bh", x, g), "tp")
    partial = do.einsum("bf,fh->bh", do.pointwise(square, do.einsum("bh,hf->bf", x, w)), v)
    y = do.send("sum_over_ranks", do.add(partial, x), "tp")
    return do.einsum("bh->", do.pointwise(square, y))


def sum_within_a_square(do, x, g, w, v):
    x = do.send("copy_to_ranks", do.einsum("bh,h->bh", x, g), "tp")
    y = do.pointwise(square, do.einsum("bf,fh->bh", do.einsum("bh,hf->bf", x, w), v))
    return do.einsum("bh->", do.send("sum_over_ranks", y, "tp"))


def half_a_norm(do, x, g, w, v):
    x = do.send("copy_to_ranks", do.einsum("bh,h->bh", x, g), "tp")
    h = do.along(by_total, do.einsum("bh,hf->bf", x, w), 1)
    y = do.send("sum_over_ranks", do.einsum("bf,fh->bh", h, v), "tp")
    return do.einsum("bh->", do.pointwise(square, y))


BROKEN = {
    "the gradients were never added": Broken("data parallel", "copies|summand", "copy_to_ranks"),
    "the forgotten f": Broken("Megatron's MLP", "copy_to_ranks first", "copy_to_ranks"),
    "the wrong g": Broken("Megatron's MLP", "the loss, on tp", "sum_over_ranks", "all_reduce"),
    "the norm's forgotten sum": Broken("sequence parallel", "copy_to_ranks", "copy_to_ranks"),
    "a gather that does not scatter back": Broken(
        "sequence parallel", "copy_to_ranks first", "all_gather", "gather_slices"
    ),
    "a shard taken for the whole": Broken("fully sharded", "in pieces|cut along", "all_gather"),
    "keys of one's own only": Broken("context parallel", "cut along|piece", "all_gather"),
    "a residual on every rank": Broken(
        "Megatron's MLP", "once on every rank", run=added_once_too_often
    ),
    "a square before the sum": Broken(
        "Megatron's MLP", "is not the sum of square", run=sum_within_a_square
    ),
    "a norm over a piece": Broken("Megatron's MLP", "none a whole one", run=half_a_norm),
    "weights that drift apart": Broken(
        "data parallel",
        "each would step by its own",
        "copy_to_ranks",
        weights={"w": {"dp": Copies()}},
    ),
}
NO_WEIGHT = {"w": {"dp": Partial()}}
