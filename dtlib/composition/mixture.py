"""A layer with attention and experts on three axes, whose sums of gradients are an argument.

The noun is `mixture_step`, a `Step` like those of `dtlib.composition.programs`: sequences are cut
along dp, tokens along cp and, between the matrices, along tp; heads and inner widths along tp, and
experts along cp. Queries have heads of their own and share one head of keys; the loss weighs the
result with a target, so that on whole numbers all is exact. Every weight is led through one
`copy_to_ranks` for each axis over which its gradient is to be added; which axes those are is not
written down here, but said by `sums`.
"""

from collections.abc import Iterable, Mapping

from dtlib.composition.programs import Step, by_total
from dtlib.composition.uses import Use
from dtlib.mesh import Shard

_TOKENS = {"dp": "b", "cp": "s"}
MIXTURE_USES = {
    "norm": Use("bsh,h->bsh", _TOKENS | {"tp": "s"}),
    "query": Use("bsh,hnd->bsnd", _TOKENS | {"tp": "n"}),
    "key": Use("bsnd,bth,hd->bsnt", {"dp": "b", "cp": "t", "tp": "n"}),
    "out": Use("bsnd,ndh->bsh", _TOKENS | {"tp": "n"}),
    "router": Use("bsh,he->bse", _TOKENS | {"tp": "s"}),
    "up": Use("ebsh,ehf->ebsf", {"dp": "b", "cp": "e", "tp": "f"}),
    "down": Use("ebsf,efh->ebsh", {"dp": "b", "cp": "e", "tp": "f"}),
}
_SHAPES = {
    "x": (2, 4, 2), "target": (2, 4, 2), "norm": (2,), "query": (2, 2, 2), "key": (2, 2),
    "out": (2, 2, 2), "router": (2, 2), "up": (2, 2, 2), "down": (2, 2, 2),
}  # fmt: skip


def mixture_step(sums: Mapping[str, Iterable[str]]) -> Step:
    """The layer, with these axes to add each weight's gradient over.

    Argument: ``sums``, for each weight of `MIXTURE_USES` its axes. Returns a Step on dp, cp and tp,
    which types where the axes are right, and raises PlacementError in `check` where they are not.

    >>> right = {name: use.summed for name, use in MIXTURE_USES.items()}
    >>> right["norm"], right["query"], right["up"]
    (('dp', 'cp', 'tp'), ('dp', 'cp'), ('dp',))
    >>> mixture_step(right).check().lines[-1][1]
    (37): cp partial, dp partial, tp partial
    >>> mixture_step(right | {"norm": ["dp", "cp"]}).check()
    Traceback (most recent call last):
    ...
    dtlib.composition.types.PlacementError: bsh,h->bsh of (15), (2), on tp: ...
    """

    def run(do, x, target, **weights):
        for name, axes in sums.items():
            for axis in axes:
                weights[name] = do.send("copy_to_ranks", weights[name], axis)
        x = do.add(x, _attention(do, x, weights))
        x = do.add(x, _experts(do, x, weights))
        return do.einsum("bsh,bsh->", x, target)

    weights = {name: use.placements for name, use in MIXTURE_USES.items()}
    tokens = {"dp": Shard(0), "cp": Shard(1), "tp": Shard(1)}
    return Step(run, weights, {"x": tokens, "target": tokens}, _SHAPES)


def _attention(do, x, weights):
    n = do.einsum("bsh,h->bsh", do.along(by_total, x, 2), weights["norm"])
    n = do.send("all_gather", n, "tp", dim=1)
    q = do.einsum("bsh,hnd->bsnd", n, weights["query"])
    k = do.send("all_gather", do.einsum("bth,hd->btd", n, weights["key"]), "cp", dim=1)
    scores = do.einsum("bsnd,btd->bsnt", q, k)
    z = do.einsum("bsnt,btd->bsnd", scores, k)
    return do.send("reduce_scatter", do.einsum("bsnd,ndh->bsh", z, weights["out"]), "tp", dim=1)


def _experts(do, x, weights):
    gate = do.einsum("bsh,he->bse", x, weights["router"])
    there = do.send("all_gather", do.einsum("bse,bsh->ebsh", gate, x), "tp", dim=2)
    there = do.send("turn", there, "cp", dim=2, to=0)
    h = do.einsum("ebsh,ehf->ebsf", there, weights["up"])
    back = do.send("turn", do.einsum("ebsf,efh->ebsh", h, weights["down"]), "cp", dim=0, to=2)
    return do.einsum("ebsh->bsh", do.send("reduce_scatter", back, "tp", dim=2))
