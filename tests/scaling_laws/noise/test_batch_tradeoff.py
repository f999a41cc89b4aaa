"""Steps against samples: the one-step theory, the fit, time and price, the exact quadratic."""

import math
from itertools import pairwise

import numpy as np
import pytest
import sympy

from dtlib.scaling_laws import (
    NoisyQuadratic,
    best_rate,
    best_sign_rate,
    fastest_batch,
    fit_hyperbola,
    loss_cost,
    loss_time,
    momentum_rate,
    sample_efficiency,
    samples_to_loss,
    sign_agreement,
    steps_to_loss,
)

H = 1 / np.arange(1, 41)
BATCHES = [1, 4, 16, 64, 256, 1024, 4096]


def spread(scale=1.0):
    return NoisyQuadratic(H, scale * H)


def test_best_rate_and_its_gain_are_those_of_one_step():
    model = NoisyQuadratic([1.0, 0.3, 0.05], [0.5, 2.0, 0.1], start=[1.0, -2.0, 3.0])
    gain_alone = model.loss - model.losses(1, 1e15, model.most_rate)[-1]
    for batch in (1, 7, 300):
        rate = best_rate(model.most_rate, model.noise_batch, batch)
        losses = [model.losses(1, batch, rate * factor)[-1] for factor in (0.99, 1, 1.01)]
        assert losses[1] < min(losses[0], losses[2])
        share = (model.loss - losses[1]) / gain_alone
        assert math.isclose(share, 1 / (1 + model.noise_batch / batch), rel_tol=1e-9)


def test_the_simple_noise_scale_is_the_noise_scale_where_all_directions_curve_alike():
    alike = NoisyQuadratic([0.3] * 5, [1.0, 2.0, 3.0, 4.0, 5.0])
    assert math.isclose(alike.simple_batch, alike.noise_batch, rel_tol=1e-12)
    assert abs(spread().simple_batch / spread().noise_batch - 1) > 0.5


def test_the_hyperbola_is_the_curve_of_all_batches():
    fewest, noise, batch = sympy.symbols("fewest noise batch", positive=True)
    steps, samples = steps_to_loss(fewest, noise, batch), samples_to_loss(fewest, noise, batch)
    assert sympy.simplify((steps / fewest - 1) * (samples / (fewest * noise) - 1) - 1) == 0
    assert sympy.simplify(samples - steps * batch) == 0
    assert sympy.simplify(sample_efficiency(noise, batch) - fewest * noise / samples) == 0


def test_the_fastest_batch_has_no_slope():
    B, N, t, P, T = sympy.symbols("B N t P T", positive=True)
    slope = sympy.diff(loss_time(1, N, B, t, P, T), B)
    assert sympy.simplify(slope.subs(B, fastest_batch(N, t, P, T))) == 0
    assert loss_cost(10, 5, 2, 0.1, 4, 0.2, 3) == 3 * 4 * loss_time(10, 5, 2, 0.1, 4, 0.2)


def test_a_sample_is_worth_a_ninth_at_eight_noise_scales():
    assert sample_efficiency(noise_batch=512, batch=4096) == pytest.approx(1 / 9)


def test_spreading_is_faster_and_dearer():
    alone, spread = 8 * 100 + 20, 100 + 40  # ms: 8 GPUs with 8 parts each, and 64 with one
    assert round(alone / spread, 1) == 5.9 and round(64 * spread / (8 * alone), 2) == 1.37


def test_the_three_runs_of_the_exercise_are_fitted():
    from dtlib.exercises.chapters.scaling_laws.ch10 import _FEWEST, _FITTED, THREE_RUNS

    fit = fit_hyperbola(*THREE_RUNS)
    assert abs(fit.noise_batch / _FITTED - 1) < 1e-3 and abs(fit.fewest_steps / _FEWEST - 1) < 1e-3


def test_moments_are_those_of_drawn_runs():
    model, draw = NoisyQuadratic([1.0, 0.2], [1.0, 3.0]), np.random.default_rng(0)
    x, v = np.ones((40_000, 2)), np.zeros((40_000, 2))
    due = model.losses(12, 5, 0.1, 0.6)
    for step in range(1, 13):
        v = 0.6 * v + model.h * x + draw.normal(size=x.shape) * np.sqrt(model.variances / 5)
        x = x - 0.1 * v
        loss = (model.h * x**2).sum(axis=1) / 2
        assert abs(loss.mean() - due[step]) < 5 * loss.std() / 200


@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_steps_to_a_loss_are_found_between_the_two_that_enclose_it(momentum):
    model = spread()
    losses = model.losses(300, 8, 0.2, momentum)
    for step in (1, 17, 255, 256):
        target = math.sqrt(losses[step] * losses[step + 1])
        assert abs(model.steps_to(target, 8, 0.2, momentum) - step - 0.5) < 1e-6
    assert model.steps_to(model.loss * 2, 8, 0.2) == 0
    assert model.steps_to(1e-9, 1, 0.5) == math.inf
    assert model.steps_to(1e-3, 8, 5.0) == math.inf  # diverges


def test_after_is_what_the_steps_leave():
    model = spread()
    assert math.isclose(model.after(30, 8, 0.2).loss, model.losses(30, 8, 0.2)[-1], rel_tol=1e-12)


def tuned(model, share, momentum=0.0):
    return [model.best_constant_rate(share * model.loss, batch, momentum) for batch in BATCHES]


def test_tuned_runs_lie_on_a_hyperbola_and_untuned_ones_do_not():
    model = spread()
    rates, steps = zip(*tuned(model, 0.1), strict=True)
    fit = fit_hyperbola(BATCHES, steps)
    assert fit.residual < 0.03 and fit.low < fit.noise_batch < fit.high
    same = [model.steps_to(0.1 * model.loss, batch, rates[2]) for batch in BATCHES[2:]]
    untuned = fit_hyperbola(BATCHES[2:], same)
    assert untuned.noise_batch < 0.5 * fit.noise_batch  # one rate for all fakes an early knee
    assert all(a <= b * 1.0001 for a, b in pairwise(rates))


def test_small_batches_want_a_rate_in_proportion_and_large_ones_the_same():
    (first, _), (second, _), *_, (before, _), (last, _) = tuned(spread(), 0.1)
    assert 3.3 < second / first <= 4 and last / before < 1.02


def test_small_rates_with_momentum_are_larger_rates_without():
    model, momentum = spread(), 0.9
    for rate in (1e-4, 1e-3):
        due = model.losses(20_000, 4, momentum_rate(rate, momentum))[-1]
        assert abs(model.losses(20_000, 4, rate, momentum)[-1] / due - 1) < 2e-2
    assert abs(model.losses(40, 4, 0.1, momentum)[-1] / model.losses(40, 4, 1.0)[-1] - 1) > 0.1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_hyperbola_is_found_again_and_its_interval_holds_it(seed):
    draw = np.random.default_rng(seed)
    batches = 2.0 ** np.arange(12)
    exact = steps_to_loss(800, 60, batches)
    fit = fit_hyperbola(batches, exact)
    assert math.isclose(fit.noise_batch, 60, rel_tol=1e-6)
    noisy = fit_hyperbola(batches, exact * np.exp(0.03 * draw.normal(size=12)))
    assert noisy.low < 60 < noisy.high and noisy.high / noisy.low < 1.4


def test_batches_that_never_saturate_leave_the_knee_open():
    fit = fit_hyperbola([1, 2, 4, 8], [8000, 4010, 1995, 1000])
    assert fit.high == math.inf or fit.high > 1e3


def test_signs_lean_by_the_square_root_and_then_are_right():
    lean = sign_agreement(1e-3, 1.0, 100), sign_agreement(1e-3, 1.0, 400)
    assert math.isclose(lean[1] / lean[0], 2, rel_tol=1e-3)
    draw = np.random.default_rng(3)
    batch = draw.normal(0.1, 1.0, size=(100_000, 9)).mean(axis=1)
    assert abs(np.sign(batch).mean() - sign_agreement(0.1, 1.0, 9)) < 0.01


def test_entries_that_curve_together_want_a_smaller_rate_beyond_a_batch():
    gradient, deviation = np.full(50, 0.1), np.ones(50)
    apart, together = np.eye(50), 0.5 * np.eye(50) + 0.5
    for curvature, falls in ((apart, False), (together, True)):
        rates = [best_sign_rate(gradient, deviation, curvature, 4.0**k) for k in range(8)]
        assert (max(rates) > 1.5 * rates[-1]) == falls


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: fit_hyperbola([1, 2, 4], [3, 2]), r"\(3, 2\)"),
        (lambda: fit_hyperbola([1, 2], [3, 2]), r"batch sizes is 2, but must be at least 3"),
        (lambda: fit_hyperbola([8, 8, 8, 8], [3, 3, 2, 3]), r"batch sizes is 1"),
        (lambda: fit_hyperbola([1, 2, 4], [3, math.nan, 1]), r"steps\[1\] is nan"),
        (lambda: NoisyQuadratic([1.0], [1.0, 2.0]), "two lists of one length"),
        (lambda: NoisyQuadratic([1.0], [0.0]), "variances"),
        (lambda: spread().best_constant_rate(1e-12, 1), "above what noise leaves"),
    ],
)
def test_what_is_missing_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()
