"""Sets that a reader guesses: what is right follows from an einsum, and every slip is named."""

from itertools import product

import pytest
from scripts import Scripts

from dtlib.composition import USES
from dtlib.explore import GradientSums, Task
from dtlib.explore.gradient_sums.gradient_sums import MESH
from dtlib.explore.kit.still import still


def board(**options) -> GradientSums:
    return GradientSums(**{"title": "Over which axes?"} | options)


def sets():
    return (dict(zip(MESH.axes, on, strict=True)) for on in product((0, 1), repeat=4))


@pytest.mark.parametrize("weight", USES)
def test_every_set_of_axes_names_the_same_numbers_in_the_page(weight):
    shown = board()
    for added in sets():
        names = still(shown, weight=weight, **added)["names"]
        expected = shown.names(weight=weight, **added)
        assert {name: names[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("weight", USES)
def test_one_set_is_right_and_it_is_that_of_the_rule(weight):
    shown, use = board(), USES[weight]
    right = [added for added in sets() if shown.names(weight=weight, **added)["right"]]
    rule = {axis for axis, letter in use.cuts.items() if letter and letter not in use.weight}
    assert [{axis for axis, on in added.items() if on} for added in right] == [rule]


def test_the_group_of_a_rank_is_that_of_the_mesh():
    shown = board()
    with_model = Scripts("gradient_sums/model.js")
    for added, rank in product(sets(), MESH.ranks):
        over = [axis for axis in MESH.axes if added[axis]]
        found = with_model("groupOf(axes, at, added)", axes=[*MESH.axes], at=rank, added=added)
        assert found == sorted(MESH.sub(*over, rank=rank).ranks)
    assert shown.spec["axes"] == [*MESH.axes]


def test_each_slip_is_said():
    shown = board()
    said = {
        ("norm", "dp"): "it has 2 of the 8 terms that are due",
        ("expert", "dp cp"): "it adds 2 different pieces",
        ("norm of a whole stream", "dp cp tp"): "it counts each term 2 times",
        ("queries", "dp cp"): "all the terms that are due, each once",
    }
    for (weight, over), words in said.items():
        added = {axis: int(axis in over.split()) for axis in MESH.axes}
        assert words in still(shown, weight=weight, **added)["said"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weight": "bias"}, "weight: 'bias', but must be one of queries"),
        ({"task": Task("", "share == 7", {})}, "is not met by its solution"),
    ],
)
def test_another_weight_and_a_task_without_an_end_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        board(**options)
