"""A mesh is a product of its axes: coordinates, groups and sub-meshes against plain counting."""

import math
from itertools import product

import pytest

from dtlib.mesh import Copies, Mesh, Partial, Replicate, Shard
from dtlib.runtime import RanksError, launch

MESHES = [
    Mesh.of(dp=2, tp=2),
    Mesh.of(pp=2, dp=2, tp=2),
    Mesh.of(dp=3, tp=2),
    Mesh((3, 2), ("dp", "tp"), (7, 4, 9, 0, 2, 5)),  # on ranks in any order
    Mesh.of(dp=16, pp=1, tp=8),
]
every_mesh = pytest.mark.parametrize("mesh", MESHES, ids=repr)


def counted(mesh):
    """Each rank with its coordinates, by counting through the axes: the last one fastest."""
    places = product(*(range(size) for size in mesh.shape))
    return {
        rank: dict(zip(mesh.axes, place, strict=True))
        for rank, place in zip(mesh.ranks, places, strict=True)
    }


def wrong_groups(mesh, axis, spoil):
    """What is not as counted: a group whose ranks differ elsewhere, or that lacks some."""
    places = counted(mesh)
    wrong = []
    for group in spoil(mesh.groups(axis)):
        others = {tuple(places[r][a] for a in mesh.axes if a != axis) for r in group}
        order = [places[r][axis] for r in group]
        wrong += [group] if len(others) > 1 or order != list(range(len(order))) else []
    return wrong


@every_mesh
def test_coordinates_are_those_of_counting_and_lead_back(mesh):
    for rank, place in counted(mesh).items():
        assert mesh.coordinates(rank) == place
        assert mesh.rank(**place) == rank
    assert mesh.size == math.prod(mesh.shape) == mesh.grid.size


@every_mesh
def test_groups_along_an_axis_cover_every_rank_once_and_differ_there_only(mesh):
    for axis, size in zip(mesh.axes, mesh.shape, strict=True):
        groups = mesh.groups(axis)
        assert sorted(r for group in groups for r in group) == sorted(mesh.ranks)
        assert {len(group) for group in groups} == {size}
        assert not wrong_groups(mesh, axis, spoil=list)
        assert all(mesh.groups_of(r)[axis] == group for group in groups for r in group)


@pytest.mark.parametrize("mesh", MESHES[:4], ids=repr)
def test_the_count_of_groups_refuses_groups_along_another_axis_and_in_another_order(mesh):
    """Its sabotage twin."""
    first, last = mesh.axes[0], mesh.axes[-1]
    assert wrong_groups(mesh, first, spoil=lambda groups: mesh.groups(last))
    assert wrong_groups(mesh, first, spoil=lambda groups: [g[::-1] for g in groups])


@every_mesh
def test_two_groups_of_one_rank_meet_in_it_alone(mesh):
    for rank in mesh.ranks:
        groups = list(mesh.groups_of(rank).values())
        assert all(set(a) & set(b) == {rank} for i, a in enumerate(groups) for b in groups[:i])


@every_mesh
def test_a_sub_mesh_is_the_mesh_of_its_axes_where_the_others_are_the_ranks_own(mesh):
    for rank, place in counted(mesh).items():
        assert mesh.sub(*mesh.axes, rank=rank) == mesh
        for axis in mesh.axes:
            left = [a for a in mesh.axes if a != axis]
            sub = mesh.sub(*left, rank=rank)
            assert sub.axes == tuple(left)
            assert set(sub.ranks) == {
                other for other, at in counted(mesh).items() if at[axis] == place[axis]
            }
            for a in left:  # along an axis that it has, a rank's group is that of the whole
                assert sub.groups_of(rank)[a] == mesh.groups_of(rank)[a]


def test_a_mesh_says_its_axes_and_equals_another_of_the_same_ranks():
    assert repr(Mesh((2, 4), ("dp", "tp"))) == "Mesh(dp=2, tp=4)"
    assert repr(MESHES[3]) == "Mesh(dp=3, tp=2; ranks 7, 4, 9, 0, 2, 5)"
    assert repr(Mesh((9,), ("dp",), range(1, 10))).endswith("ranks 1, 2, 3, 4, 5, 6, 7, 8, ..., 9)")
    assert Mesh.of(dp=2, tp=4) == Mesh([2, 4], ["dp", "tp"], range(8)) != Mesh.of(tp=2, dp=4)
    assert len({Mesh.of(dp=2), Mesh((2,), ("dp",))}) == 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda m: Mesh.of(dp=0), "Mesh: dp is 0, but must be a whole number of at least 1"),
        (lambda m: Mesh.of(dp=2.0), "Mesh: dp is 2.0"),
        (lambda m: Mesh((2, 2), ("dp",)), "axes is .'dp',., but must be one name for each of 2"),
        (lambda m: Mesh((2, 2), ("dp", "dp")), "axes is .*one name for each"),
        (lambda m: Mesh((2,), ("dp",), (0, 1, 2)), "ranks is .0, 1, 2., but must be 2 different"),
        (lambda m: Mesh((2,), ("dp",), (3, 3)), "ranks is .3, 3."),
        (lambda m: m.coordinates(4), "rank is 4, but must be one of 0, 1, 2, 3"),
        (lambda m: m.groups_of(-1), "rank is -1"),
        (lambda m: m.groups("pp"), "axis is 'pp', but must be one of dp, tp"),
        (lambda m: m.sub("pp", rank=0), "axis is 'pp'"),
        (lambda m: m.rank(dp=1), "coordinates is {'dp': 1}, but must be one each of dp, tp"),
        (lambda m: m.rank(dp=1, tp=2), "tp is 2, but must be from 0 to 1"),
        (lambda m: Shard("rows"), "Shard: dim is 'rows', but must be a whole number"),
        (lambda m: Shard(True), "dim is True"),
    ],
)
def test_a_wrong_argument_is_named_with_its_rule(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong(Mesh.of(dp=2, tp=2))


PLACED = [Replicate(), Copies(), Partial(), Shard(0), Shard(1)]


@pytest.mark.parametrize("placement", PLACED, ids=repr)
def test_the_gradient_of_a_gradient_lies_as_the_tensor_does(placement):
    assert placement.gradient.gradient == placement
    assert placement.gradient.counts_once == placement.counts_once


def test_a_copy_is_transposed_to_a_sum_and_only_one_vector_counts_once():
    assert (Copies().gradient, Partial().gradient) == (Partial(), Copies())
    assert [p for p in PLACED if p.counts_once] == [Replicate()]
    assert [p for p in PLACED if p.same_everywhere] == [Replicate(), Copies()]
    assert Shard(0) != Shard(1) and len({*PLACED, Shard(1)}) == 5


def test_process_groups_are_those_of_the_mesh_and_of_no_other():
    def made(sizes):
        import torch.distributed as dist

        from dtlib.mesh import Mesh, make_groups

        groups = make_groups(Mesh.of(**sizes))
        return {axis: dist.get_process_group_ranks(group) for axis, group in groups.items()}

    mesh, other = Mesh.of(dp=2, tp=2), Mesh.of(tp=2, dp=2)
    with launch(4, timeout=60) as ranks:
        found = ranks.run(made, {"dp": 2, "tp": 2})
        assert found == [mesh.groups_of(rank) for rank in range(4)]
        assert found != [other.groups_of(rank) for rank in range(4)]
        with pytest.raises(RanksError, match=r"mesh is Mesh\(dp=3\), but must be one of all ranks"):
            ranks.run(made, {"dp": 3})
