"""How often to save, held against the root found by halving, mpmath, chains and worked cases."""

import math
import random

import mpmath
import pytest
import sympy as sp

from dtlib.composition import (
    daly_interval,
    exact_interval,
    failure_shares,
    fleet_mtbf,
    lagging_overhead,
    lambert_w,
    level_interval,
    restarting_multiplier,
    two_level_overhead,
)
from dtlib.foundations import (
    NOTATION,
    failure_multiplier,
    failure_overhead,
    gang_mtbf,
    optimal_interval,
    retried_time,
    young_interval,
)

HOUR = 3600
LLAMA_GPU = {"faulty": 148, "HBM": 72, "SRAM": 19, "processor": 17, "silent": 6, "heat": 6}
LLAMA_REST = (54, 35, 32, 7, 7, 3, 3, 2, 2, 2, 2, 2)  # software, network, maintenance, ...


def symbols(*names):
    return [NOTATION[name].sympy() for name in names]


def test_rates_of_unlike_parts_add():
    parts = {"GPU": (4096, 25e3), "host": (512, 8e3), "switch": (32, 1e5)}
    assert 1 / fleet_mtbf(parts) == pytest.approx(0.22816)
    shares = failure_shares(parts)
    assert [100 * share for share in shares.values()] == pytest.approx([71.8, 28.05, 0.14], abs=0.1)
    assert sum(shares.values()) == pytest.approx(1)
    assert fleet_mtbf({"machine": (64, 20.0)}) == gang_mtbf(20.0, 64)


def test_the_first_of_unlike_parts_fails_as_often_as_its_rate_says():
    draw, parts = random.Random(1), {"a": (3, 4.0), "b": (2, 1.0), "c": (1, 10.0)}
    lives = [(kind, life) for kind, (count, life) in parts.items() for _ in range(count)]
    firsts = [min((draw.expovariate(1 / life), kind) for kind, life in lives) for _ in range(20000)]
    mean = sum(time for time, _ in firsts) / len(firsts)
    assert mean == pytest.approx(fleet_mtbf(parts), rel=3 / math.sqrt(len(firsts)))
    for kind, share in failure_shares(parts).items():
        seen = sum(first == kind for _, first in firsts) / len(firsts)
        assert abs(seen - share) < 3 * math.sqrt(share * (1 - share) / len(firsts))
    averaged = sum(life for _, life in lives) / len(lives) ** 2  # sabotage: lives do not average
    assert abs(mean - averaged) > 20 * mean / math.sqrt(len(firsts))


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({}, "parts is {}, but must be at least one kind"),
        ({"GPU": (0, 5)}, "GPU: count is 0"),
        ({"GPU": (2, 0)}, "GPU: life is 0"),
    ],
)
def test_a_fleet_has_parts_that_live(parts, said):
    with pytest.raises(ValueError, match=said):
        fleet_mtbf(parts)


def test_a_published_run_stopped_every_three_hours():
    """Table 5 of the Llama 3 paper: 54 days on 16,384 GPUs, two of its shares misprinted."""
    on_gpus = sum(LLAMA_GPU.values())
    stops = on_gpus + sum(LLAMA_REST)
    assert stops == 419
    mtbf = 54 * 24 / stops
    assert mtbf == pytest.approx(3.09, abs=0.005)
    assert mtbf * 16384 == pytest.approx(50_700, rel=0.001)
    assert LLAMA_GPU["faulty"] / stops == pytest.approx(0.353, abs=0.0005)  # printed as 30.1 %
    assert on_gpus / stops == pytest.approx(0.640, abs=0.0005)  # printed as 58.7 %


def test_young_daly_and_the_exact_interval_of_two_cases():
    assert young_interval(60, 5760) == pytest.approx(831, abs=0.5)
    assert daly_interval(60, 5760) == pytest.approx(791.9, abs=0.05)
    assert exact_interval(60, 5760) == pytest.approx(791.87, abs=0.005)
    least = failure_multiplier(exact_interval(60, 5760), 60, 0, 5760) - 1
    assert least == pytest.approx(0.1594, abs=0.00005)
    assert failure_overhead(young_interval(60, 5760), 60, 0, 5760) == pytest.approx(0.144, abs=5e-4)
    assert young_interval(1200, 1200) == pytest.approx(1697, abs=0.5)
    assert exact_interval(1200, 1200) == pytest.approx(1010, abs=0.5)


@pytest.mark.parametrize(
    ("write", "percent"), [(1, 1.35), (3, 2.36), (10, 4.36), (30, 7.7), (60, 11.1)]
)
def test_what_writing_costs_at_a_failure_every_three_hours(write, percent):
    mtbf = 3.09 * HOUR
    overhead = failure_multiplier(exact_interval(write, mtbf), write, 0, mtbf) - 1
    assert 100 * overhead == pytest.approx(percent, abs=0.05)


def test_a_lag_of_a_checkpoint_that_does_not_block():
    blocking, copying = young_interval(26.56, 2 * HOUR), young_interval(1.56, 2 * HOUR)
    assert (round(blocking), round(copying)) == (618, 150)
    assert lagging_overhead(blocking, 26.56, 0, 0, 2 * HOUR) == pytest.approx(0.0859, abs=5e-5)
    assert lagging_overhead(copying, 1.56, 25, 0, 2 * HOUR) == pytest.approx(0.0243, abs=5e-5)


def test_the_lag_does_not_move_the_best_interval():
    names = "interval", "write_time", "persist_lag", "restart_time", "mtbf"
    interval, write, lag, restart, mtbf = symbols(*names)
    overhead = lagging_overhead(interval, write, lag, restart, mtbf)
    (best,) = sp.solve(sp.diff(overhead, interval), interval)
    assert sp.simplify(best - young_interval(write, mtbf)) == 0
    without = failure_overhead(interval, write, restart, mtbf)
    assert sp.simplify(overhead - without - lag / mtbf) == 0


@pytest.mark.parametrize("ratio", [1e-6, 1e-4, 0.01, 1 / 96, 0.3, 1, 2, 5, 30])
def test_the_closed_form_is_the_root_that_halving_finds(ratio):
    assert exact_interval(ratio * 7e3, 7e3) == pytest.approx(
        optimal_interval(ratio * 7e3, 7e3), rel=1e-15 / ratio + 1e-14
    )


def test_sabotage_the_other_branch_of_w_is_no_interval():
    other = 1 + float(mpmath.lambertw(-math.exp(-1.01), -1).real)
    assert other < 0 < exact_interval(0.01, 1)


@pytest.mark.parametrize("x", [-0.36, -0.3, -0.1, -1e-9, 1e-9, 0.1, 1, math.e, 50, 1e6, 1e100])
def test_lambert_w_is_mpmaths(x):
    assert lambert_w(x) == pytest.approx(float(mpmath.lambertw(x).real), rel=1e-13)
    assert lambert_w(x) * math.exp(lambert_w(x)) == pytest.approx(x, rel=1e-12)


def test_lambert_w_has_no_value_below_its_branch_point():
    with pytest.raises(ValueError, match=r"lambert_w: x is -0.4, but must be at least -1/e"):
        lambert_w(-0.4)
    with pytest.raises(ValueError, match="exact_interval: write_time is 0"):
        exact_interval(0, 5)


def test_dalys_series_is_the_series_of_the_optimum():
    """With x the interval and y = sqrt(2 delta) in failure times: delta = -ln(1 - x) - x."""
    y, x = sp.symbols("y x", positive=True)
    root = y - y**2 / 3 + y**3 / 36
    left = sp.series(-sp.log(1 - x) - x, x, 0, 6).removeO().subs(x, root)
    terms = sp.Poly(sp.expand(left - y**2 / 2), y).as_dict()
    assert min(power for (power,) in terms) == 5
    daly = daly_interval(y**2 / 2, sp.Integer(1)).args[0][0]
    assert sp.simplify(daly - (y + y**2 / 6 + y**3 / 36 - y**2 / 2)) == 0


@pytest.mark.parametrize("ratio", [1e-5, 1e-3, 0.1])
def test_daly_is_nearer_than_young(ratio):
    best = optimal_interval(ratio, 1)
    assert abs(daly_interval(ratio, 1) / best - 1) < ratio
    assert abs(young_interval(ratio, 1) / best - 1) > 20 * abs(daly_interval(ratio, 1) / best - 1)
    assert daly_interval(2.0, 1) == daly_interval(7.0, 1) == 1


def by_recursion(interval, write, restart, mtbf):
    """Small steps: working at step i, or restarting at step j; a failure begins the restart."""
    step = 1.0
    fails = 1 - math.exp(-step / mtbf)
    # what remains is a + c R, for R, what remains at the start of a restart
    work, per_restart = 0.0, 0.0
    for _ in range(int((interval + write) / step)):
        work, per_restart = step + (1 - fails) * work, fails + (1 - fails) * per_restart
    restarting, again = work, per_restart
    for _ in range(int(restart / step)):
        restarting, again = step + (1 - fails) * restarting, fails + (1 - fails) * again
    return (work + per_restart * restarting / (1 - again)) / interval


@pytest.mark.parametrize("restart", [0, 300, 2000])
def test_a_restart_that_may_fail_takes_the_time_of_its_chain(restart):
    chain = by_recursion(800, 60, restart, 5760)
    assert restarting_multiplier(800, 60, restart, 5760) == pytest.approx(chain, rel=5e-4)


def test_sabotage_an_undisturbed_restart_is_not_that_chain():
    chain = by_recursion(800, 60, 2000, 5760)
    assert failure_multiplier(800, 60, 2000, 5760) < 0.98 * chain


def test_a_restart_is_work_in_one_piece():
    names = "interval", "write_time", "restart_time", "mtbf"
    interval, write, restart, mtbf = symbols(*names)
    retried = failure_multiplier(interval, write, retried_time(restart, 0, mtbf), mtbf)
    assert sp.simplify(restarting_multiplier(interval, write, restart, mtbf) - retried) == 0


def test_two_levels_are_better_than_one_and_each_is_at_its_optimum():
    mtbf = 3.09 * HOUR
    assert two_level_overhead(2, 60, 0.7, mtbf) == pytest.approx(0.073, abs=5e-4)
    assert two_level_overhead(2, 60, 0, mtbf) == pytest.approx(0.104, abs=5e-4)
    assert level_interval(60, 1, mtbf) == young_interval(60, mtbf)
    spent = sum(
        failure_overhead(level_interval(write, share, mtbf), write, 0, mtbf / share)
        for write, share in ((2, 0.7), (60, 0.3))
    )
    assert spent == pytest.approx(two_level_overhead(2, 60, 0.7, mtbf), rel=1e-12)
