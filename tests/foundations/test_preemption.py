"""The price of interruptions, held against recursion, integration, simulation and Daly's paper."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

from dtlib.foundations import (
    NOTATION,
    failure_multiplier,
    failure_overhead,
    gang_mtbf,
    hour,
    minute,
    optimal_interval,
    retried_time,
    young_interval,
    young_multiplier,
)

GOLDEN = {1: 1.60, 8: 1.89, 32: 2.69, 64: 3.81, 128: 6.54}  # dollars an hour at a price of 1.50


def spot_price(P, life=20 * hour, write=2 * minute, restart=10 * minute, price=1.50):
    return price * young_multiplier(write, restart, gang_mtbf(life, P))


def coin_time(steps: int, fails: Fraction) -> Fraction:
    """Expected tries until `steps` successes in a row, by recursion: one more success is needed
    after E tries, and with probability `fails` everything starts again."""
    expected = Fraction(0)
    for _ in range(steps):
        expected = (expected + 1) / (1 - fails)
    return expected


def by_integration(work, restart, mtbf, parts=2000):
    """E is the integral of t + R + E over failures before the end, plus the end; by Simpson."""
    h = work / parts
    density = [math.exp(-i * h / mtbf) / mtbf * (i * h + restart) for i in range(parts + 1)]
    lost = h / 3 * (density[0] + density[-1] + 4 * sum(density[1::2]) + 2 * sum(density[2:-1:2]))
    survives = math.exp(-work / mtbf)
    return (lost + survives * work) / survives


def simulated(P, life, interval, write, restart, segments, seed):
    """Multipliers of single segments: every instance has a clock, and only the taken one a new."""
    draw = np.random.default_rng(seed)
    clocks = draw.exponential(life, P)
    spent = np.zeros(segments)
    for segment in range(segments):
        while (first := clocks.min()) < interval + write:
            taken = clocks.argmin()
            spent[segment] += first + restart
            clocks -= first
            clocks[taken] = draw.exponential(life)
        clocks -= interval + write
        spent[segment] += interval + write
    return spent / interval


@pytest.mark.parametrize("steps", range(1, 30))
def test_n_successes_in_a_row_take_the_closed_form_of_the_recursion(steps):
    fails = Fraction(1, 7)
    assert coin_time(steps, fails) == ((1 - fails) ** -steps - 1) / fails


def test_the_coin_becomes_the_exponential_as_steps_become_short():
    work = Fraction(3, 2)
    errors = [
        float(coin_time(n, work / n) * work / n) / retried_time(1.5, 0, 1) - 1
        for n in (64, 128, 256)
    ]
    assert errors[0] / errors[1] == pytest.approx(2, abs=0.1)
    assert errors[1] / errors[2] == pytest.approx(2, abs=0.05)
    assert abs(errors[2]) < 0.01


@pytest.mark.parametrize("restart", [0, 0.3, 5])
@pytest.mark.parametrize("work", [0.01, 0.5, 3])
def test_a_retried_segment_takes_the_time_of_its_integral(work, restart):
    assert retried_time(work, restart, 1.0) == pytest.approx(
        by_integration(work, restart, 1.0), rel=1e-9
    )


@pytest.mark.parametrize("P", [1, 8, 64])
def test_the_multiplier_is_inside_the_interval_of_the_simulation(P):
    write, restart, life = 2 * minute, 10 * minute, 20 * hour
    interval = young_interval(write, life / P)
    found = simulated(P, life, interval, write, restart, segments=6000, seed=5)
    expected = failure_multiplier(interval, write, restart, life / P)
    error = found.std() / math.sqrt(len(found))
    assert abs(found.mean() - expected) < 3.5 * error
    assert error / expected < 0.03


def test_sabotage_a_gang_that_fails_at_the_rate_of_one_is_outside_it():
    write, restart, life, P = 2 * minute, 10 * minute, 20 * hour, 64
    interval = young_interval(write, life / P)
    found = simulated(P, life, interval, write, restart, segments=6000, seed=5)
    alone = failure_multiplier(interval, write, restart, life)
    assert abs(found.mean() - alone) > 20 * found.std() / math.sqrt(len(found))


def test_the_minimum_of_exponentials_has_the_sum_of_the_rates():
    t, rates = sp.Symbol("t", positive=True), sp.symbols("a b c", positive=True)
    survives_all = sp.prod(sp.exp(-rate * t) for rate in rates)
    assert sp.simplify(survives_all - sp.exp(-sum(rates) * t)) == 0
    assert gang_mtbf(Fraction(20), 64) == Fraction(20, 64)


@pytest.mark.parametrize("P", GOLDEN)
def test_what_an_hour_of_work_costs_on_a_gang_of_spot_instances(P):
    assert spot_price(P) == pytest.approx(GOLDEN[P], abs=0.005)


def test_spot_ends_between_68_and_69_instances_at_youngs_interval():
    assert spot_price(68) < 4 < spot_price(69)


def test_no_checkpoint_is_fast_enough_for_more_than_200_instances():
    limit = (4 / 1.5 - 1) * 20 * hour / (10 * minute)
    assert limit == pytest.approx(200)
    assert spot_price(199, write=1e-7) < 4 < spot_price(201, write=1e-7)


def test_young_is_where_the_first_order_overhead_is_least():
    names = "write_time", "restart_time", "mtbf", "interval"
    write, restart, mtbf, interval = (NOTATION[name].sympy() for name in names)
    overhead = failure_overhead(interval, write, restart, mtbf)
    found = sp.solve(sp.diff(overhead, interval), interval)
    assert [sp.simplify(x - young_interval(write, mtbf)) for x in found] == [0]
    least = overhead.subs(interval, young_interval(write, mtbf))
    assert sp.simplify(least - sp.sqrt(2 * write / mtbf) - restart / mtbf) == 0


def test_the_first_order_is_the_first_order_of_the_multiplier():
    names = "write_time", "restart_time", "mtbf", "interval"
    write, restart, mtbf, interval = (NOTATION[name].sympy() for name in names)
    small = sp.Symbol("small", positive=True)
    scaled = failure_multiplier(interval * small, write * small**2, restart * small**2, mtbf)
    exact = sp.series(scaled, small, 0, 2).removeO()
    first = failure_overhead(interval * small, write * small**2, restart * small**2, mtbf)
    linear = sp.expand(exact - 1 - first).coeff(small, 1)
    assert sp.simplify(linear) == 0


def test_the_optimum_has_no_slope_and_does_not_know_the_restart():
    for write in (0.01, 0.5, 2):
        best = optimal_interval(write, 1)
        for restart in (0, 3):
            around = [failure_multiplier(best * f, write, restart, 1) for f in (0.999, 1, 1.001)]
            assert around[1] < min(around[0], around[2])
        assert (1 - best) * math.exp(best) == pytest.approx(math.exp(-write), rel=1e-12)


@pytest.mark.parametrize(("mtbf", "printed"), [(24 * 60, 117), (6 * 60, 57), (15, 9.1)])
def test_the_optima_that_daly_printed(mtbf, printed):
    """Figures 3 to 5 of Daly 2006: a dump of 5 minutes; the last comes from his series."""
    assert optimal_interval(5, mtbf) == pytest.approx(printed, rel=0.01)


def test_young_is_good_far_below_the_failure_time_and_fails_near_it():
    assert young_interval(60, 5760) == pytest.approx(831, abs=1)
    assert optimal_interval(60, 5760) == pytest.approx(791.87, abs=0.01)
    assert young_interval(1200, 1200) == pytest.approx(1697, abs=1)
    assert optimal_interval(1200, 1200) == pytest.approx(1010, abs=1)
    for ratio in (1e-2, 1e-4):
        x = math.sqrt(2 * ratio)
        series = x - 2 / 3 * ratio
        assert optimal_interval(ratio, 1) == pytest.approx(series, rel=ratio)


def test_the_optimum_is_flat():
    overheads = {
        factor: failure_multiplier(factor * young_interval(12, 1080), 12, 0, 1080) - 1
        for factor in (0.25, 0.5, 1, 2, 4)
    }
    expected = {0.25: 0.330, 0.5: 0.200, 1: 0.165, 2: 0.216, 4: 0.401}
    assert overheads == pytest.approx(expected, abs=0.0006)
    assert optimal_interval(12, 1080) == pytest.approx(153.1, abs=0.05)


def test_example_11_of_the_source_with_its_own_numbers():
    year = 365.25 * 24 * 60
    mtbf = gang_mtbf(5 * year, 100)  # minutes
    assert mtbf / 60 / 24 == pytest.approx(18.26, abs=0.01)
    assert 30 * 24 * 60 / mtbf == pytest.approx(1.64, abs=0.005)
    assert 1 - math.exp(-30 * 24 * 60 / mtbf) == pytest.approx(0.807, abs=0.001)
    assert young_interval(20, mtbf) == pytest.approx(1025.6, abs=0.5)
    assert optimal_interval(20, mtbf) == pytest.approx(1012, abs=1)
    assert failure_overhead(240, 20, 0, mtbf) == pytest.approx(0.088, abs=0.0005)
    assert failure_overhead(young_interval(20, mtbf), 20, 0, mtbf) == pytest.approx(
        0.039, abs=0.001
    )
    assert young_interval(2, mtbf) == pytest.approx(324, abs=0.5)


@pytest.mark.parametrize("write", [0, -1, math.inf, math.nan])
def test_an_optimum_needs_positive_times(write):
    with pytest.raises(ValueError, match=r"write_time is .* positive number of seconds"):
        optimal_interval(write, 100)


def test_optimum_of_random_cases_beats_a_grid():
    draw = random.Random(3)
    for _ in range(30):
        mtbf, write, restart = (10 ** draw.uniform(*ends) for ends in ((3, 5), (0, 4), (0, 4)))
        best = failure_multiplier(optimal_interval(write, mtbf), write, restart, mtbf)
        grid = [k / 200 * mtbf for k in range(1, 201)]
        assert best <= min(failure_multiplier(x, write, restart, mtbf) for x in grid) * (1 + 1e-12)
