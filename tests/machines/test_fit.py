"""Alpha and beta come back from the times they made."""

import numpy as np
import pytest

from dtlib import recordings
from dtlib.foundations import fit_alpha_beta, message_time, ping_pong_fit

ALPHA, BETA = 5e-6, 12e9
SIZES = np.logspace(0, 9, 28)
EXACT = ALPHA + SIZES / BETA


def noisy(seed: int, spread: float = 0.05) -> np.ndarray:
    return EXACT * (1 + spread * np.random.default_rng(seed).standard_normal(len(SIZES)))


@pytest.mark.parametrize("method", ["relative", "ordinary"])
def test_exact_times_give_back_alpha_and_beta(method):
    fit = fit_alpha_beta(zip(SIZES, EXACT, strict=True), method=method)
    assert fit.alpha == pytest.approx(ALPHA, rel=1e-6)
    assert fit.beta == pytest.approx(BETA, rel=1e-9)
    assert fit.max_error < 1e-6
    assert fit.time(10**6) == message_time(10**6, fit.alpha, fit.beta)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("method", ["relative", "ordinary"])
def test_the_fit_is_the_solution_of_a_least_squares_library(method, seed):
    times = noisy(seed)
    weights = 1 / times if method == "relative" else np.ones_like(times)
    system = np.stack([weights, weights * SIZES / 1e9], axis=1)
    alpha, per_gigabyte = np.linalg.lstsq(system, weights * times, rcond=None)[0]
    fit = fit_alpha_beta(zip(SIZES, times, strict=True), method=method)
    if alpha < 0:
        assert fit.alpha == 0
        through_zero = np.linalg.lstsq(system[:, 1:], weights * times, rcond=None)[0][0]
        assert fit.beta == pytest.approx(1e9 / through_zero, rel=1e-9)
    else:
        assert fit.alpha == pytest.approx(alpha, rel=1e-6)
        assert fit.beta == pytest.approx(1e9 / per_gigabyte, rel=1e-9)


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    fits = [fit_alpha_beta(zip(SIZES, noisy(s), strict=True), draws=200) for s in range(100)]
    for low, high, truth in (
        (*zip(*(f.interval.alpha for f in fits), strict=True), ALPHA),
        (*zip(*(f.interval.beta for f in fits), strict=True), BETA),
    ):
        covered = np.mean((np.array(low) <= truth) & (truth <= np.array(high)))
        assert 0.8 <= covered <= 1
        assert np.mean(np.array(high) / np.array(low)) < 1.2


def test_an_interval_repeats_with_its_seed_and_moves_with_another():
    samples = list(zip(SIZES, noisy(0), strict=True))
    assert fit_alpha_beta(samples).interval == fit_alpha_beta(samples).interval
    assert fit_alpha_beta(samples, seed=1).interval != fit_alpha_beta(samples).interval
    wide, narrow = (fit_alpha_beta(samples, level=level).interval for level in (0.99, 0.5))
    assert wide.beta[0] < narrow.beta[0] < narrow.beta[1] < wide.beta[1]


def test_ordinary_least_squares_loses_alpha_which_relative_errors_keep():
    samples = list(zip(SIZES, noisy(3), strict=True))
    relative, ordinary = (fit_alpha_beta(samples, method=m) for m in ("relative", "ordinary"))
    assert abs(relative.alpha / ALPHA - 1) < 0.05
    assert abs(ordinary.alpha / ALPHA - 1) > 0.9
    assert relative.median_error < 0.05 < ordinary.median_error


def test_residuals_are_relative_and_in_the_order_of_the_samples():
    fit = fit_alpha_beta([(0, 1.0), (1, 2.0), (2, 3.3)])
    assert fit.residuals == pytest.approx(fit.time(fit.sizes) / fit.times - 1)
    assert fit.max_error == pytest.approx(np.abs(fit.residuals).max())
    assert fit.median_error <= fit.max_error


def test_a_latency_is_never_negative():
    fit = fit_alpha_beta([(1, 0.5), (2, 2.0), (3, 4.5)])
    assert fit.alpha == 0 and fit.beta > 0


def test_a_fit_prints_its_numbers_with_units():
    text = repr(fit_alpha_beta(zip(SIZES, noisy(0), strict=True)))
    for part in ("28 samples", "95% intervals", "µs", "GB/s", "median", "%"):
        assert part in text


def test_a_draw_without_a_rising_line_has_no_limit_on_beta():
    fit = fit_alpha_beta([(1, 1.0), (2, 1.1), (3, 1.0), (4, 1.15)])
    assert "no limit" in repr(fit)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "0 different message"),
        ([(8, 1.0), (8, 2.0)], "1 different message"),
        ([(1, 1.0), (2, 0.0)], r"sample 1 has seconds = 0\.0, but must be positive"),
        ([(1, 1.0), (2, float("nan"))], "sample 1 has seconds = nan"),
        ([(-1, 1.0), (2, 2.0)], r"sample 0 has bytes = -1\.0, but must be at least 0"),
        ([(1, 2.0), (2, 1.0)], "larger messages do not take longer"),
    ],
)
def test_samples_that_fix_no_line_are_refused(samples, message):
    with pytest.raises(ValueError, match=message):
        fit_alpha_beta(samples)


def test_options_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="method is 'log', but must be one of relative, ordinary"):
        fit_alpha_beta([(1, 1.0), (2, 2.0)], method="log")
    with pytest.raises(ValueError, match="level is 95"):
        fit_alpha_beta([(1, 1.0), (2, 2.0)], level=95)


def recorded(samples):
    deciles = {label: {"low": low, "high": high} for label, (low, high) in samples.items()}
    return recordings.Recording("link", {}, {}, "2026-01-01", {}, deciles)


def test_a_recording_is_fitted_by_the_undisturbed_times_of_each_size():
    times = {"8 B": (3e-6, 9e-6), "64 KB": (9.4e-6, 1.0), "1 MiB": (107.8576e-6, 2.0)}
    fit = ping_pong_fit(recorded(times))
    assert fit.sizes.tolist() == [8, 64_000, 2**20]
    assert fit.alpha == pytest.approx(3e-6, rel=1e-3) and fit.beta == pytest.approx(10e9, rel=1e-3)


def test_of_a_recording_with_other_series_only_the_ping_pong_is_fitted():
    others = {"ring 1 MB": (1.0, 1.0), "200 calls": (1.0, 1.0)}
    fit = ping_pong_fit(
        recorded({**others, "ping-pong 1000": (2e-6, 1), "ping-pong 1 MB": (9e-6, 1)})
    )
    assert fit.sizes.tolist() == [1000, 1_000_000]


@pytest.mark.parametrize("label", ["ring", "1 Mb", "one MB"])
def test_a_label_that_is_no_size_is_named(label):
    with pytest.raises(ValueError, match=label):
        ping_pong_fit(recorded({label: (1.0, 1.0), "1 MB": (2.0, 2.0)}))


@pytest.mark.parametrize("name", ["all-reduce-2-ranks", "collectives-4-ranks", "ping-pong-2-ranks"])
def test_every_recorded_ping_pong_has_the_sizes_that_it_was_run_with(name):
    recording = recordings.load(name)
    assert ping_pong_fit(recording, draws=1).sizes.tolist() == recording.about["sizes"]
