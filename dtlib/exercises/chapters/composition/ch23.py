"""The exercises of chapter 23, Meshes and placements, in the order of its page."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

from dtlib.composition.placement import Placed
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers
from dtlib.exercises.declarations.on_ranks import OnRanks
from dtlib.exercises.judge import items, whole
from dtlib.exercises.judges.meshes import arrives, each_has_its_groups, rows_in_nodes, stretch
from dtlib.exercises.judges.typed import Task, lies_as, sent_by
from dtlib.exercises.verdict import NotYet
from dtlib.later import np
from dtlib.mesh import Mesh, Replicate, Shard

# fmt: off
groups_of_a_mesh = Formula(
    "ex-groups-of-a-mesh",
    About("How many groups?", "compute", 1, 6, "count the groups of a mesh", ("x23.1", "x23.2")),
    "groups(a, b, c)", lambda a, b, c: b * c + a * c + a * b,
    lambda: (("", mesh) for mesh in ((8, 4, 8), (2, 3, 5), (7, 1, 4), (16, 16, 2))), same_number,
    "as many along an axis as the other two have places",
    {
        "that is how many ranks are in one rank's three groups, itself counted each time":
            lambda a, b, c: a + b + c,
        "along an axis of d places there are P / d groups, each rank in one":
            lambda a, b, c: 3 * a * b * c,
        "that is the number of ranks": lambda a, b, c: a * b * c,
        "three axes, and groups along each of them": lambda a, b, c: b * c,
    },
)

_GRID = [[8 * node + place for place in range(8)] for node in range(32)]


def _grid_law(answer: Any) -> None:
    if not isinstance(answer, dict) or set(answer) != {"grid", "slab"}:
        raise NotYet("pass a dict with the keys grid, slab")
    rows_in_nodes(answer["grid"], 32, 8)
    hint = "how many ranks have dp = 0, and which is the first with dp = 1?"
    stretch(answer["slab"], "slab", range(64, 96), hint)


rows_and_slabs = Made(
    "ex-rows-and-slabs",
    About("Rows and slabs", "compute", 1, 8, "lay ranks on a grid", ("x23.3", "x23.5")),
    _grid_law, lambda: {"grid": _GRID, "slab": range(64, 96)},
    "each row in a node, and a slab of ranks in a row",
    {
        "spans several nodes":
            lambda: {"grid": [[*range(i, 256, 32)] for i in range(32)], "slab": range(64, 96)},
        "which is the first with dp = 1": lambda: {"grid": _GRID, "slab": range(2, 128, 4)},
        "the keys grid, slab": lambda: _GRID,
    },
)


def _groups(new_group, rank, grid, *, own_only=False):
    own = []
    for axis, size in enumerate(grid.shape):
        for members in np.moveaxis(grid, axis, -1).reshape(-1, size).tolist():
            if rank in members or not own_only:
                group = new_group(members)
            if rank in members:
                own.append(group)
    return own


def _groups_law(answer: Callable, P: int) -> None:
    numbers = np.arange(P)
    for grid in (numbers.reshape(2, -1), numbers.reshape(-1, 2).T, numbers.reshape(-1, 2, 1)):
        each_has_its_groups(answer, grid)


groups_that_cannot_hang = OnRanks(
    "ex-groups-that-cannot-hang",
    About("Groups that cannot hang", "repair", 2, 15, "make groups in one order on all ranks"),
    "my_groups(new_group, rank, grid)", _groups, _groups_law,
    "all ranks make all groups in one order, each keeps its own",
    {
        "on rank 1: all ranks make the same calls": {"own_only": True},
        "not its group of axis 0": lambda *given: _groups(*given)[::-1],
        "more than once": lambda *given: _groups(*given) and _groups(*given),
    },
    sizes=(4, 6),
)


def _part(shape, sizes, cuts, place, *, even=False, twice=True):
    kept = [(0, length) for length in shape]
    for size, dim, at in zip(sizes, cuts, place, strict=True):
        if dim is not None:
            start, stop = kept[dim] if twice else (0, shape[dim])
            length = -(-(stop - start) // size)
            ends = [(stop - start) * n // size if even else length * n for n in (at, at + 1)]
            kept[dim] = tuple(min(start + end, stop) for end in ends)
    return kept


def _layouts() -> Iterator[tuple[str, tuple]]:
    for shape, sizes, cuts in (((8, 6), (2, 3), (0, 1)), ((8,), (2, 4), (0, 0)),
                               ((6,), (2, 3), (None, 0)), ((5, 7), (4, 2), (0, 1)),
                               ((11,), (3, 2), (0, 0)), ((2, 9), (4, 2, 2), (0, 1, 1))):
        for place in product(*map(range, sizes)):
            yield f"{shape} on {sizes}, cuts {cuts}, at {place}", (shape, sizes, cuts, place)


def _same_part(given: Any, right: list, shape: tuple, *layout: Any) -> None:
    given = [[whole(end, "an end") for end in items(one, "a stretch", 2)]
             for one in items(given, "the result", len(shape))]
    for dim, (own, wanted) in enumerate(zip(given, right, strict=True)):
        if own[1] - own[0] != wanted[1] - wanted[0]:
            raise NotYet(f"dimension {dim}: the stretch has another length")
        if own != [*wanted]:
            raise NotYet(f"dimension {dim}: as long as it should be, but elsewhere")


part_of_a_rank = Function(
    "ex-part-of-a-rank",
    About("The part of a rank", "design", 3, 20, "cut a tensor over several axes, unevenly too"),
    "my_part(shape, sizes, cuts, place)", _part, _layouts, _same_part,
    "every rank's part of six tensors, short and empty ones too",
    {
        "torch.chunk rounds the length up: equal parts, then a shorter one, then empty ones":
            {"even": True},
        "the second axis cuts what the first has left of the dimension": {"twice": False},
        "the outer axis cuts first":
            lambda shape, *axes: _part(shape, *(one[::-1] for one in axes)),
    },
)

a_weight_in_columns = Numbers(
    "ex-a-weight-in-columns",
    About("A weight in columns", "compute", 1, 8, "say how a weight lies on a mesh", ("x23.4",)),
    [
        Chosen("along dp", "R", dict.fromkeys(
               ("S0", "S1", "P"), "what has a replica of plain data parallelism of a weight?")),
        Chosen("along tp", "S0", {
               "S1": "torch has a row for each output: that cuts what is summed",
               "R": "then every rank computes every output",
               "P": "a sum over ranks is no weight that a rank can use"}),
        Asked("ranks with a piece", 64, slips={
              256: "a layer lives on one stage", 8: "and the replicas?",
              32: "of three axes one is fixed: which?"}),
        Asked("bytes of a piece", 2**24, "bytes", {
              2**27: "that is the whole weight", 2**21: "replicas do not share it",
              2**23: "a number in bf16 has two bytes", 2**22: "stages do not share a layer"}),
    ],
    "one stage has it: copies along dp, pieces along tp, and along pp nothing to place",
)

price_of_a_turn = Numbers(
    "ex-price-of-a-turn",
    About("Not as dear as gathering", "compute", 1, 8,
          "price an all-to-all against an all-gather", ("x23.6",)),
    [
        Asked("time", 1.25e-3, "s", {
              10e-3: "gathering brings a rank all of the tensor: how much of it does it need?",
              8.75e-3: "that is how long what it does not need would travel",
              10e-3 / 56: "a rank sends a part of its piece to each of seven others"}),
        Asked("peak", 1e9, "bytes", {
              0.5e9: "its old piece and its new one are there at once",
              4.5e9: "nobody holds the whole tensor"}),
        Asked("peak of gathering", 4.5e9, "bytes", {
              4e9: "the piece that it sends is there as well",
              5e9: "the new piece is a view of the whole one"}),
    ],
    "the q-th part of the time, and 2M/q instead of the whole and a piece",
)

_TWICE = Placed.on(Mesh.of(dp=2, tp=4), (8, 8), dp=Shard(0), tp=Shard(0))
_TURNED = [("tp", "S1"), ("dp", "R"), ("tp", "S0")]

order_of_changes = Made(
    "ex-order-of-changes",
    About("In which order?", "design", 3, 20, "find the cheapest way of a twice cut dimension"),
    lambda answer: arrives(answer, _TWICE, _TWICE.but(dp=Replicate())), lambda: _TURNED,
    "tp steps aside, dp gathers while a rank holds little, and tp comes back",
    {
        "change 1: an axis within dp cuts": lambda: [("dp", "R")],
        "sends more than it must": lambda: [("tp", "R"), ("dp", "R"), ("tp", "S0")],
        "end in another placement": lambda: _TURNED[:2],
        "pass a list of changes": lambda: "tp, then dp",
    },
)


def _rule(spec, placements, *, sums="P", added="P", moved=True, careful=True):
    """An einsum's result along one axis, by the letters that are cut."""
    operands, out = spec.split("->")
    pairs = list(zip(operands.split(","), placements, strict=True))
    cut = {letters[int(one[1])] for letters, one in pairs if one[0] == "S"}
    summands = [one for one in placements if one == "P"]
    if len(cut) > 1 or (len(summands) > 1 and careful) or (cut and summands):
        return "refused"
    if not cut:
        return sums if summands else "C"
    (letter,) = cut
    if any(one == "C" and letter in letters for letters, one in pairs):
        return "refused"
    if letter not in out:
        return added
    return f"S{out.index(letter)}" if moved else next(one for one in placements if one[0] == "S")


_SPECS = ("ab,bc->ac", "ab,cb->ac", "ab,ab->ab", "ab,ac->bc", "ab,b->ab", "ab->b", "abh,hf->fab")


def _operands() -> Iterator[tuple[str, tuple]]:
    for spec in _SPECS:
        each = spec.split("->")[0].split(",")
        kinds = [("C", "P", *(f"S{dim}" for dim in range(len(one)))) for one in each]
        for placements in product(*kinds):
            yield f"{spec} of {' and '.join(placements)}", (spec, placements)


rule_of_an_einsum = Function(
    "ex-rule-of-an-einsum",
    About("The rule of an einsum", "derive", 3, 25, "derive a typing rule from linearity"),
    "my_rule(spec, placements)", _rule, _operands, lies_as,
    "the rule holds for every placement of seven products, tried on two ranks",
    {
        "a product of sums is not the sum of the products": {"careful": False},
        "cut along a letter that is summed, each rank has a summand": {"added": "refused"},
        "an einsum is linear in each operand: it passes a sum on": partial(_rule, sums="refused"),
        "the dimension is that of the letter in the result": {"moved": False},
    },
)

_BACK = ("all-gather", "reduce-scatter", "all-reduce", "slice", "keep one", "pad with zeros")


def _back(line: str, right: str, slip: str, hint: str) -> Chosen:
    asks = "which placements have the two gradients, and what leads from one to the other?"
    return Chosen(line, right, {one: asks for one in _BACK if one != right} | {slip: hint})


the_way_back = Numbers(
    "ex-the-way-back",
    About("The way back", "compute", 1, 12, "type the gradient of a line that is new"),
    [
        _back("slice of one", "all-gather", "pad with zeros", "for copies; this is one vector"),
        _back("slice of copies", "pad with zeros", "all-gather", "copies' gradients are a sum"),
        _back("keep one", "keep one", "all-reduce", "copies' gradients are a sum nobody has added"),
        _back("pad with zeros", "slice", "all-gather", "is a sum's gradient not whole everywhere?"),
        _back("call it one", "keep one", "all-reduce", "one gradient is there, wanted as a sum"),
    ],
    "four of five need no message, and the same slice needs one or none",
    keyed=True,
)


def _residual(do, x, g, w, v, *, copy="copy_to_ranks", add="sum_over_ranks", keeps=True):
    n = do.einsum("bh,h->bh", do.along("norm", x, 1), g)
    n = do.send(copy, n, "tp") if copy else n
    h = do.pointwise("square", do.einsum("bh,hf->bf", n, w))
    y = do.einsum("bf,fh->bh", h, v)
    y = do.send(add, y, "tp") if add else y
    return do.einsum("bh->", do.pointwise("square", do.add(x, y) if keeps else y))


_RESIDUAL = Task(
    "my_step(do, x, g, w, v)", _residual, "tp",
    {"g": {"tp": Replicate()}, "w": {"tp": Shard(1)}, "v": {"tp": Shard(0)}},
    {"x": {"tp": Replicate()}}, {"x": (4, 6), "g": (6,), "w": (6, 8), "v": (8, 6)},
)


def _residual_law(answer: Callable) -> None:
    if (often := sent_by(answer, _RESIDUAL).total()) > 2:
        raise NotYet(f"it types, but sends {often} times where two would do")


what_is_not_sent = Made(
    "ex-what-is-not-sent",
    About("What is not sent", "repair", 2, 15, "add the lines that a checker asks for"),
    _residual_law, lambda: _residual,
    "it types, computes the same, and sends no more than it must",
    {
        "copy_to_ranks first": lambda: partial(_residual, copy="", add=""),
        "would be added once on every rank": lambda: partial(_residual, add=""),
        "whose gradient would be a summand": lambda: partial(_residual, add="all_reduce"),
        "something else": lambda: partial(_residual, keeps=False),
    },
)


def _heads(do, x, w, o, *, there=True, back=True, copied=True):
    if copied:
        w, o = (do.send("copy_to_ranks", one, "cp") for one in (w, o))
    q = do.einsum("sc,cnd->snd", x, w)
    q = do.send("turn", q, "cp", dim=0, to=1) if there else q
    p = do.along("softmax", do.einsum("snd,tnd->nst", q, q), 2)
    y = do.einsum("nst,tnd->snd", p, q)
    y = do.send("turn", y, "cp", dim=1, to=0) if back else y
    return do.einsum("sc->", do.pointwise("square", do.einsum("snd,ndc->sc", y, o)))


_HEADS = Task(
    "my_attention(do, x, w, o)", _heads, "cp",
    {"w": {"cp": Replicate()}, "o": {"cp": Replicate()}}, {"x": {"cp": Shard(0)}},
    {"x": (6, 3), "w": (3, 4, 2), "o": (4, 2, 3)},
)


def _heads_law(answer: Callable) -> None:
    sent = sent_by(answer, _HEADS)
    for name in sorted(set(sent) - {"copy_to_ranks", "turn"}):
        raise NotYet(f"it types, but it sends {name}: the tokens travel by turns alone")
    if sent["turn"] > 2:
        raise NotYet("it types, but turns more than it must: queries and keys are the same here")


heads_for_tokens = Made(
    "ex-heads-for-tokens",
    About("Heads for tokens", "design", 3, 25, "write attention as a program that types"),
    _heads_law, lambda: _heads,
    "pieces of tokens, then of heads, then of tokens, and all it sends are two turns",
    {
        "copy_to_ranks first": lambda: partial(_heads, copied=False),
        "only blocks of it would be made": lambda: partial(_heads, there=""),
        "whole along n, the other in pieces": lambda: partial(_heads, back=""),
    },
)

typed_and_wrong = Numbers(
    "ex-typed-and-wrong",
    About("Typed, and wrong by a factor", "compute", 1, 10,
          "find what a type does not say: the value of a factor"),
    [
        Asked("factor", 4, slips={1: "four ranks' sums are added", 8: "the rows of one rank?",
              1 / 4: "the other way round", 16: "the sum over the ranks is a sum of means"}),
        Asked("first", 0.8, slips={1.25: "the other way round: its share over its due",
              1.6: "and the sum is divided by 2"}),
        Asked("second", 4 / 3, slips={0.75: "the other way round: its share over its due",
              8 / 3: "and the sum is divided by 2"}),
        Chosen("right everywhere", "batch", {
               "own": "four equal ranks would add four means",
               "own times P": "that is right for equal pieces alone"}),
    ],
    "a program that types is right if each input means what its type says",
    keyed=True,
)
