"""Estimates of the noise scale: unbiased, of one kind, with an interval that holds."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dtlib.scaling_laws import (
    NoisyQuadratic,
    batch_gradient_square,
    noise_scale,
    per_example_noise_scale,
)
from dtlib.scaling_laws.noise.estimate import student_quantile


def batches_of(outcomes, size):
    """Every batch of so many samples, each of the outcomes alike: all are equally likely."""
    return product(outcomes, repeat=size)


def mean_square(batch):
    columns = list(zip(*batch, strict=True))
    return sum(Fraction(sum(column), len(batch)) ** 2 for column in columns)


OUTCOMES = [(3, -1), (-1, 2), (4, 5), (0, 0)]  # gradients of a sample: their law, by counting
MEAN = [Fraction(sum(column), 4) for column in zip(*OUTCOMES, strict=True)]
SIGNAL = sum(g**2 for g in MEAN)
NOISE = sum(sum((x - g) ** 2 for x, g in zip(o, MEAN, strict=True)) for o in OUTCOMES) / 4


@pytest.mark.parametrize(("small", "large"), [(1, 2), (1, 4), (2, 4)])
def test_two_batch_sizes_are_unbiased_over_all_batches_that_there_are(small, large):
    signals, noises = [], []
    for batch in batches_of(OUTCOMES, large):
        parts = [batch[i : i + small] for i in range(0, large, small)]
        small_square = sum(map(mean_square, parts)) / len(parts)
        found = noise_scale([float(small_square)], [float(mean_square(batch))], small, large)
        signals.append(found.signal)
        noises.append(found.noise)
    assert math.isclose(math.fsum(signals) / len(signals), SIGNAL, rel_tol=1e-12)
    assert math.isclose(math.fsum(noises) / len(noises), NOISE, rel_tol=1e-12)


def test_the_square_of_the_batch_alone_is_biased_by_the_noise():
    squares = [float(mean_square(batch)) for batch in batches_of(OUTCOMES, 4)]
    due = batch_gradient_square(float(SIGNAL), float(NOISE), batch=4)
    assert math.isclose(math.fsum(squares) / len(squares), due, rel_tol=1e-12)
    assert due > float(SIGNAL) * 1.01


@pytest.mark.parametrize("samples", [3, 16, 200])
def test_per_example_is_the_two_batch_estimate_at_one_and_all(samples):
    rows = np.random.default_rng(samples).normal(1.0, 2.0, size=(samples, 7))
    by_rows = per_example_noise_scale(rows)
    squares = (rows**2).sum(axis=1).mean(), (rows.mean(axis=0) ** 2).sum()
    by_sizes = noise_scale([squares[0]], [squares[1]], 1, samples)
    assert math.isclose(by_rows.noise, by_sizes.noise, rel_tol=1e-12)
    assert math.isclose(by_rows.signal, by_sizes.signal, rel_tol=1e-12)
    assert math.isclose(by_rows.noise, rows.var(axis=0, ddof=1).sum(), rel_tol=1e-12)


def drawn_pairs(model, pairs, small, large, draw):
    rows = np.stack([model.gradients(large, draw) for _ in range(pairs)])
    parts = rows.reshape(pairs, large // small, small, -1).mean(axis=2)
    return (parts**2).sum(axis=2).mean(axis=1), (rows.mean(axis=1) ** 2).sum(axis=1)


def covered(trials, pairs, widen=1.0):
    model = NoisyQuadratic([1.0, 0.5, 0.25], [2.0, 3.0, 1.0])
    draw, hits = np.random.default_rng(1), 0
    for _ in range(trials):
        found = noise_scale(*drawn_pairs(model, pairs, 2, 16, draw), 2, 16)
        middle = found.value
        low, high = middle - (middle - found.low) * widen, middle + (found.high - middle) * widen
        hits += low <= model.simple_batch <= high
    return hits / trials


def test_the_interval_holds_the_exact_noise_scale_nineteen_times_of_twenty():
    assert 0.92 < covered(600, pairs=40) < 0.98


def test_an_interval_of_half_the_width_is_found_out():
    assert covered(600, pairs=40, widen=0.5) < 0.8


def test_the_jackknife_holds_it_nearly_as_often():
    model, draw = NoisyQuadratic([1.0, 0.5, 0.25], [2.0, 3.0, 1.0]), np.random.default_rng(2)
    found = [per_example_noise_scale(model.gradients(200, draw)) for _ in range(300)]
    hits = sum(scale.low <= model.simple_batch <= scale.high for scale in found)
    assert 0.9 < hits / 300 < 0.99


def test_a_gradient_that_cannot_be_told_from_zero_has_no_upper_end():
    found = noise_scale([5.0, 4.0, 6.0, 5.2], [0.5, 0.7, 0.4, 0.6], 1, 10)
    assert found.high == math.inf and found.low > 0
    below = noise_scale([5.0, 5.0], [0.1, 0.2], 1, 10)
    assert below.signal < 0 and below.value == math.inf
    assert noise_scale([5.0], [2.0], 1, 10).high == math.inf


def test_quantiles_are_those_of_the_table():
    for freedom, due in ((3, 3.182), (4, 2.776), (29, 2.045), (30, 2.042), (10**6, 1.960)):
        assert abs(student_quantile(freedom) - due) < 6e-4


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: noise_scale([1.0], [1.0, 2.0], 1, 2), r"squares of \(small, large\) is \(1, 2\)"),
        (lambda: noise_scale([], [], 1, 2), r"one at least"),
        (lambda: noise_scale([1.0], [1.0], 4, 4), r"one size alone has one equation"),
        (lambda: noise_scale([1.0, math.nan], [1.0, 1.0], 1, 2), r"small_squares\[1\] is nan"),
        (lambda: noise_scale([1.0], [-1.0], 1, 2), r"large_squares\[0\] is -1.0"),
        (lambda: per_example_noise_scale([[1.0], [2.0]]), r"\(2, 1\), but must be \(samples"),
        (lambda: per_example_noise_scale([[1.0], [math.nan], [2.0]]), r"NaN"),
    ],
)
def test_what_is_missing_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()
