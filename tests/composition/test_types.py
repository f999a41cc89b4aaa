"""Programs that type mean on ranks what one process means, values and gradients; others do not."""

import random
from dataclasses import replace
from itertools import product

import pytest
import torch
import torch.distributed as dist

from dtlib.composition import Placed
from dtlib.composition.interpreters import Alone, OnRanks
from dtlib.composition.programs import BROKEN, STEPS, Step, by_total, square
from dtlib.composition.types import SENT, PlacementError, Typed, Types, check_step
from dtlib.mesh import Copies, Mesh, Partial, Replicate, Shard, make_groups
from dtlib.parallelism.operators.transposes import ADJOINTS
from dtlib.runtime import launch

MESH = Mesh.of(dp=2, tp=2)


@pytest.fixture(scope="module")
def four():
    with launch(4, timeout=120) as ranks:
        yield ranks


def whole_values(shapes):
    draw = torch.Generator().manual_seed(3)
    return {
        name: torch.randint(-2, 3, shape, generator=draw).double() for name, shape in shapes.items()
    }


def held(whole, placements, rank):
    """A rank's piece of a value."""
    shards = {axis: one for axis, one in placements.items() if isinstance(one, Shard)}
    return whole[Placed.on(MESH, whole.shape, **shards).part(rank)].clone()


def gradients(do, run, values, weights):
    leaves = {name: one.requires_grad_(name in weights) for name, one in values.items()}
    loss = run(do, **leaves)
    loss.backward()
    return loss.detach(), {name: leaves[name].grad for name in weights}


def on_ranks(steps):
    """On a rank, for each step: its loss and gradients, or what went wrong."""
    groups, rank, results = make_groups(MESH), dist.get_rank(), []
    for step in steps:
        placed = {**step.weights, **step.inputs}
        values = {n: held(v, placed[n], rank) for n, v in whole_values(step.shapes).items()}
        try:
            results.append(gradients(OnRanks(groups), step.run, values, step.weights))
        except RuntimeError as error:
            results.append((str(error), {}))
    return results


def meaning(by_rank, placements, like):
    """What pieces, copies and summands mean together; None where copies differ."""
    total, seen = torch.zeros_like(like), {}
    for rank, own in enumerate(by_rank):
        places = MESH.coordinates(rank)
        part = Placed.on(
            MESH, like.shape, **{a: p for a, p in placements.items() if isinstance(p, Shard)}
        ).part(rank)
        adds = tuple(places[a] for a, p in placements.items() if p == Partial())
        first = seen.setdefault((adds, str(part)), own)
        if first is own:
            total[part] += own
        elif not torch.equal(first, own):
            return None
    return total


def differs(step, results):
    """The names of what is not as in one process, to the bit."""
    _, due = gradients(Alone(), step.run, whole_values(step.shapes), step.weights)
    wrong = []
    for name in (one for one in step.weights if due[one] is not None):
        placements = dict.fromkeys(MESH.axes, Replicate()) | {
            axis: placed.gradient for axis, placed in step.weights[name].items()
        }
        try:
            found = meaning([grads[name] for _, grads in results], placements, due[name])
        except (KeyError, RuntimeError):
            found = None
        if found is None or not torch.equal(found, due[name]):
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("name", STEPS)
def test_the_strategies_of_the_book_type_and_their_weights_gradients_can_be_stepped_by(name):
    step = STEPS[name]
    assert step.check().lines
    for placed in step.weights.values():
        for one in placed.values():
            assert one.gradient == one


# Ranks are other processes: of a program they are told its name, and lines are sent as they are.
def named_on_ranks(right, broken):
    return on_ranks([STEPS[name] for name in right] + [BROKEN[name].step for name in broken])


def test_they_are_right_on_ranks_to_the_bit(four):
    results = four.run(named_on_ranks, list(STEPS), [])
    for number, (name, step) in enumerate(STEPS.items()):
        assert differs(step, [of_rank[number] for of_rank in results]) == [], name


SAID = {
    "gradients that were never added": "copies|summand",
    "the forgotten f": "copy_to_ranks first",
    "the wrong g": "the loss, on tp",
    "a norm's forgotten sum": "copy_to_ranks",
    "a gather that does not add back": "copy_to_ranks first",
    "a shard taken for the whole": "in pieces|cut along",
    "keys of one's own only": "cut along|piece",
    "a residual on every rank": "once on every rank",
    "a square before the sum": "is not the sum of square",
    "a norm over a piece": "none a whole one",
    "weights that drift apart": "each would step by its own",
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_silent_bug_is_a_type_error(name):
    assert BROKEN.keys() == SAID.keys()
    with pytest.raises(PlacementError, match=SAID[name]):
        BROKEN[name].step.check()


def test_and_each_of_them_is_wrong_on_ranks(four):
    results = four.run(named_on_ranks, [], list(BROKEN))
    for number, (name, bug) in enumerate(BROKEN.items()):
        assert differs(STEPS[bug.of], [of_rank[number] for of_rank in results]), name


def drawn_lines(draw):
    sent = [
        ("send", draw.choice(list(SENT)), draw.choice(MESH.axes), draw.randrange(2))
        for _ in range(2)
    ]
    product_of = draw.choice(["ab,bc->ac", "ab,cb->ac", "ab,ab->ab", "ab,ac->bc"])
    return [("einsum", product_of), ("add",), ("pointwise",), ("along", draw.randrange(2)), *sent]


def drawn_program(draw):
    """A random program of four lines over matrices, and placements of its weights and inputs."""
    weights = {
        name: {axis: draw.choice([Replicate(), Shard(0), Shard(1)]) for axis in MESH.axes}
        for name in ("v", "w")
    }
    inputs = {"x": {a: draw.choice([Copies(), Shard(0), Shard(1)]) for a in MESH.axes}}
    lines = [
        (*draw.choice(drawn_lines(draw)), draw.randrange(9), draw.randrange(9))
        for _ in range(draw.randint(2, 6))
    ]
    return lines, weights, inputs


def following(lines):
    """The program that these lines are."""

    def run(do, v, w, x):
        values = [v, w, x]
        for kind, *given, i, j in lines:
            a, b = values[-1 - i % len(values)], values[-1 - j % len(values)]
            if kind == "einsum":
                values.append(do.einsum(given[0], a, b))
            elif kind == "add":
                values.append(do.add(a, b))
            elif kind == "pointwise":
                values.append(do.pointwise(square, a))
            elif kind == "along":
                values.append(do.along(by_total, a, given[0]))
            else:
                name, axis, dim = given
                to = 1 - dim if name == "turn" else None
                values.append(do.send(name, a, axis, dim=dim, to=to))
        once = do.einsum("ab->", values[-1])
        return do.add(once, once) if len(values) % 2 else once

    return run


def typed_programs(count, seed):
    """So many random programs that type; each uses its weights."""
    draw, found = random.Random(seed), []
    while len(found) < count:
        lines, weights, inputs = drawn_program(draw)
        try:
            check_step(following(lines), MESH.axes, weights, inputs)
        except PlacementError:
            continue
        if any(line[0] == "send" for line in lines):
            found.append((lines, weights, inputs, dict.fromkeys("vwx", (4, 4))))
    return found


def run_lines(steps):
    return on_ranks([Step(following(lines), *rest) for lines, *rest in steps])


def exact(step):
    """Whether it uses a weight, and its numbers are small enough for fp64 to hold them all."""
    try:
        loss, grads = gradients(Alone(), step.run, whole_values(step.shapes), step.weights)
    except RuntimeError:  # no weight is used
        return False
    used = [one for one in grads.values() if one is not None]
    return all(one.abs().max() < 2**45 for one in (loss, *used))


def wrong_ones(ranks, count):
    """How many of so many random programs could be compared, and those that are wrong on ranks."""
    steps = typed_programs(count, seed=0)
    plain = [Step(following(lines), *rest) for lines, *rest in steps]
    kept = [n for n, step in enumerate(plain) if exact(step)]
    results = ranks.run(run_lines, [steps[n] for n in kept])
    wrong = [
        steps[n]
        for place, n in enumerate(kept)
        if differs(plain[n], [of_rank[place] for of_rank in results])
    ]
    return len(kept), wrong


def test_programs_at_random_that_type_are_right_on_ranks(four):
    compared, wrong = wrong_ones(four, 400)
    assert compared > 60 and wrong == []


class Lax(Types):
    """A wrong rule: what is replicated may be used by every rank as it is."""

    def einsum(self, spec, *values):
        taken = {Replicate(): Copies()}
        return super().einsum(
            spec,
            *(
                Typed(one.name, {axis: taken.get(p, p) for axis, p in one.placements.items()})
                for one in values
            ),
        )


def test_sabotage_a_wrong_rule_types_a_program_that_is_wrong(four, monkeypatch):
    monkeypatch.setattr("dtlib.composition.types.Types", Lax)
    compared, wrong = wrong_ones(four, 60)
    assert compared and wrong


@pytest.mark.parametrize("name", [name for name in SENT if name != "turn"])
def test_what_is_sent_is_typed_as_the_table_of_transposes_certifies_it(name):
    before, after = SENT[name]
    assert (before, after) == (type(ADJOINTS[name].before), type(ADJOINTS[name].after))


# Local SPMD types of meta-pytorch/spmd_types (docs/local_spmd_types.md, read in November 2026): its
# letters, and of the table of forward and backward types the rows whose operators the book has.
LETTERS = {"R": Copies, "I": Replicate, "V": Shard, "P": Partial}
PUBLISHED = {
    "copy_to_ranks": "I->R, P->I", "all_gather": "V->R, P->V", "turn": "V->V, V->V",
    "all_reduce": "P->R, P->R", "reduce_scatter": "P->V, V->R", "sum_over_ranks": "P->I, I->R",
    "gather_slices": "V->I, I->V", "own_slice": "I->V, V->I",
}  # fmt: skip


@pytest.mark.parametrize("name", SENT)
def test_types_forward_and_back_are_the_published_ones(name):
    forward, backward = (way.split("->") for way in PUBLISHED[name].split(", "))
    before, after = SENT[name]
    assert [before, after] == [LETTERS[one] for one in forward]
    assert [type(after().gradient), type(before().gradient)] == [LETTERS[one] for one in backward]


def product_of(left, right):
    """The letter of an elementwise product, or why it has none."""
    do = Types(["tp"])
    a, b = (do.value(name, tp=LETTERS[one]()) for name, one in zip("ab", left + right, strict=True))
    try:
        made = type(do.einsum("ij,ij->ij", a, b)["tp"])
    except PlacementError:
        return "error"
    return next(letter for letter, kind in LETTERS.items() if kind is made)


def test_products_are_typed_as_published_but_for_pieces_that_do_not_lie_alike():
    """`op(R..) -> R`, `op(I..) -> I`, `op(V..) -> V`, linear in P; I mixes with none, P P is none.

    There R and V mix. Here copies and pieces of one letter do not: a whole matrix times a piece of
    one, element by element, means nothing in one process. Where the copied one lacks the letter,
    they do.
    """
    table = {left + right: product_of(left, right) for left, right in product("RIVP", repeat=2)}
    good = {"RR": "R", "II": "I", "VV": "V", "RP": "P", "PR": "P"}
    assert table == {pair: good.get(pair, "error") for pair in table}
    do = Types(["tp"])
    rows, row = do.value("x", tp=Shard(0)), do.value("b", tp=Copies())
    assert do.einsum("ij,j->ij", rows, row)["tp"] == Shard(0)


def test_a_sum_is_no_weight():
    step = STEPS["data parallel"]
    with pytest.raises(PlacementError, match="the weight w, on dp: a sum over ranks is no weight"):
        replace(step, weights={"w": {"dp": Partial()}}).check()
