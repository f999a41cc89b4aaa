"""A law that bends: what points see of the bend, and what a fit says when they see nothing."""

from dataclasses import astuple, fields, replace

import numpy as np
import pytest

from dtlib.scaling_laws import (
    BrokenPowerLaw,
    NotIdentified,
    fit_broken,
    identified,
    require_identified,
)

LAW = BrokenPowerLaw(log_b=0.2, c0=0.3, c1=0.5, log_d=0.0, log_f=-1.0)
NAMES = [field.name for field in fields(LAW)]
BEFORE, THROUGH = np.geomspace(1e-3, 0.1, 15), np.geomspace(1e-3, 1e3, 25)


def test_far_from_the_break_it_is_one_power_and_then_another():
    for low, due in ((1e-6, 0.3), (1e6, 0.8)):
        slope = -(LAW.log_at(2 * low) - LAW.log_at(low)) / np.log(2)
        assert slope == pytest.approx(due, abs=1e-3)


def test_the_jacobian_is_what_differences_say():
    numbers = np.array(astuple(LAW))
    for column, _ in enumerate(NAMES):
        step = np.zeros(len(NAMES))
        step[column] = 1e-6
        up, down = (BrokenPowerLaw(*(numbers + sign * step)) for sign in (1, -1))
        due = (up.log_at(THROUGH) - down.log_at(THROUGH)) / 2e-6
        assert LAW.jacobian(THROUGH)[:, column] == pytest.approx(due, abs=1e-7)


def test_a_fit_finds_the_law_through_whose_bend_there_are_points():
    start = BrokenPowerLaw(0.0, 0.5, 0.3, 1.0, -0.5)
    found = fit_broken(THROUGH, LAW(THROUGH), start)
    assert astuple(found) == pytest.approx(astuple(LAW), abs=1e-5)


def test_errors_are_those_of_many_noisy_fits():
    draw, noise = np.random.default_rng(0), 0.02
    found = [
        astuple(fit_broken(THROUGH, LAW(THROUGH) * np.exp(noise * draw.standard_normal(25)), LAW))
        for _ in range(60)
    ]
    spread = dict(zip(NAMES, np.std(found, axis=0), strict=True))
    for name, error in identified(LAW, THROUGH, noise).errors.items():
        assert spread[name] == pytest.approx(error, rel=0.35)


def test_two_laws_that_agree_before_the_break_differ_by_more_than_a_factor_of_two_after_it():
    y = LAW(BEFORE)
    steep, flat = (fit_broken(BEFORE, y, replace(LAW, c1=c1), held=("c1",)) for c1 in (0.1, 1.5))
    for law in (steep, flat):
        assert np.abs(np.log(law(BEFORE) / y)).max() < 1e-3
    assert steep(100.0) > 2 * flat(100.0)


def test_the_direction_that_is_not_seen_is_a_later_and_steeper_break():
    blind = identified(LAW, BEFORE, 0.02).blind
    assert min(blind["c1"], blind["log_d"]) > 0.5
    assert max(abs(blind[name]) for name in ("log_b", "c0")) < 0.01


def test_an_unseen_bend_is_refused_with_its_direction():
    with pytest.raises(NotIdentified, match=r"to 0\.1 do not see the direction .*c1.*log_d"):
        require_identified(LAW, BEFORE, 0.02)
    assert require_identified(LAW, THROUGH, 0.02).condition < 1000


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: identified(LAW, [1, 2], 0.1), "x is 2, but must be at least 5 points"),
        (lambda: fit_broken([1, 2, 3], [1, 2, 3], LAW), "at least 5 points"),
        (lambda: fit_broken([1, 2, 3, 4, 0], [1] * 5, LAW), "positive numbers"),
        (lambda: fit_broken([1, 2], [1], LAW), "as many positive numbers of each"),
    ],
)
def test_bad_input_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()
