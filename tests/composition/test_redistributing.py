"""Real ranks lay integers otherwise: every value is right to the bit, as torch says as well."""

import random
from itertools import product

import pytest
import torch
import torch.distributed as dist

from dtlib.composition import Placed, cheapest_way, redistribute
from dtlib.mesh import Mesh, Partial, Shard, make_groups
from dtlib.parallelism.operators.counting import counted
from dtlib.runtime import launch

SQUARE, CUBE = Mesh.of(dp=2, tp=2), Mesh.of(pp=2, dp=2, tp=2)


def every(mesh, shape):
    """Every way to lie on a mesh."""
    first = Placed.on(mesh, shape)
    return [Placed(mesh, shape, some) for some in product(first.choices, repeat=len(mesh.axes))]


def whole_of(shape):
    return torch.arange(1.0, 1 + torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)


def summand_of(placed, rank):
    """Which summand a rank has a part of: its places along the axes that add."""
    places = placed.mesh.coordinates(rank)
    return tuple(places[axis] for axis in placed.mesh.axes if placed[axis] == Partial())


def pieces(placed):
    """What each rank holds of the whole, or of integer summands that give the whole."""
    draw, whole = random.Random(7), whole_of(placed.shape)
    named = {summand_of(placed, rank): None for rank in placed.mesh.ranks}
    first, *others = named
    named |= {one: torch.full_like(whole, draw.randint(-9, 9)) for one in others}
    named[first] = whole - sum(named[one] for one in others)
    return [named[summand_of(placed, rank)][placed.part(rank)] for rank in placed.mesh.ranks]


def laid(cases):
    """On a rank: its piece after each change of placement, and the bytes that it sent."""
    groups, results = make_groups(cases[0][0].mesh), []
    for source, target in cases:
        x = pieces(source)[dist.get_rank()].clone()
        with counted() as log:
            y = redistribute(x, groups, source, target)
        results.append((y, sum(log.bytes.values())))
    return results


def faults(cases, by_rank):
    """The cases in which copies differ, or all pieces together are not the whole."""
    for (source, target), *held in zip(cases, *by_rank, strict=True):
        total, seen, copies = torch.zeros_like(whole_of(target.shape)), {}, True
        for rank, (own, _) in enumerate(held):
            first = seen.setdefault((summand_of(target, rank), str(target.part(rank))), own)
            if first is own:
                total[target.part(rank)] += own
            copies = copies and torch.equal(first, own)
        if not copies or not torch.equal(total, whole_of(target.shape)):
            yield f"{source} to {target}"


@pytest.fixture(scope="module")
def four():
    with launch(4, timeout=120) as ranks:
        yield ranks


@pytest.mark.parametrize("shape", [(4, 6), (5, 3), (1, 3)])
def test_every_placement_becomes_every_other_on_a_square(four, shape):
    cases = list(product(every(SQUARE, shape), repeat=2))
    assert list(faults(cases, four.run(laid, cases))) == []


def test_bytes_sent_are_those_of_the_way_where_parts_are_equal(four):
    cases = list(product(every(SQUARE, (4, 8)), repeat=2))
    due = [cheapest_way(*case, element_bytes=8).sent_bytes(8) for case in cases]
    for of_rank in four.run(laid, cases):
        assert [sent for _, sent in of_rank] == due


def test_a_cube_of_eight_ranks():
    draw, states = random.Random(0), every(CUBE, (4, 3))
    cases = [tuple(draw.choices(states, k=2)) for _ in range(60)]
    with launch(8, timeout=120) as ranks:
        assert list(faults(cases, ranks.run(laid, cases))) == []


@pytest.mark.parametrize("wrong", [1, 2, 3])
def test_sabotage_one_wrong_piece_is_found(four, wrong):
    cases = [(Placed.on(SQUARE, (4, 4), tp=Partial()), Placed.on(SQUARE, (4, 4), dp=Shard(0)))]
    by_rank = four.run(laid, cases)
    by_rank[wrong] = [(by_rank[wrong][0][0] + 1, 0)]
    assert list(faults(cases, by_rank)) != []


def by_torch(cases):
    """On a rank: the same pieces by torch's DTensor."""
    from torch.distributed import tensor as torchs
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", SQUARE.shape, mesh_dim_names=SQUARE.axes)

    def theirs(placed):
        return [
            torchs.Shard(one.dim)
            if isinstance(one, Shard)
            else getattr(torchs, type(one).__name__)()
            for one in placed.placements
        ]

    results = []
    for source, target in cases:
        whole = whole_of(source.shape)
        x = torchs.DTensor.from_local(
            pieces(source)[dist.get_rank()].clone(),
            mesh,
            theirs(source),
            shape=whole.shape,
            stride=whole.stride(),
        )
        results.append(x.redistribute(placements=theirs(target)).to_local())
    return results


def test_dtensor_says_the_same(four):
    states = every(SQUARE, (5, 6))
    plain = [one for one in states if Partial() not in one.placements]
    cases = list(product(states, plain))
    for mine, theirs in zip(four.run(laid, cases), four.run(by_torch, cases), strict=True):
        for case, (own, _), other in zip(cases, mine, theirs, strict=True):
            assert torch.equal(own, other), case


def test_a_piece_of_another_shape_is_refused(four):
    def refused():
        placed = Placed.on(SQUARE, (4, 4), tp=Shard(0))
        with pytest.raises(ValueError) as error:
            redistribute(torch.zeros(4, 4), {}, placed, placed)
        return str(error.value)

    said = "redistribute: x.shape is (4, 4), but must be (2, 4), its part"
    assert four.run(refused) == [said] * 4
