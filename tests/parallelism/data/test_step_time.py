"""The step time of data parallelism against a simulated schedule and a search."""

import pytest
import sympy

from dtlib.collectives import Switch, ring_all_reduce, schedule_time
from dtlib.formulas.notation import NOTATION
from dtlib.foundations import GB, us
from dtlib.parallelism import data_parallel_fastest_ranks, data_parallel_step_time

MACHINE = {"n": 10 * GB, "alpha": 10 * us, "beta": 50 * GB}


@pytest.mark.parametrize("P", [1, 2, 7, 64])
def test_the_step_is_the_share_of_the_work_and_a_simulated_ring(P):
    ring = schedule_time(ring_all_reduce(P), MACHINE["n"], Switch(P, 10 * us, 50 * GB))
    step = data_parallel_step_time(compute=100, P=P, **MACHINE)
    assert step == pytest.approx(100 / P + ring, rel=1e-12)


def test_one_rank_does_not_communicate():
    assert data_parallel_step_time(compute=100, P=1, **MACHINE) == 100


def test_no_number_of_ranks_is_faster_than_the_fastest():
    best = data_parallel_fastest_ranks(compute=100, **MACHINE)
    times = {P: data_parallel_step_time(compute=100, P=P, **MACHINE) for P in range(1, 10_000)}
    assert abs(min(times, key=times.get) - best) < 1
    assert times[round(best)] < times[round(best * 1.1)]  # the search can tell a wrong optimum


def test_the_derivative_vanishes_there():
    P = NOTATION["P"].sympy()
    slope = sympy.diff(data_parallel_step_time.expression(), P)
    values = {NOTATION[name].sympy(): value for name, value in MACHINE.items()}
    values[NOTATION["compute"].sympy()] = 100
    best = data_parallel_fastest_ranks(compute=100, **MACHINE)
    assert slope.subs(values).subs(P, best) == pytest.approx(0, abs=1e-12)
    assert abs(slope.subs(values).subs(P, 2 * best)) > 1e-6


def test_work_too_small_to_divide_stays_on_one_rank():
    assert data_parallel_fastest_ranks(compute=0.1, **MACHINE) == 1
    two = data_parallel_step_time(compute=0.1, P=2, **MACHINE)
    assert two > data_parallel_step_time(compute=0.1, P=1, **MACHINE)
