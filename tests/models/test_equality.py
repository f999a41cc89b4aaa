"""The comparison that every strategy is held to: it sees what differs, and only that."""

import pytest
import torch
from small_models import SPECS, each_spec, small_model, some_tokens

from dtlib.models import GPT, gradients, next_token_loss, relative_errors, worst


def gradients_of(model, rows=slice(None)):
    tokens = some_tokens(tokens=9)[rows]
    next_token_loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()
    return gradients(model)


@pytest.mark.parametrize("spec", **each_spec)
def test_every_parameter_has_a_gradient_and_a_run_equals_itself(spec):
    first, second = (gradients_of(small_model(spec)) for _ in range(2))
    assert set(first) == {name for name, _ in small_model(spec).named_parameters()}
    assert set(relative_errors(first, second).values()) == {0.0}


@pytest.mark.parametrize("spec", **each_spec)
def test_two_halves_of_a_batch_average_to_the_whole(spec):
    halves = [gradients_of(small_model(spec), rows) for rows in (slice(0, 1), slice(1, 2))]
    mean = {name: (halves[0][name] + halves[1][name]) / 2 for name in halves[0]}
    whole = gradients_of(small_model(spec))
    assert worst(relative_errors(mean, whole))[1] < 1e-12
    assert worst(relative_errors(halves[0], whole))[1] > 0.1


@pytest.mark.parametrize("spec", **each_spec)
def test_32_bits_agree_with_64_bits_to_rounding(spec):
    single = gradients_of(GPT(spec))
    assert worst(relative_errors(single, gradients_of(small_model(spec))))[1] < 1e-5


def test_a_gradient_of_one_parameter_that_is_off_is_found_by_name():
    found, reference = (gradients_of(small_model(SPECS[0])) for _ in range(2))
    found["blocks.1.attention.out.bias"] *= 2
    assert worst(relative_errors(found, reference)) == ("blocks.1.attention.out.bias", 1.0)


def test_the_bias_of_keys_that_are_not_turned_has_no_gradient_but_rounding():
    spec, name = SPECS[0], "blocks.0.attention.key.bias"
    found, reference = (gradients_of(small_model(spec)) for _ in range(2))
    assert reference[name].abs().max() < 1e-15
    found[name] = -found[name]
    assert relative_errors(found, reference)[name] < 1e-14
    found[name] = found[name] + 1e-3  # and a gradient where none should be is seen
    assert relative_errors(found, reference)[name] > 1e-4


def test_not_a_number_is_infinitely_wrong_on_either_side():
    good, bad = {"w": torch.ones(2)}, {"w": torch.tensor([1.0, float("nan")])}
    for found, reference in ((good, bad), (bad, good), (bad, bad)):
        assert relative_errors(found, reference) == {"w": float("inf")}


def test_a_gradient_where_the_reference_is_zero_is_infinitely_wrong():
    zero, one = {"w": torch.zeros(2)}, {"w": torch.ones(2)}
    assert relative_errors(one, zero) == {"w": float("inf")}
    assert relative_errors(zero, zero) == {"w": 0.0}


@pytest.mark.parametrize(
    "found, message",
    [
        ({}, r"found lacks \['w'\]"),
        ({"w": torch.ones(2), "v": torch.ones(1)}, r"found has \['v'\]"),
        ({"w": torch.ones(1, 2)}, r"the shape of 'w' is \(1, 2\), but must be \(2,\)"),
    ],
)
def test_other_names_and_shapes_are_refused(found, message):
    with pytest.raises(ValueError, match=message):
        relative_errors(found, {"w": torch.ones(2)})


def test_a_parameter_without_a_gradient_is_left_out():
    model = small_model(SPECS[0])
    model.head.weight.requires_grad_(False)
    assert "head.weight" not in gradients_of(model)
    with pytest.raises(ValueError, match="errors is empty"):
        worst({})
