"""Bounds of a step and the best buckets: closed forms, every cut, and the events, exactly."""

from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtlib.efficiency.overlap.buckets import best_cut, cut_by_size, cut_ends
from dtlib.efficiency.overlap.cost import (
    collective_matmul_time,
    contended_bucket_count,
    contended_bucketed_time,
    overlapped_bucket_count,
    overlapped_step_floor_time,
)
from dtlib.efficiency.overlap.programs import bucketed_backward
from dtlib.efficiency.overlap.queues import communicating, computing, simulate_queues
from dtlib.foundations import GB, bucketed_time, ms, us

times = st.fractions(min_value=Fraction(1, 20), max_value=50, max_denominator=20)
starts = st.fractions(min_value=0, max_value=5, max_denominator=20)
shares = st.fractions(min_value=0, max_value=Fraction(3, 4), max_denominator=16)
sizes = st.lists(st.integers(1, 9), min_size=1, max_size=7)


def every_cut(count):
    """All 2^(count - 1) ways to cut a row."""
    for many in range(count):
        for places in combinations(range(1, count), many):
            yield [b - a for a, b in pairwise([0, *places, count])]


@given(times, times, starts, st.integers(1, 24), shares)
def test_the_simulated_queues_are_the_closed_form_with_and_without_contention(b, c, start, k, sms):
    simulated = simulate_queues(bucketed_backward(k, b, c, start, sms)).makespan
    assert simulated == contended_bucketed_time(b, c, Fraction(k), start, sms)
    if not sms:
        assert simulated == bucketed_time(b, c, Fraction(k), start)


def test_sabotage_a_collective_that_is_launched_late_is_seen():
    kernels = bucketed_backward(4, Fraction(8), Fraction(4))
    late = sorted(kernels, key=lambda kernel: kernel.name)  # all of B, then all of R
    right = simulate_queues(kernels, connections=1).makespan
    assert simulate_queues(late, connections=1).makespan > right
    everything = [computing("B", 8), communicating("R", 4, after=["B"])]
    assert simulate_queues(everything).makespan == 12 > right


@given(sizes, starts, times, st.data())
def test_the_best_cut_ends_first_of_all_cuts(sizes, alpha, pace, data):
    n = len(sizes)
    gaps = data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    ready = [sum(gaps[: i + 1]) for i in range(n)]
    given_all = (ready, sizes, alpha, 1 / pace)
    best = cut_ends(best_cut(*given_all), *given_all)[-1]
    assert best == min(cut_ends(cut, *given_all)[-1] for cut in every_cut(n))


def test_sabotage_a_greedy_cut_is_not_the_best():
    """Sending whatever is there whenever the network is free is not optimal."""
    ready, sizes = [1, 2, 10], [1, 1, 8]
    greedy = cut_ends([1, 1, 1], ready, sizes, 4, 1)[-1]
    assert cut_ends(best_cut(ready, sizes, 4, 1), ready, sizes, 4, 1)[-1] < greedy


@given(sizes, starts, times, st.data())
def test_no_cut_is_below_the_floor(sizes, alpha, pace, data):
    n = len(sizes)
    gaps = data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    ready, beta = [sum(gaps[: i + 1]) for i in range(n)], 1 / pace
    floor = overlapped_step_floor_time(
        0, ready[-1], sum(sizes) * pace, ready[0], alpha + sizes[-1] * pace
    )
    for cut in every_cut(n):
        assert cut_ends(cut, ready, sizes, alpha, beta)[-1] >= floor


@pytest.mark.parametrize(("size", "count"), [(1 * GB, 22), (0.5 * GB, 100), (0.2 * GB, 340)])
def test_the_best_number_of_equal_buckets_is_found_by_trying_all(size, count):
    given_all = {"backward": 50 * ms, "comm": size / (12.5 * GB), "start_time": 100 * us}
    tried = {k: bucketed_time(k=k, **given_all) for k in range(1, 600)}
    assert min(tried, key=tried.get) == count == round(overlapped_bucket_count(**given_all))


def test_on_a_slow_network_the_best_buckets_grow_and_on_a_fast_one_they_shrink():
    layers, growth = 1000, {}
    for comm in (80 * ms, 25 * ms):
        ready = [50 * ms * (i + 1) / layers for i in range(layers)]
        cut = best_cut(ready, [1] * layers, 100 * us, layers / comm)
        growth[comm] = cut
        equal = bucketed_time(50 * ms, comm, overlapped_bucket_count(50 * ms, comm, 100 * us), 1e-4)
        assert cut_ends(cut, ready, [1] * layers, 100 * us, layers / comm)[-1] < 1.001 * equal
    slow = growth[80 * ms]
    assert slow == sorted(slow)
    assert 1.4 < slow[-1] / slow[-2] < 1.8
    assert len(slow) < 12  # where 22 equal ones are best


def test_with_contention_there_is_a_best_number_on_a_fast_network_too():
    best = contended_bucket_count(comm=16 * ms, start_time=100 * us, sm_share=0.15)
    tried = {k: contended_bucketed_time(50 * ms, 16 * ms, k, 100 * us, 0.15) for k in range(1, 341)}
    assert min(tried, key=tried.get) == round(best) == 30


@given(st.integers(2, 9), times, times, starts)
def test_pieces_of_a_product_are_queues_too(P, product, comm, alpha):
    """P - 1 messages one after the other, and under each a piece of the product."""
    kernels = []
    for i in range(P):
        if i < P - 1:
            kernels.append(communicating(f"M{i}", alpha + comm / P))
        kernels.append(computing(f"C{i}", product / P, after=[f"M{i - 1}"] if i else []))
    # a message waits for the piece before it: the round of a schedule
    rounds = [
        k._replace(after=(*k.after, f"C{int(k.name[1:]) - 1}"))
        if k.stream == "network" and k.name != "M0"
        else k
        for k in kernels
    ]
    whole = collective_matmul_time(product, comm, P, alpha, Fraction(1))
    assert simulate_queues(rounds).makespan == whole >= simulate_queues(kernels).makespan


def test_torchs_rule_fills_a_bucket_over_its_size():
    assert cut_by_size([3, 3, 3, 3], bucket=4, first=1) == [1, 2, 1]
    assert cut_by_size([9, 1], bucket=4, first=1) == [1, 1]


def test_what_is_no_row_of_gradients_is_refused():
    with pytest.raises(ValueError, match="gradient 1 is ready before 0"):
        best_cut([2, 1], [1, 1], 0, 1)
    with pytest.raises(ValueError, match="add up to 2"):
        cut_ends([1], [1, 2], [1, 1], 0, 1)
    with pytest.raises(ValueError, match="one for each gradient"):
        best_cut([], [], 0, 1)
