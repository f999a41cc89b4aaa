"""Over which axes each gradient is added: one set of axes types, and it is the right one."""

from itertools import chain, combinations

import pytest
import torch
import torch.distributed as dist

from dtlib.composition import (
    MIXTURE_USES,
    USES,
    Alone,
    OnRanks,
    Placed,
    PlacementError,
    Types,
    Use,
    mixture_step,
)
from dtlib.mesh import Copies, Mesh, Replicate, Shard, make_groups

MESH = Mesh.of(dp=2, cp=2, tp=2)
RIGHT = {name: use.summed for name, use in MIXTURE_USES.items()}
LEFT_OUT = [(name, axis) for name, axes in RIGHT.items() for axis in axes]


def types(name: str, axes) -> bool:
    try:
        mixture_step(RIGHT | {name: axes}).check()
    except PlacementError:
        return False
    return True


@pytest.mark.parametrize("name", MIXTURE_USES)
def test_of_all_sets_of_axes_one_types_and_it_is_that_of_the_rule(name):
    sets = chain.from_iterable(combinations(MESH.axes, n) for n in range(4))
    assert [axes for axes in sets if types(name, axes)] == [RIGHT[name]]


@pytest.mark.parametrize("use", [*USES.values(), *MIXTURE_USES.values()], ids=lambda use: use.spec)
def test_types_ask_for_copies_of_a_weight_on_the_axes_of_the_rule(use):
    """What is cut along a letter must meet copies of what lacks the letter, and of nothing else."""
    letters = use.spec.partition("->")[0].split(",")
    for axis, letter in use.cuts.items():
        kinds = [Replicate(), Copies(), *(Shard(i) for i in range(len(use.weight)))]
        fits = []
        for kind in kinds:
            others = [
                Shard(each.index(letter)) if letter and letter in each else Copies()
                for each in letters[:-1]
            ]
            if not letter:
                others = [Replicate()] * len(others)
            do = Types([axis])
            values = [do.value(f"x{i}", **{axis: one}) for i, one in enumerate(others)]
            try:
                do.einsum(use.spec, *values, do.value("w", **{axis: kind}))
                fits.append(kind)
            except PlacementError:
                pass
        if axis in use.summed:
            assert fits == [Copies()]
        else:
            assert use.placements[axis] in fits


def whole_values(shapes):
    draw = torch.Generator().manual_seed(5)
    return {n: torch.randint(-1, 3, shape, generator=draw).double() for n, shape in shapes.items()}


def gradients(do, step, values):
    leaves = {name: one.requires_grad_(name in step.weights) for name, one in values.items()}
    loss = step.run(do, **leaves)
    loss.backward()
    return loss.detach(), {name: leaves[name].grad for name in step.weights}


def held(whole, placements, rank):
    return whole[Placed.on(MESH, whole.shape, **placements).part(rank)].clone()


def wrong_on_a_rank(mistakes):
    """On a rank: the loss of all, and the weights whose gradient here is not the right piece."""
    groups, rank, found = make_groups(MESH), dist.get_rank(), []
    right = mixture_step(RIGHT)
    _, due = gradients(Alone(), right, whole_values(right.shapes))
    for sums in mistakes:
        step = mixture_step(sums)
        placed = {**step.weights, **step.inputs}
        own = {n: held(one, placed[n], rank) for n, one in whole_values(step.shapes).items()}
        loss, grads = gradients(OnRanks(groups), step, own)
        dist.all_reduce(loss)
        pieces = {name: held(due[name], placed[name], rank) for name in due}
        found.append((loss.item(), [n for n in due if not torch.equal(grads[n], pieces[n])]))
    return found


def without(name, axis):
    return RIGHT | {name: [one for one in RIGHT[name] if one != axis]}


def test_the_sums_of_the_rule_are_exact_on_ranks_and_without_an_axis_one_gradient_is_wrong(eight):
    by_rank = eight.run(wrong_on_a_rank, [RIGHT, *(without(*one) for one in LEFT_OUT)])
    right = mixture_step(RIGHT)
    loss, _ = gradients(Alone(), right, whole_values(right.shapes))
    assert loss < 2**53
    assert all(found[0] == (loss.item(), []) for found in by_rank)
    for number, (name, _) in enumerate(LEFT_OUT, 1):
        wrong = [found[number] for found in by_rank]
        assert {seen for seen, _ in wrong} == {loss.item()}  # no loss sees it
        assert {one for _, names in wrong for one in names} == {name}


def test_one_axis_too_many_adds_pieces_of_different_weights(eight):
    """A checker refuses it; ranks that do it anyway have tensors of one shape and no error."""
    by_rank = eight.run(experts_added_over_dp_and_ep)
    assert all(differs for differs in by_rank)


def experts_added_over_dp_and_ep():
    groups, rank = make_groups(MESH), dist.get_rank()
    step = mixture_step(RIGHT)
    placed = {**step.weights, **step.inputs}
    own = {n: held(one, placed[n], rank) for n, one in whole_values(step.shapes).items()}
    _, grads = gradients(OnRanks(groups), step, own)
    added = grads["up"].clone()
    dist.all_reduce(added, group=groups["cp"])
    return not torch.equal(added, grads["up"])


@pytest.mark.parametrize(
    ("spec", "cuts", "said"),
    [
        ("bsh,h", {"dp": "b"}, "spec is 'bsh,h', but must be operands, an arrow and a result"),
        ("bsh,h->bsh", {"dp": "z"}, "the cut of dp is 'z', but must be '' or a letter of"),
        ("bsh,h->bsh", {"dp": ","}, "the cut of dp is ','"),
    ],
)
def test_an_einsum_that_is_none_is_refused(spec, cuts, said):
    with pytest.raises(ValueError, match=said):
        Use(spec, cuts)
