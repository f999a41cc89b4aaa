"""The lab 'Eight ranks, three axes': its laws and its world, held to references of their own."""

from itertools import combinations

import pytest
import torch

from dtlib.exercises import NotYet
from dtlib.exercises.labs.three_axes import laws, left_out, model, programs
from dtlib.exercises.labs.three_axes.world import record_mesh
from dtlib.exercises.worlds.world import Deadlock
from dtlib.mesh import Mesh
from dtlib.models import gradients, next_token_loss, relative_errors

MESHES = ({"dp": 2, "pp": 2, "tp": 2}, {"pp": 4, "dp": 3, "tp": 2}, {"tp": 5})


@pytest.mark.parametrize("sizes", MESHES)
def test_coordinates_are_the_librarys(sizes):
    mesh = Mesh.of(**sizes)
    for rank in range(mesh.size):
        assert programs.coordinates(rank, sizes) == mesh.coordinates(rank)


@pytest.mark.parametrize("sizes", MESHES)
def test_groups_share_all_other_coordinates(sizes):
    at = [programs.coordinates(rank, sizes) for rank in range(laws._ranks(sizes))]
    for axes in (some for n in range(len(sizes) + 1) for some in combinations(sizes, n)):
        group = {rank: g for g in programs.groups_of(sizes, axes) for rank in g}
        for a, b in combinations(range(len(at)), 2):
            alike = all(at[a][axis] == at[b][axis] for axis in sizes if axis not in axes)
            assert (b in group[a]) == alike


def test_the_gradients_alone_are_those_of_the_librarys_loss():
    alone, (tokens, targets) = model.dense(), model.batch()
    next_token_loss(alone(tokens), targets).backward()
    errors = relative_errors(laws._gradients_alone(), gradients(alone))
    assert max(errors.values()) < 1e-14


def test_the_parts_of_a_mesh_are_the_whole_model():
    whole = {name: w.detach() for name, w in model.dense().named_parameters()}
    sizes = {"dp": 1, "pp": 2, "tp": 2}
    held = [model.part_of(whole, programs.coordinates(r, sizes), sizes) for r in range(4)]
    for name, weight in whole.items():
        side = model.cut_side(name)
        parts = [one[name] for one in held if name in one]
        if side is None:
            assert all(part.equal(weight) for part in parts)
        else:
            assert torch.cat(parts, side).equal(weight)


def test_axes_of_is_each_axis_without_which_copies_differ():
    for name, axis in left_out.variants():
        runs = left_out.added(left_out.SIZES, (name, axis))
        assert programs.missing(runs, left_out.SIZES) == (name, axis)
    weights = len(list(model.dense().parameters()))
    assert len(set(left_out.variants())) == weights + 2 * model.SPEC.layers + 1


def test_all_sums_but_none_are_the_step_itself():
    sizes = left_out.SIZES
    made, due = left_out.added(sizes, None), laws.parts_of_one(sizes)
    for found, right in zip(made, due, strict=True):
        assert max(relative_errors(found, right).values()) < 1e-12
    for found, right in zip(left_out.broken(), due, strict=True):
        name = left_out.LEFT_OUT[0]
        assert (max(relative_errors(found, right).values()) > 0.01) == (name in found)


def test_sabotage_a_step_that_leaves_out_any_one_sum_is_refused():
    for name, axis in left_out.variants():

        def axes(n, name=name, axis=axis):
            return [a for a in programs.axes_of(n) if (n, a) != (name, axis)]

        def step(*args, axes=axes):
            return programs.step(*args, axes_of=axes)

        with pytest.raises(NotYet, match=f"nobody has added along {axis}"):
            laws.step_law(step, 2)


def test_messages_arrive_in_order_and_a_missing_one_is_a_deadlock():
    def two(comm):
        if comm.rank == 0:
            return [comm.send(torch.tensor([k]).double(), 1) for k in range(2)]
        return [comm.recv((1,), 0).item() for _ in range(2)]

    assert record_mesh(two, 2)[1] == [0.0, 1.0]

    def waits(comm):
        team = comm.split([[0], [1]])
        team.all_reduce(torch.ones(1))
        return comm.recv((1,), 0) if comm.rank else None

    with pytest.raises(Deadlock, match="rank 1 waits to receive from rank 0"):
        record_mesh(waits, 2)
