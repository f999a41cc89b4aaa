"""The events of a step equal the closed form exactly; its limits, and shares in whole samples."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtlib.foundations import bucketed_time, us
from dtlib.parallelism import (
    best_bucket_count,
    overlapped_steps,
    share_sizes,
    simulate_step,
    sparse_crossover_ranks,
)

times = st.fractions(min_value=Fraction(1, 50), max_value=50, max_denominator=50)


@given(times, times, times, st.integers(1, 60), st.integers(1, 5))
def test_the_simulated_step_of_equal_buckets_is_the_closed_form_exactly(f, backward, comm, k, P):
    step = simulate_step([f] * P, [backward] * P, [comm / k] * k)
    assert step.makespan - f == bucketed_time(backward, comm, Fraction(k), 0)


@given(times, times, times, st.integers(1, 60))
def test_with_starts_too(backward, comm, start, k):
    ends = overlapped_steps([backward * i / k for i in range(1, k + 1)], [comm / k + start] * k)
    assert ends[-1] == bucketed_time(backward, comm, Fraction(k), start)


@given(st.lists(st.tuples(times, times), min_size=1, max_size=6), st.lists(times, min_size=1))
def test_the_events_are_the_recurrence_over_the_slowest_rank(ranks, costs):
    forward, backward = zip(*ranks, strict=True)
    k = len(costs)
    ready = [max(f + b * i / k for f, b in ranks) for i in range(1, k + 1)]
    assert overlapped_steps(ready, costs)[-1] == simulate_step(forward, backward, costs).makespan


def test_golden_a_hundred_layers():
    assert bucketed_time(backward=80, comm=100, k=100, start_time=0) == pytest.approx(100.8)


def test_fifty_microseconds_and_eighty_milliseconds_want_forty_buckets():
    assert best_bucket_count(0.080, 50 * us) == pytest.approx(40)
    times = {k: bucketed_time(0.080, 0.1, k, 50 * us) for k in range(1, 201)}
    assert min(times, key=times.get) == 40


def test_cheap_communication_is_hidden_and_what_is_printed_elsewhere_says_the_opposite():
    """Sum of f_i min(1, comm_i / compute before i) 'overlaps' nothing when the network is fast."""
    backward, k = 1.0, 50

    def printed(comm):
        shares = [min(1, (comm / k) / (backward * i / k)) for i in range(1, k + 1)]
        return sum(shares) / k

    def hidden(comm):
        return 1 - (bucketed_time(backward, comm, k, 0) - backward) / comm

    assert printed(1e-6) < 1e-3
    assert hidden(1e-6) == pytest.approx(1 - 1 / k)


def test_efficiency_of_the_simulated_job_and_where_communication_takes_over():
    """700 MB over a ring of 25 GB/s and 10 us; 125 ms of computing (forward 50, backward 75)."""
    from dtlib.collectives import ring_all_reduce_time

    comm = ring_all_reduce_time(700e6, 256, 10e-6, 25e9)
    step = simulate_step([0.050] * 4, [0.075] * 4, [comm])
    assert comm == pytest.approx(0.0609, rel=1e-2)
    assert 0.125 / step.makespan == pytest.approx(0.125 / (0.125 + comm), rel=1e-9)
    assert 0.125 / step.makespan == pytest.approx(0.672, abs=1e-3)
    slower = (P for P in range(2, 5000) if ring_all_reduce_time(700e6, P, 10e-6, 25e9) > 0.125)
    assert next(slower) == 3452
    for rank in range(4):
        idle = step.makespan - step.busy(rank)
        assert step.work(rank) + step.exposed_communication(rank) + idle == pytest.approx(
            step.makespan, rel=1e-12
        )


@given(st.integers(0, 500), st.lists(st.floats(0.1, 10), min_size=1, max_size=20))
def test_shares_add_up_and_are_within_one_of_the_exact_ones(batch, speeds):
    sizes = share_sizes(batch, speeds)
    assert sum(sizes) == batch
    for size, speed in zip(sizes, speeds, strict=True):
        assert abs(size - batch * speed / sum(speeds)) < 1 + 1e-9


def test_no_shares_without_speeds():
    with pytest.raises(ValueError, match="speeds: positive"):
        share_sizes(8, [1, 0])
    for batch in (-1, 2.5):
        with pytest.raises(ValueError, match=f"batch is {batch}, but must be a whole number"):
            share_sizes(batch, [1, 1])


def test_sparse_gradients_lose_from_67_ranks_on():
    kept = 0.01 * 6 / 2  # a value of 2 bytes and its place of 4, for one in a hundred
    crossover = sparse_crossover_ranks(kept)
    for P in range(2, 200):
        dense, sparse = 2 * (P - 1) / P, (P - 1) * kept
        assert (sparse > dense) == (crossover < P)


def test_costs_must_fit_the_buckets():
    with pytest.raises(ValueError, match="costs must have 2 numbers"):
        overlapped_steps([1, 2], [1])
