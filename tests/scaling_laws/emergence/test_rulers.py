"""What metrics make of a smooth loss: exactly, by counting, and by drawing."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dtlib.scaling_laws import (
    all_fail_chance,
    at_least,
    exact_match,
    exact_match_of_scale,
    local_exponents,
    most_success_unseen,
    rise_factor,
    rise_of_share,
    shift_factor,
)

FALLS = (0.1, 0.3, 0.5, 1.0)


def scale_at(height, fall, in_a_row, answer_loss=2.0):
    """The compute at which exact match has that height, by halving its logarithm."""
    low, high = -200.0, 200.0
    for _ in range(200):
        middle = (low + high) / 2
        value = exact_match_of_scale(math.exp(middle), answer_loss, fall, in_a_row)
        low, high = (middle, high) if value < height else (low, middle)
    return math.exp(low)


@pytest.mark.parametrize("fall", FALLS)
@pytest.mark.parametrize("in_a_row", [1, 2, 10, 100])
def test_more_answers_move_the_rise_and_do_not_narrow_it(fall, in_a_row):
    tenth, nine = (scale_at(height, fall, in_a_row) for height in (0.1, 0.9))
    assert nine / tenth == pytest.approx(rise_factor(fall), rel=1e-6)
    moved = tenth / scale_at(0.1, fall, 1)
    assert moved == pytest.approx(shift_factor(in_a_row, fall), rel=1e-6)


def test_sabotage_a_loss_with_a_floor_is_no_such_law():
    def with_floor(scale, in_a_row):
        return exact_match(0.01 + 2 * scale**-0.5, in_a_row)

    values = [with_floor(10**x, 100) for x in np.linspace(0, 12, 200)]
    assert max(values) < 0.9  # the rise to nine in ten never ends


def test_exact_match_is_a_chain_of_draws():
    draw = np.random.default_rng(0)
    right = (draw.random((200_000, 3)) < math.exp(-0.4)).all(axis=1).mean()
    assert right == pytest.approx(exact_match(0.4, 3), abs=5 * math.sqrt(0.21 / 200_000))


@pytest.mark.parametrize(("needed", "answers"), [(1, 1), (1, 4), (3, 4), (4, 4), (5, 6)])
def test_at_least_counts_all_outcomes(needed, answers):
    q = Fraction(1, 3)
    outcomes = product((0, 1), repeat=answers)
    chance = sum(
        math.prod(q if one else 1 - q for one in outcome)
        for outcome in outcomes
        if sum(outcome) >= needed
    )
    assert at_least(1 / 3, needed, answers) == pytest.approx(float(chance), rel=1e-12)


def test_a_share_that_must_be_reached_rises_the_faster_the_more_answers_there_are():
    rises = [rise_of_share(9 * k // 10, k, 0.5) for k in (10, 100, 1000)]
    assert rises == sorted(rises, reverse=True)
    # the spread of a share is one over the root of k, and so is the logarithm of the rise
    logs = [math.log(rise) for rise in rises]
    assert logs[1] / logs[2] == pytest.approx(math.sqrt(10), rel=0.05)


def test_all_that_must_be_right_rise_as_one_does():
    for k in (1, 10, 100):
        assert rise_of_share(k, k, 0.5) == pytest.approx(rise_factor(0.5), rel=1e-9)


@pytest.mark.parametrize("items", [10, 100, 164, 5000])
def test_the_success_that_is_not_excluded_is_the_border(items):
    border = most_success_unseen(items)
    assert all_fail_chance(border, items) == pytest.approx(0.05, rel=1e-9)
    assert all_fail_chance(1.1 * border, items) < 0.05 < all_fail_chance(0.9 * border, items)
    assert border == pytest.approx(3 / items, rel=0.15)


def test_a_test_without_success_is_as_frequent_as_said():
    draw = np.random.default_rng(1)
    none = (draw.random((50_000, 40)) >= 0.05).all(axis=1).mean()
    assert none == pytest.approx(all_fail_chance(0.05, 40), abs=0.01)


def test_a_power_law_has_one_exponent_and_a_bend_has_others():
    x = [2.0**i for i in range(6)]
    assert local_exponents(x, [v**-0.7 for v in x]) == pytest.approx([0.7] * 5)
    bent = local_exponents(x, [1 / (1 + v * v) for v in x])
    assert bent[0] < 1.4 < bent[-1]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: at_least(1.5, 1, 2), "success is 1.5, but must be a number from 0 to 1"),
        (lambda: at_least(0.5, 3, 2), "needed is 3, but must be at most 2"),
        (lambda: most_success_unseen(0), "items is 0"),
        (lambda: most_success_unseen(5, doubt=1), "doubt is 1, but must be between 0 and 1"),
        (lambda: local_exponents([1], [1]), "as long as x, 1, and above 1"),
        (lambda: local_exponents([1, 2], [1, 0]), "positive everywhere"),
        (lambda: all_fail_chance(2, 5), "success is 2"),
    ],
)
def test_an_error_names_what_is_wrong(call, said):
    with pytest.raises(ValueError, match=said):
        call()
