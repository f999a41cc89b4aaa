"""The laws of the lab 'How large a batch', held to references of their own."""

import math
from fractions import Fraction
from itertools import product
from random import Random

import pytest

from dtlib.exercises import NotYet
from dtlib.exercises.labs.how_large_a_batch import noise, price
from dtlib.exercises.labs.how_large_a_batch.laws import PRICES, measured, tuned_law
from dtlib.exercises.labs.how_large_a_batch.real import TARGET, WIDTH, Learned, steps_at
from dtlib.exercises.worlds import record_replicas
from dtlib.scaling_laws import fit_hyperbola, noise_scale
from dtlib.scaling_laws.noise.estimate import student_quantile

SAMPLES = [(2, 1), (0, 3), (-1, 0), (4, -1)]  # gradients, as likely as one another


def test_moments_are_right_on_average_over_all_batches_that_there_are():
    mean = [Fraction(sum(column), 4) for column in zip(*SAMPLES, strict=True)]
    signal = sum(x * x for x in mean)
    variance = sum(Fraction(sum(x * x for x in g), 4) for g in SAMPLES) - signal
    own, P = 1, 3
    small, large = [], []
    for batch in product(SAMPLES, repeat=own * P):
        small.append(Fraction(sum(x * x for g in batch for x in g), P))
        large.append(sum(Fraction(sum(c), P) ** 2 for c in zip(*batch, strict=True)))
    signals, noises = noise.moments(small, large, Fraction(own), P)
    assert sum(signals) / len(signals) == signal
    assert sum(noises) / len(noises) == variance


@pytest.mark.parametrize("name, signals, noises", list(measured()), ids=str)
def test_what_is_allowed_are_the_ratios_of_fiellers_interval(name, signals, noises):
    own, P = 4, 8
    small = [s + n / own for s, n in zip(signals, noises, strict=True)]
    large = [s + n / (own * P) for s, n in zip(signals, noises, strict=True)]
    due = noise_scale(small, large, own, own * P)
    for k in range(-400, 1600):
        ratio = 2 ** (k / 80)
        inside = due.low <= ratio <= due.high
        assert noise.allowed(ratio, signals, noises) == inside, ratio


def test_the_right_ratio_is_allowed_95_times_of_100():
    draw, hits = Random(8), 0
    for _ in range(2000):
        signals = [draw.gauss(2, 1) for _ in range(12)]
        hits += noise.allowed(30, signals, [30 * s + draw.gauss(0, 20) for s in signals])
    assert abs(hits / 2000 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)


def test_sabotage_who_takes_the_signal_for_known_allows_the_right_ratio_too_seldom():
    draw, hits = Random(8), 0
    for _ in range(500):
        signals = [draw.gauss(2, 1) for _ in range(12)]
        noises = [draw.gauss(60, 5) for _ in range(12)]
        hits += noise.allowed_for_the_noise_alone(30, signals, noises)
    assert hits / 500 < 0.5


def test_a_mean_of_ratios_leans_to_the_step_without_a_signal():
    assert noise.scale([2.0, 0.01], [60.0, 60.0]) < 60
    assert noise.ratios_first([2.0, 0.01], [60.0, 60.0]) > 3000


@pytest.mark.parametrize("given", PRICES, ids=str)
def test_on_given_ranks_the_cheapest_batch_is_the_fastest_and_lies_where_the_slope_vanishes(given):
    fewest, noise_batch, sample_time, fixed, sizes = given
    for P in sizes:
        time = {
            own: price.seconds(fewest, noise_batch, P * own, own, sample_time, fixed)
            for own in range(1, 200)
        }
        best = math.sqrt(noise_batch * fixed / (sample_time * P))
        fastest = min(time, key=time.get)
        assert fastest == min(time, key=lambda own: P * time[own])
        assert fastest in (max(math.floor(best), 1), math.floor(best) + 1)


def test_at_the_noise_scale_both_are_twice_the_fewest():
    curve = fit_hyperbola([10, 100, 1000], [11000, 2000, 1100])
    at = curve.noise_batch
    assert curve.steps(at) == pytest.approx(2 * curve.fewest_steps)
    assert curve.samples(at) == pytest.approx(2 * curve.fewest_steps * curve.noise_batch)


def test_a_tuned_rate_has_few_runs_from_wherever_one_begins():
    for guess in range(-6, 7):
        tried = []
        place, steps = price.tuned(lambda k, tried=tried: tried.append(k) or (k - 1) ** 2, guess)
        assert (place, steps) == (1, 0) and {0, 2} <= set(tried)
        assert len(tried) == len(set(tried)) <= abs(guess - 1) + 3


def test_sabotage_an_edge_is_no_best_rate():
    with pytest.raises(NotYet, match="from 0 on: nobody has tried"):
        tuned_law(lambda steps_at, guess: min(((k, steps_at(k)) for k in range(guess, guess + 5)),
                                              key=lambda way: way[1]))  # fmt: skip


def test_the_labs_gradients_are_those_of_the_batch_cut_into_parts():
    learned = Learned(5)
    parts = [learned.gradient(number, 4) for number in range(4)]
    whole = learned.gradient(0, 16)
    assert sum(parts) / 4 == pytest.approx(whole, abs=1e-7)
    trace = record_replicas(lambda comm: noise.two_squares(parts[comm.rank], comm), 4)
    assert trace.results[0][1] == pytest.approx(float(whole @ whole), rel=1e-5)


def test_a_run_arrives_at_a_good_rate_and_needs_longer_at_a_small_one():
    steps = steps_at(96, (1,))
    assert (WIDTH, TARGET) == (16, 0.7)
    assert steps(-7) < steps(-11) < math.inf


def test_the_quantile_of_few_steps_is_larger():
    assert student_quantile(5) > 1.25 * 1.96
