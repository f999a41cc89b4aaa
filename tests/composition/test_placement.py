"""Placements: parts fill the whole, changes have the collectives' prices, ways are the cheapest."""

from collections import Counter
from itertools import product

import pytest

from dtlib.composition.placement import Change, Placed, changes, cheapest_way, chunk
from dtlib.machines.machine import Link
from dtlib.mesh import Copies, Mesh, Partial, Replicate, Shard

SQUARE, CUBE = Mesh.of(dp=2, tp=2), Mesh.of(pp=2, dp=2, tp=2)


def every(mesh, shape):
    """Every way to lie on a mesh."""
    first = Placed.on(mesh, shape)
    return [Placed(mesh, shape, some) for some in product(first.choices, repeat=len(mesh.axes))]


@pytest.mark.parametrize("shape", [(4, 8), (5, 7), (1, 3), (2, 3, 5)])
@pytest.mark.parametrize("mesh", [SQUARE, CUBE, Mesh.of(tp=3)])
def test_the_parts_of_one_tensor_fill_it_as_often_as_axes_copy_it(mesh, shape):
    for placed in every(mesh, shape):
        held = Counter(
            index
            for rank in mesh.ranks
            for index in product(*(range(p.start, p.stop) for p in placed.part(rank)))
        )
        cut = [
            s for one, s in zip(placed.placements, mesh.shape, strict=True) if type(one) is Shard
        ]
        times = mesh.size
        for size in cut:
            times //= size
        assert set(held) == set(product(*map(range, shape)))
        assert set(held.values()) == {times}


@pytest.mark.parametrize("length", range(9))
@pytest.mark.parametrize("parts", range(1, 6))
def test_a_dimension_is_cut_as_torch_cuts_it(length, parts):
    torch = pytest.importorskip("torch")
    lengths = [len(chunk(range(length), parts, place)) for place in range(parts)]
    theirs = [len(one) for one in torch.arange(length).chunk(parts)] if length else []
    assert lengths == theirs + [0] * (parts - len(theirs))
    assert sum(lengths) == length


def along(source, target, q=4, shape=(8, 12)):
    placed = Placed.on(Mesh.of(tp=q), shape, tp=source)
    return Change("tp", placed, placed.but(tp=target))


@pytest.mark.parametrize("q", [2, 3, 4, 8])
def test_the_price_of_each_change(q):
    n, rows, columns = 8 * 12 * 4, Shard(0), Shard(1)
    gathered = along(rows, Replicate(), q).sent_bytes(4)
    turned = along(rows, columns, q).sent_bytes(4)
    assert gathered == pytest.approx((q - 1) / q * n)
    assert along(Partial(), rows, q).sent_bytes(4) == pytest.approx(gathered)
    assert along(Partial(), Replicate(), q).sent_bytes(4) == pytest.approx(2 * gathered)
    assert gathered / turned == pytest.approx(q)  # and nobody ever has the whole
    for free in ((Replicate(), rows), (Replicate(), Partial()), (rows, Partial())):
        assert along(*free, q).sent_bytes(4) == 0


def test_other_axes_that_cut_make_it_cheaper_and_those_that_copy_or_add_do_not():
    whole = Placed.on(SQUARE, (8, 8), tp=Shard(0))
    price = {
        placement: Change("tp", one := whole.but(dp=placement), one.but(tp=Replicate())).sent_bytes(
            1
        )
        for placement in (Replicate(), Partial(), Shard(1))
    }
    assert list(price.values()) == [32, 32, 16]


def by_brute_force(source, target, links):
    """The least time to reach a target, by relaxing every edge until nothing moves."""
    states = every(source.mesh, source.shape)
    best = {source: 0.0}
    moved = True
    while moved:
        moved = False
        for state in states:
            for change in changes(state, target) if state in best else ():
                time = best[state] + change.time(links[change.axis], 4)
                if time < best.get(change.after, float("inf")) - 1e-12:
                    best[change.after], moved = time, True
    return best


@pytest.mark.parametrize("slow", ["dp", "tp"])
def test_the_way_is_as_cheap_as_any(slow):
    links = {axis: Link(axis, 1e-3, 1e3 if axis == slow else 9e3, "", "") for axis in SQUARE.axes}
    for target in every(SQUARE, (4, 4)):
        for source in every(SQUARE, (4, 4)):
            found = cheapest_way(source, target, links)
            assert found.time(links) == pytest.approx(by_brute_force(source, target, links)[target])
            here = source
            for change in found.changes:
                assert change.before == here
                here = change.after
            assert here == target


def test_a_dimension_that_two_axes_cut_is_given_back_by_the_inner_one_first():
    twice = Placed.on(SQUARE, (8,), dp=Shard(0), tp=Shard(0))
    assert str(cheapest_way(twice, twice.but(dp=Replicate(), tp=Replicate()))) == (
        "all-gather along tp, then all-gather along dp"
    )
    inner = cheapest_way(twice, twice.but(dp=Replicate()))
    assert [change.collective for change in inner.changes] == ["all-gather", "all-gather", "slice"]


@pytest.mark.parametrize("wrong", [Copies(), Shard(2), Shard(-1), "tp"])
def test_what_is_no_placement_of_a_tensor_is_refused_with_its_axis(wrong):
    with pytest.raises(ValueError, match=r"Placed: tp is .* must be Replicate"):
        Placed.on(SQUARE, (4, 4), tp=wrong)


def test_another_mesh_or_shape_is_refused():
    with pytest.raises(ValueError, match="axis is 'ep', but must be one of dp, tp"):
        Placed.on(SQUARE, (4,), ep=Shard(0))
    with pytest.raises(ValueError, match="cheapest_way: target is"):
        cheapest_way(Placed.on(SQUARE, (4,)), Placed.on(SQUARE, (5,)))
