"""Theorems of speedup and of the law of a step, against brute force, sympy and an event clock."""

import random
from fractions import Fraction

import pytest
import sympy as sp

from dtlib.foundations import NOTATION
from dtlib.foundations.speedup import (
    amdahl_speedup,
    charged_speedup,
    check_overlap,
    fleet_step_time,
    gustafson_speedup,
    least_fleet_step_time,
    most_overlap_time,
    strong_scaling_efficiency,
    synchronous_speedup,
    weak_scaling_efficiency,
)

f, P, rho = (NOTATION[name].sympy() for name in ("serial", "P", "comm_ratio"))
RATIOS = [Fraction(1, 100), Fraction(1, 4), Fraction(1), Fraction(3)]


def folklore(ratio, n):
    """The bound that is printed: n/(1 + (n - 1) rho)."""
    return n / (1 + (n - 1) * ratio)


def equal(left, right) -> bool:
    return sp.simplify(left - right) == 0


def test_amdahl_is_the_time_of_one_rank_over_the_time_of_many():
    for serial in RATIOS[:3]:
        for ranks in range(1, 50):
            time = serial + (1 - serial) / ranks
            assert amdahl_speedup(serial, ranks) == 1 / time
    assert sp.limit(amdahl_speedup(f, P), P, sp.oo) == 1 / f


def test_gustafson_and_amdahl_are_one_law_with_the_serial_share_taken_of_another_whole():
    share_of_the_parallel_run = f / (f + (1 - f) / P)
    assert equal(gustafson_speedup(share_of_the_parallel_run, P), amdahl_speedup(f, P))
    assert not equal(gustafson_speedup(f, P), amdahl_speedup(f, P))


def test_efficiencies_are_one_when_work_divides_perfectly():
    assert strong_scaling_efficiency(compute=100, time=Fraction(100, 7), P=7) == 1
    assert weak_scaling_efficiency(compute=3, time=3) == 1
    assert strong_scaling_efficiency(compute=100, time=100, P=7) == Fraction(1, 7).__float__()


@pytest.mark.parametrize("ratio", RATIOS)
def test_speedup_with_communication_is_the_fleet_law_with_nothing_hidden(ratio):
    for ranks in range(2, 40):
        work, talk = Fraction(60), 60 * ratio
        step = fleet_step_time(work, ranks, talk, 0, 0)
        assert synchronous_speedup(ratio, ranks) == work / step
        assert charged_speedup(ratio, ranks) == (work + talk) / step


def test_the_limits_of_speedup_are_set_by_communication():
    assert sp.limit(synchronous_speedup(rho, P), P, sp.oo) == 1 / rho
    assert equal(sp.limit(charged_speedup(rho, P), P, sp.oo), 1 + 1 / rho)


def test_charged_speedup_exceeds_the_printed_bound_everywhere_and_exceeds_even_its_limit():
    for ratio in RATIOS:
        for ranks in range(2, 40):
            assert charged_speedup(ratio, ranks) > folklore(ratio, ranks)
            assert synchronous_speedup(ratio, ranks) < folklore(ratio, ranks)
    assert charged_speedup(Fraction(1), 2) == Fraction(4, 3) and folklore(Fraction(1), 2) == 1
    assert folklore(Fraction(1), 10**9) == 1 < charged_speedup(1, 1000)


def test_the_printed_bound_is_amdahl_s_law_with_communication_taken_for_a_part_of_the_work():
    assert equal(folklore(rho, P), amdahl_speedup(rho, P))


def finish(backward, messages) -> Fraction:
    """An event clock: a message leaves when its gradients are there and the link is free."""
    computed = sent = Fraction(0)
    for work, talk in zip(backward, messages, strict=True):
        computed += work
        sent = max(sent, computed) + talk
    return max(computed, sent)


def random_steps():
    draw = random.Random(1)
    for _ in range(200):
        layers = draw.randrange(1, 9)
        yield [[Fraction(draw.randrange(0, 20), 4) for _ in range(layers)] for _ in range(2)]


def test_no_simulated_step_hides_more_than_the_bound_and_none_is_shorter_than_the_least():
    for backward, messages in random_steps():
        work, talk = sum(backward), sum(messages)
        step = finish(backward, messages)
        hidden = work + talk - step
        assert 0 <= hidden <= most_overlap_time(work, 1, talk, 0)
        assert step >= least_fleet_step_time(work, 1, talk, 0)
        assert check_overlap(work, 1, talk, 0, hidden) == step


def test_the_least_step_is_the_law_at_the_most_overlap():
    for work, ranks, talk, wait in [(100, 8, 3, 1), (1, 4, 2, 0), (7, 7, 1, 0), (5, 2, 0, 9)]:
        most = most_overlap_time(work, ranks, talk, wait)
        least = least_fleet_step_time(work, ranks, talk, wait)
        assert fleet_step_time(work, ranks, talk, wait, most) == least


def test_the_naive_bound_admits_a_step_shorter_than_its_communication():
    naive = 2  # communication and waiting, all of it
    assert fleet_step_time(compute=4, P=4, comm=2, sync=0, overlap=naive) < 2
    with pytest.raises(ValueError, match=r"at most 1 s: .* its communication"):
        check_overlap(compute=4, P=4, comm=2, sync=0, overlap=naive)


@pytest.mark.parametrize(
    ("overlap", "says"),
    [(1.5, "at most 1 s: .* its computation"), (-0.1, "must not be negative")],
)
def test_an_impossible_overlap_is_refused(overlap, says):
    with pytest.raises(ValueError, match=says):
        check_overlap(compute=8, P=4, comm=1, sync=0, overlap=overlap)


def test_time_onto_a_floor_is_not_a_square_root_law():
    """T(n) = T_1/n + c: at n = T_1/c the speedup is n/2, far above the square root of n."""
    ranks = 100
    assert synchronous_speedup(Fraction(1, ranks), ranks) == Fraction(ranks, 2)
    assert synchronous_speedup(Fraction(1, ranks), ranks) > 4 * Fraction(ranks) ** Fraction(1, 2)
