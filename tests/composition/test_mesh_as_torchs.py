"""A mesh's groups and a placement's parts are torch's own, on real ranks, uneven ones as well."""

import time
from itertools import product

import pytest
import torch
import torch.distributed as dist

from dtlib.composition import Placed
from dtlib.mesh import Mesh, Replicate, Shard, make_groups
from dtlib.runtime import RankTimeout, launch

MESHES = [Mesh.of(dp=2, tp=2), Mesh.of(dp=4), Mesh.of(pp=2, dp=1, tp=2), Mesh.of(dp=1, tp=4)]
CUBE = Mesh.of(pp=2, dp=2, tp=2)


@pytest.fixture(scope="module")
def four():
    with launch(4, timeout=120) as ranks:
        yield ranks


def device_mesh(mesh):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", mesh.shape, mesh_dim_names=mesh.axes)


def group_ranks(mesh):
    """On a rank: its groups as torch's mesh has them, and as `make_groups` made them."""
    theirs, mine = device_mesh(mesh), make_groups(mesh)
    said = dist.get_process_group_ranks
    return (
        {axis: said(theirs.get_group(axis)) for axis in mesh.axes},
        {axis: said(mine[axis]) for axis in mesh.axes},
    )


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_groups_are_those_of_a_device_mesh(four, mesh):
    for rank, (theirs, mine) in enumerate(four.run(group_ranks, mesh)):
        assert theirs == mine == mesh.groups_of(rank)


def test_sabotage_axes_in_another_order_are_other_groups(four):
    crossed = Mesh.of(tp=2, dp=2)
    theirs = [theirs for theirs, _ in four.run(group_ranks, Mesh.of(dp=2, tp=2))]
    assert any(found != crossed.groups_of(rank) for rank, found in enumerate(theirs))


def own_groups_only(wait):
    time.sleep(wait[dist.get_rank()])
    for pair in ([0, 1], [1, 2]):
        if dist.get_rank() in pair:
            dist.all_reduce(torch.ones(1), group=dist.new_group(pair))


@pytest.mark.parametrize("wait", [(0, 0, 0), (0, 0, 0.5), (0.5, 0.5, 0), (0.6, 0.3, 0)], ids=str)
def test_sabotage_who_makes_only_its_own_groups_waits(wait):
    with launch(3, timeout=2) as ranks, pytest.raises(RankTimeout, match=r"ranks? 1"):
        ranks.run(own_groups_only, wait)


def parts(mesh, cases):
    """On a rank: its part of a whole by `Placed` and by DTensor, for each shape and placement."""
    from torch.distributed import tensor as torchs

    theirs, found = device_mesh(mesh), []
    for shape, placements in cases:
        whole = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
        said = [torchs.Shard(p.dim) if isinstance(p, Shard) else torchs.Replicate()
                for p in placements]  # fmt: skip
        part = Placed(mesh, shape, placements).part(dist.get_rank())
        found.append((whole[part], torchs.distribute_tensor(whole, theirs, said).to_local()))
    return found


def cases(mesh, shapes):
    kinds = {shape: [Replicate(), *map(Shard, range(len(shape)))] for shape in shapes}
    return [
        (shape, some) for shape in shapes for some in product(kinds[shape], repeat=len(mesh.axes))
    ]


def test_parts_are_those_of_a_dtensor(four):
    mesh = Mesh.of(dp=2, tp=2)
    given = cases(mesh, [(4, 6), (5, 3), (3, 1), (5, 7, 2)])
    for found in four.run(parts, mesh, given):
        for case, (mine, theirs) in zip(given, found, strict=True):
            assert torch.equal(mine, theirs), case


def test_and_on_a_cube_of_eight():
    given = cases(CUBE, [(5, 7)])
    with launch(8, timeout=120) as ranks:
        for found in ranks.run(parts, CUBE, given):
            for case, (mine, theirs) in zip(given, found, strict=True):
                assert torch.equal(mine, theirs), case
