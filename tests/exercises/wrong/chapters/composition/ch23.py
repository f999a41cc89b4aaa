"""Wrong answers of chapter 23 that no slip derives: (exercise, answer, what it must be told)."""

from functools import partial

from dtlib.exercises.chapters.composition.ch23 import _heads as heads
from dtlib.exercises.chapters.composition.ch23 import _part as part
from dtlib.exercises.chapters.composition.ch23 import _residual as residual
from dtlib.exercises.chapters.composition.ch23 import _rule as rule
from dtlib.later import np

SLAB, GROUPS, PART = "ex-rows-and-slabs", "ex-groups-that-cannot-hang", "ex-part-of-a-rank"
RULE, RESIDUAL, HEADS = "ex-rule-of-an-einsum", "ex-what-is-not-sent", "ex-heads-for-tokens"


def all_groups(grid):
    for axis, size in enumerate(grid.shape):
        for members in np.moveaxis(grid, axis, -1).reshape(-1, size).tolist():
            yield axis, members


def own_first(new_group, rank, grid):
    def mine_first(one):
        return rank not in one[1]

    made = [(rank in one, new_group(one)) for _, one in sorted(all_groups(grid), key=mine_first)]
    return [group for mine, group in made if mine]


def the_first_makes_it(new_group, rank, grid):
    return [new_group(one) for _, one in all_groups(grid) if rank in (0, one[0])]


def axis_by_axis_backwards(new_group, rank, grid):
    made = [(rank in one, new_group(one)) for _, one in reversed([*all_groups(grid)])]
    return [group for mine, group in made if mine][::-1]


def copies_are_as_good_as_pieces(spec, placements):
    kinds = [one for one in placements if one[0] == "S"]
    if not kinds or "C" not in placements or spec.count(",") == 0:
        return rule(spec, placements)
    letter = spec.split("->")[0].split(",")[placements.index(kinds[0])][int(kinds[0][1])]
    out = spec.split("->")[1]
    return f"S{out.index(letter)}" if letter in out else "P"


class Instead:
    """An interpreter that sends other lines instead of one."""

    def __init__(self, do, line, others):
        self.do, self.line, self.others = do, line, others

    def __getattr__(self, name):
        return getattr(self.do, name)

    def send(self, name, x, axis):
        for one in self.others if name == self.line else (name,):
            x = self.do.send(one, x, axis)
        return x


def in_halves(do, x, g, w, v):
    others = ("reduce_scatter", "gather_slices")
    return residual(Instead(do, "sum_over_ranks", others), x, g, w, v)


def gathering(do, x, w, o):
    w, o = (do.send("copy_to_ranks", one, "cp") for one in (w, o))
    q = do.einsum("sc,cnd->snd", x, w)
    k = do.send("all_gather", q, "cp", dim=0)
    p = do.along("softmax", do.einsum("snd,tnd->nst", q, k), 2)
    y = do.einsum("nst,tnd->snd", p, k)
    return do.einsum("sc->", do.pointwise("square", do.einsum("snd,ndc->sc", y, o)))


def turned_twice(do, x, w, o):
    w, o = (do.send("copy_to_ranks", one, "cp") for one in (w, o))
    q, k = (do.send("turn", do.einsum("sc,cnd->snd", x, w), "cp", dim=0, to=1) for _ in "qk")
    p = do.along("softmax", do.einsum("snd,tnd->nst", q, k), 2)
    y = do.send("turn", do.einsum("nst,tnd->snd", p, k), "cp", dim=1, to=0)
    return do.einsum("sc->", do.pointwise("square", do.einsum("snd,ndc->sc", y, o)))


def without_a_softmax(do, x, w, o):
    w, o = (do.send("copy_to_ranks", one, "cp") for one in (w, o))
    q = do.send("turn", do.einsum("sc,cnd->snd", x, w), "cp", dim=0, to=1)
    y = do.einsum("nst,tnd->snd", do.einsum("snd,tnd->nst", q, q), q)
    y = do.send("turn", y, "cp", dim=1, to=0)
    return do.einsum("sc->", do.pointwise("square", do.einsum("snd,ndc->sc", y, o)))


GRID = np.arange(256).reshape(32, 8)

# fmt: off
WRONG = [
    ("ex-groups-of-a-mesh", "a b c (1/a + 1/b)", "the result"),
    (SLAB, {"grid": [[*range(8)]] * 32, "slab": range(64, 96)}, "each rank from 0 to 255"),
    (SLAB, {"grid": GRID[:8], "slab": range(64, 96)}, "the grid must have 32 rows of 8"),
    (SLAB, {"grid": GRID, "slab": range(16, 24)}, "the slab must have 32 ranks"),
    (SLAB, {"grid": GRID.T, "slab": range(64, 96)}, "the grid must have 32 rows of 8"),
    (SLAB, {"grid": GRID, "slab": 64}, "the slab must"),
    (SLAB, {"grid": 256, "slab": 64}, "the grid must"),
    (GROUPS, own_first, "all ranks make the same calls in the same order"),
    (GROUPS, the_first_makes_it, "waits in new_group"),
    (GROUPS, lambda new_group, rank, grid: [new_group(range(grid.size))] * grid.ndim, "not its"),
    (GROUPS, lambda new_group, rank, grid: new_group(5), "a group must have 0 items"),
    (PART, lambda *given: part(*given)[::-1], "dimension 0"),
    (PART, lambda shape, sizes, cuts, place: [(0, n) for n in shape], "another length"),
    (PART, lambda shape, sizes, cuts, place: part(shape, sizes, cuts, [0] * len(sizes)),
     "another length|elsewhere"),
    ("ex-order-of-changes", [("tp", "P")], "nobody wants summands"),
    ("ex-order-of-changes", [("tp", "S0")], "lies like that already"),
    ("ex-order-of-changes", ["tp", "dp"], "change 1 must have 2 items"),
    ("ex-order-of-changes", [("tp", ["S1"])], "an axis, dp or tp"),
    (RULE, copies_are_as_good_as_pieces, "of C and S0: two ranks' results mean nothing"),
    (RULE, lambda spec, placements: None, "returns nothing yet"),
    (RULE, lambda spec, placements: "S7", "must be one of"),
    (RULE, lambda spec, placements: "refused", "refused, though"),
    (RESIDUAL, in_halves, "sends 3 times where two would do"),
    (RESIDUAL, lambda do, x: x, "must take my_step"),
    (RESIDUAL, lambda do, x, g, w, v: x, "the loss|something else"),
    (HEADS, gathering, "it sends all_gather"),
    (HEADS, turned_twice, "turns more than it must"),
    (HEADS, without_a_softmax, "something else"),
    (HEADS, lambda do, x, w, o: heads(do, x, w, o).mean(), "AttributeError"),
]
RIGHT = [
    ("ex-groups-of-a-mesh", "a b c (1/a + 1/b + 1/c)"),
    (SLAB, {"grid": GRID[:, ::-1], "slab": {*range(64, 96)}}),
    (GROUPS, axis_by_axis_backwards),
    (HEADS, partial(heads)),
]
