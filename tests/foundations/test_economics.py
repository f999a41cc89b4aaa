"""GPU-hours, money, deadlines and budgets, held against brute force and published runs."""

from fractions import Fraction

import pytest
import sympy as sp

from dtlib.foundations import (
    NOTATION,
    break_even_time,
    catalog,
    deadline_cost,
    fewest_ranks,
    gpu_time,
    hour,
    most_ranks,
    ownership_price,
    run_cost,
    run_time,
    synchronous_speedup,
    token_cost,
    training_cost,
    training_energy,
    training_flops,
    training_time,
)
from dtlib.machines.prices import assumption_table, assumptions

H100 = catalog["h100-sxm"].peak("bf16")
million = 10**6


def exact(*values):
    return map(Fraction, values)


def test_gpu_hours_are_the_same_for_two_numbers_of_gpus_iff_their_efficiency_is():
    mfu = {500: 0.45, 1000: 0.45, 2000: 0.40}
    hours = {P: P * training_time(70e9, 1e12, P, H100, e) / hour for P, e in mfu.items()}
    assert hours[500] == pytest.approx(hours[1000], rel=1e-12)
    assert hours[2000] / hours[1000] == pytest.approx(0.45 / 0.40, rel=1e-12)
    assert gpu_time(training_flops(70e9, 1e12), H100, 0.45) / hour == pytest.approx(hours[500])


def test_a_thousand_gpus_for_two_weeks_cost_a_seventh_of_ten_million():
    hours = 1000 * 14 * 24
    assert hours == 500 * 28 * 24 == 336_000
    assert hours * 4 == 1_344_000
    assert 10 * million / 4 == 2_500_000


def test_exercise_1_of_the_source_70b_on_2t_tokens():
    work = training_flops(70e9, 2e12)
    assert gpu_time(work, H100, 0.45) / hour == pytest.approx(524_286, rel=1e-5)
    assert training_cost(work, H100, 0.45, 4 / hour) == pytest.approx(2.10 * million, rel=2e-3)


def test_exercise_2_of_the_source_the_larger_machine_is_dearer_and_faster():
    few, many = (512, 0.50), (1024, 0.35)
    cost = {P: training_cost(1e23, H100, e, 4 / hour) for P, e in (few, many)}
    time = {P: gpu_time(1e23, H100, e) / P for P, e in (few, many)}
    assert cost[1024] / cost[512] == pytest.approx(1.43, abs=0.01)
    assert 1 - cost[512] / cost[1024] == pytest.approx(0.30, abs=0.001)
    assert time[1024] / time[512] == pytest.approx(0.714, abs=0.001)


def test_deepseek_v3_paid_for_its_final_run_what_it_says():
    assert 2_788_000 * hour * (2 / hour) == pytest.approx(5.576 * million)
    assert 2_664_000 + 119_000 + 5_000 == 2_788_000
    rate = training_flops(37e9, 14.8e12) / (2_664_000 * hour)
    assert rate == pytest.approx(343e12, rel=2e-3)
    assert rate / H100 == pytest.approx(0.35, abs=0.005)
    assert rate / catalog["h100-sxm"].peak("fp8") == pytest.approx(0.17, abs=0.005)


@pytest.mark.parametrize(("params", "low"), [(7e9, 59), (70e9, 590), (405e9, 3413)])
def test_a_billion_tokens_cost_in_proportion_to_the_parameters(params, low):
    cheap = 1e9 * token_cost(params, H100, 0.4, 2 / hour)
    assert cheap == pytest.approx(low, rel=0.01)
    assert token_cost(params, H100, 0.4, 4 / hour) * 1e9 == pytest.approx(2 * cheap)


def test_time_and_cost_are_those_of_the_speedup_of_chapter_1():
    for P in (2, 7, 64, 1000):
        time = run_time(1000.0, P, 0.003)
        assert time == pytest.approx(1000 / synchronous_speedup(0.003, P), rel=1e-12)
        assert run_cost(1000.0, P, 0.003, 2.0) == pytest.approx(2 * P * time, rel=1e-12)


def test_the_front_is_a_hyperbola_exactly():
    compute, ratio, price = exact(1000, "1/50", 3)
    least_time, least_cost = ratio * compute, price * compute
    for P in range(1, 400):
        time, cost = run_time(compute, P, ratio), run_cost(compute, P, ratio, price)
        assert (time / least_time - 1) * (cost / least_cost - 1) == 1
        assert deadline_cost(compute, ratio, price, time) == cost


def test_twice_the_least_time_costs_twice_the_least_money():
    compute, ratio, price = exact(1000, "1/50", 3)
    half = 1 / ratio
    assert run_time(compute, half, ratio) == 2 * ratio * compute
    assert run_cost(compute, half, ratio, price) == 2 * price * compute


@pytest.mark.parametrize("limit", [Fraction(63), Fraction(41), Fraction(200)])
def test_one_rank_fewer_misses_the_deadline(limit):
    compute, ratio = exact(1000, "1/50")
    P = -(-fewest_ranks(compute, ratio, limit) // 1)
    assert run_time(compute, P, ratio) <= limit
    assert P == 1 or run_time(compute, P - 1, ratio) > limit


@pytest.mark.parametrize("budget", [Fraction(3001), Fraction(5000), Fraction(9999)])
def test_one_rank_more_breaks_the_budget(budget):
    compute, ratio, price = exact(1000, "1/500", 3)
    P = most_ranks(compute, ratio, price, budget) // 1
    assert run_cost(compute, P, ratio, price) <= budget
    assert run_cost(compute, P + 1, ratio, price) > budget


def test_deadline_and_budget_can_both_be_met_iff_their_point_is_above_the_front():
    compute, ratio, price = exact(1000, "1/50", 1)
    for limit in range(21, 100, 6):
        for budget in range(1010, 4000, 97):
            feasible = any(
                run_time(compute, P, ratio) <= limit
                and run_cost(compute, P, ratio, price) <= budget
                for P in range(1, 200)
            )
            above = (Fraction(limit) / 20 - 1) * (Fraction(budget) / 1000 - 1)
            whole = -(-fewest_ranks(compute, ratio, limit) // 1) <= most_ranks(
                compute, ratio, price, budget
            )
            assert feasible == whole
            assert not feasible or above >= 1


def test_owning_and_renting_cost_the_same_when_it_breaks_even():
    purchase, price, running, use = exact(40_000, "4/3600", "1/3600", "1/2")
    even = break_even_time(purchase, price, running, use)
    assert purchase + even * use * running == even * use * price
    assert ownership_price(purchase, even, use, running) == price


def test_the_break_even_of_the_source():
    hours = break_even_time(55_000, 4 / hour, 0, 1) / hour
    assert hours == pytest.approx(13_750)
    assert hours / 8766 * 12 == pytest.approx(18.8, abs=0.05)
    assert break_even_time(55_000, 4 / hour, 0, 0.5) / hour / 8766 == pytest.approx(3.1, abs=0.05)


def test_energy_is_power_times_gpu_hours():
    joules = training_energy(1e23, H100, 0.4, 700, 1.2)
    assert joules == pytest.approx(700 * 1.2 * gpu_time(1e23, H100, 0.4))


def test_sabotage_a_front_without_communication_is_refuted():
    compute, price = NOTATION["compute"].sympy(), NOTATION["price"].sympy()
    free = deadline_cost(compute, 0, price, NOTATION["deadline"].sympy())
    assert sp.simplify(free - price * compute) == 0
    assert deadline_cost(1000, Fraction(1, 50), 1, 40) != 1000


def test_every_assumption_says_whether_somebody_printed_it():
    assert assumptions["on demand"].value == pytest.approx(4 / 3600)
    assert {row[2] for row in assumption_table().rows} == {"assumed", "cited"}
    assert all(entry.source and entry.date for entry in assumptions.values())
    with pytest.raises(KeyError, match="no assumption 'gold'"):
        assumptions["gold"]
