"""Stairs are in the order of the samples: with replacement there are none, and nowhere else."""

import math

import numpy as np
import pytest

from dtlib.scaling_laws import train_in_epochs, visited_loss

SAMPLES, RATE = 128, 0.25


@pytest.fixture(scope="module")
def runs():
    return {
        order: train_in_epochs(samples=SAMPLES, weights=8192, epochs=4, rate=RATE, order=order)
        for order in ("epochs", "drawn")
    }


def part(series, epoch, of=4):
    """Means of a loss over the parts of an epoch."""
    one = np.array(series[epoch * SAMPLES : (epoch + 1) * SAMPLES])
    return [piece.mean() for piece in np.split(one, of)]


def test_within_an_epoch_the_shown_loss_is_that_of_so_many_visits(runs):
    for epoch in range(4):
        for mean in part(runs["epochs"].shown, epoch):
            assert mean == pytest.approx(visited_loss(RATE, epoch), rel=0.25)


def test_the_step_at_a_border_is_as_high_as_a_visit(runs):
    for epoch in (1, 2, 3):
        before, after = (
            part(runs["epochs"].shown, epoch - 1)[-1],
            part(runs["epochs"].shown, epoch)[0],
        )
        assert after / before == pytest.approx((1 - RATE) ** 2, rel=0.25)


def test_the_same_run_has_no_step_when_all_samples_are_looked_at(runs):
    every = np.array(runs["epochs"].all_samples)
    largest = (every[:-1] - every[1:]).max()
    assert largest < 3 / SAMPLES  # no step takes more than one sample's error away
    assert np.array(runs["epochs"].fresh).mean() == pytest.approx(1, abs=0.1)


def test_sabotage_samples_that_are_drawn_make_no_stairs(runs):
    for epochs in (1, 2, 3):
        due = math.exp(-epochs * (1 - (1 - RATE) ** 2))
        assert runs["drawn"].all_samples[epochs * SAMPLES] == pytest.approx(due, rel=0.3)
    inside = [part(runs["drawn"].shown, epoch) for epoch in range(4)]
    first, last = ([parts[place] for parts in inside] for place in (0, -1))
    assert sum(last) < 0.9 * sum(first)  # it falls within an epoch


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"order": "random"}, "order is 'random', but must be epochs or drawn"),
        ({"rate": 1.0}, "rate is 1.0, but must be between 0 and 1"),
        ({"samples": 0}, "samples is 0"),
    ],
)
def test_bad_input_is_named(options, said):
    with pytest.raises(ValueError, match=said):
        train_in_epochs(**options)
