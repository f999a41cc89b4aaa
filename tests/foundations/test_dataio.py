"""Theorems of feeding a run: bytes, the cluster's ridge, queues, blocks and caches."""

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

from dtlib.foundations import NOTATION
from dtlib.foundations.data.rates import (
    busy_fraction_bound,
    cache_fill_time,
    cache_lasting_time,
    data_bandwidth,
    data_intensity,
    data_ridge_intensity,
    fetches_in_flight,
    kingman_wait_time,
    read_amplification,
    token_rate,
)
from dtlib.models.spec import training_flops

CLUSTER = {"P": 256, "peak": 989e12, "mfu": 0.4}
names = ("params", "P", "peak", "mfu", "token_bytes", "amplification", "storage")
params, P, peak, mfu, token_bytes, amplification, storage = (NOTATION[n].sympy() for n in names)


def equal(left, right) -> bool:
    return sp.simplify(left - right) == 0


def test_the_token_rate_does_the_work_of_training_in_the_cluster_s_time():
    tokens = token_rate(params, P, peak, mfu)
    assert equal(training_flops(params, tokens), P * peak * mfu)


def test_a_run_starves_exactly_when_its_intensity_is_below_the_ridge_of_the_whole_cluster():
    need = data_bandwidth(params, P, peak, mfu, token_bytes, amplification)
    above = data_intensity(params, token_bytes, amplification) / data_ridge_intensity(
        P, peak, mfu, storage
    )
    assert equal(need / storage, 1 / above)


def test_sabotage_the_ridge_of_one_gpu_is_off_by_the_number_of_gpus():
    of_one = data_ridge_intensity(1, peak, mfu, storage)
    assert equal(data_ridge_intensity(P, peak, mfu, storage) / of_one, P)


def test_a_70b_model_on_256_gpus_reads_a_megabyte_a_second():
    assert token_rate(70e9, **CLUSTER) == pytest.approx(241e3, rel=1e-3)
    needs = [
        data_bandwidth(70e9, **CLUSTER, token_bytes=b, amplification=1.25) / 1e6 for b in (2, 4)
    ]
    assert needs == pytest.approx([0.6, 1.2], rel=0.01)


def test_the_printed_exercise_is_off_by_ten():
    cluster = {"P": 128, "peak": 989e12, "mfu": 0.45}
    rate = token_rate(13e9, **cluster)
    need = data_bandwidth(13e9, **cluster, token_bytes=1500, amplification=1.3)
    assert rate == pytest.approx(730e3, rel=1e-3) and need == pytest.approx(1.42e9, rel=3e-3)
    assert rate / 73e3 == pytest.approx(10, rel=1e-3) and need / 142e6 == pytest.approx(
        10, rel=3e-3
    )


def test_little_for_a_loader():
    fetch, step = NOTATION["fetch"].sympy(), NOTATION["step"].sympy()
    assert equal(fetches_in_flight(fetch, step), 1 / step * fetch)
    assert busy_fraction_bound(4, 2, 0.5) == 1 == busy_fraction_bound(9, 2, 0.5)
    assert busy_fraction_bound(1, 2, 0.5) == 0.25


def test_for_arrivals_at_random_kingman_is_the_formula_of_pollaczek_and_khinchine():
    load, spread, service = (NOTATION[n].sympy() for n in ("load", "service_cv", "service"))
    rate, second_moment = load / service, service**2 * (1 + spread**2)
    exact = rate * second_moment / (2 * (1 - load))
    assert equal(kingman_wait_time(load, 1, spread, service), exact)


def waits(gaps, services) -> float:
    """Lindley: the next one waits for what is left of this one's wait and service."""
    wait, total = 0.0, 0.0
    for gap, service in zip(gaps.tolist(), services.tolist(), strict=True):
        wait = max(0.0, wait - gap)
        total += wait
        wait += service
    return total / len(gaps)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_kingman_is_the_mean_wait_of_a_simulated_server(load):
    rng, count = np.random.default_rng(0), 200_000
    gaps = rng.exponential(1 / load, count)
    for spread, services in ((1, rng.exponential(1.0, count)), (0, np.ones(count))):
        assert waits(gaps, services) == pytest.approx(
            kingman_wait_time(load, 1, spread, 1.0), rel=0.05
        )
    assert waits(gaps, np.ones(count)) != pytest.approx(kingman_wait_time(load, 1, 1, 1), rel=0.2)


@pytest.mark.parametrize(("record", "block"), [(1, 1), (8, 8), (3, 8), (20, 8), (8, 1)])
def test_a_record_at_a_random_offset_costs_its_blocks(record, block):
    touched = [(start + record - 1) // block - start // block + 1 for start in range(block)]
    read = Fraction(sum(touched) * block, block)
    assert Fraction(read_amplification(Fraction(record), Fraction(block))) == read / record


def test_a_cache_that_is_drained_faster_than_it_fills_lasts_until_the_difference_is_used_up():
    level, seconds = 6000, 0
    while level > 0:
        level, seconds = level + 3 - 9, seconds + 1
    assert cache_lasting_time(6000, 3, 9) == seconds == 1000
    assert cache_fill_time(6000, 3) == 2000


def test_a_terabyte_filled_at_300_and_drained_at_900_lasts_28_minutes():
    assert cache_lasting_time(1e12, 3e8, 9e8) / 60 == pytest.approx(27.8, rel=0.01)
    assert cache_fill_time(1e12, 3e8) / 60 == pytest.approx(55.6, rel=0.01)
