"""The simulated time is the closed form, exactly, and no time is below the bound."""

from fractions import Fraction

import numpy as np
import pytest
from every_algorithm import ALL_REDUCES, name, sizes

from dtlib import collectives as c
from dtlib.collectives import Round, Schedule, Send, SharedHost, Switch

ALPHA, BETA, N = Fraction(1, 7), Fraction(13, 3), Fraction(1000)  # so that nothing cancels
TIMES = {
    c.ring_reduce_scatter: c.ring_reduce_scatter_time,
    c.ring_all_gather: c.ring_all_gather_time,
    c.ring_all_reduce: c.ring_all_reduce_time,
    c.tree_broadcast: c.tree_broadcast_time,
    c.tree_reduce: c.tree_broadcast_time,
    c.tree_all_reduce: c.tree_all_reduce_time,
    c.flat_all_reduce: c.flat_all_reduce_time,
    c.pairwise_all_to_all: c.pairwise_all_to_all_time,
    c.recursive_doubling_all_reduce: c.recursive_doubling_all_reduce_time,
    c.halving_doubling_all_reduce: c.halving_doubling_all_reduce_time,
}


@pytest.mark.parametrize("build", TIMES, ids=name)
def test_the_simulated_time_is_the_closed_form_exactly(build):
    for P in sizes(build, 17):
        simulated = c.schedule_time(build(P), N, Switch(P, ALPHA, BETA))
        closed = TIMES[build](N, Fraction(P), ALPHA, BETA)
        if isinstance(closed, float):  # log2 gives a float
            assert simulated == pytest.approx(closed, rel=1e-14)
        else:
            assert simulated == closed


@pytest.mark.parametrize("S", [1, 2, 7])
@pytest.mark.parametrize("P", range(1, 66))
def test_double_binary_tree_takes_at_most_the_closed_form(P, S):
    schedule = c.double_binary_tree_all_reduce(P, S)
    simulated = c.schedule_time(schedule, N, Switch(P, ALPHA, BETA))
    closed = c.double_binary_tree_all_reduce_time(N, P, S, ALPHA, BETA)
    assert simulated <= closed
    if P in (4, 16, 64):
        assert simulated == closed


def test_best_segments_of_the_double_binary_tree_are_the_best_of_all():
    n, P, alpha, beta = 10**8, 256, 1e-5, 50e9
    best = c.double_binary_tree_best_segments(n, P, alpha, beta)
    times = [c.double_binary_tree_all_reduce_time(n, P, S, alpha, beta) for S in range(1, 200)]
    assert abs(1 + int(np.argmin(times)) - best) < 1


@pytest.mark.parametrize("build", ALL_REDUCES, ids=name)
def test_no_all_reduce_is_faster_than_the_lower_bound(build):
    for P in sizes(build, 17):
        for n in (0 * N, N):
            simulated = c.schedule_time(build(P), n, Switch(P, ALPHA, BETA))
            bound = c.all_reduce_lower_bound_time(n, Fraction(P), ALPHA, BETA)
            assert simulated >= bound


def test_sending_everything_to_everybody_at_once_is_bounded_too():
    """A port sends one message at a time: one round of many messages is no way round log2 P."""
    P = 8
    everybody = [Send(src, dst, 0, True) for src in range(P) for dst in range(P) if src != dst]
    direct = Schedule(P, 1, [everybody])
    c.check_all_reduce(direct)
    assert c.schedule_time(direct, 0, Switch(P, ALPHA, BETA)) == (P - 1) * ALPHA


# Milliseconds of ring, tree and halving-doubling on 256 ranks at 10 us and 50 GB/s, by hand.
GOLDEN = {
    10**6: ("5.14", "0.48", "0.20"),
    10**7: ("5.50", "3.36", "0.56"),
    10**8: ("9.08", "32.2", "4.14"),
    10**9: ("44.9", "320", "40.0"),
}


@pytest.mark.parametrize("n", GOLDEN)
def test_golden_milliseconds_on_256_ranks(n):
    switch = Switch(256, alpha=10e-6, beta=50e9)
    builders = (c.ring_all_reduce, c.tree_all_reduce, c.halving_doubling_all_reduce)
    for build, printed in zip(builders, GOLDEN[n], strict=True):
        decimals = len(printed.partition(".")[2])
        assert f"{c.schedule_time(build(256), n, switch) * 1e3:.{decimals}f}" == printed


@pytest.mark.parametrize("P", [4, 5, 8, 64, 256, 1000])
def test_at_the_crossover_ring_and_tree_are_equally_fast(P):
    n = c.ring_tree_crossover_bytes(Fraction(P), ALPHA, BETA)
    assert c.ring_all_reduce_time(n, Fraction(P), ALPHA, BETA) == c.tree_all_reduce_time(
        n, Fraction(P), ALPHA, BETA
    )
    for factor, ring_wins in ((Fraction(99, 100), False), (Fraction(101, 100), True)):
        ring = c.ring_all_reduce_time(n * factor, Fraction(P), ALPHA, BETA)
        tree = c.tree_all_reduce_time(n * factor, Fraction(P), ALPHA, BETA)
        assert (ring < tree) is ring_wins


def test_golden_crossover():
    assert c.ring_tree_crossover_bytes(256, 10e-6, 50e9) == pytest.approx(17.6e6, rel=2e-3)


@pytest.mark.parametrize("P", [2, 3, 64])
def test_half_of_a_ring_is_latency_at_its_half_performance_size(P):
    n = c.ring_half_performance_bytes(Fraction(P), ALPHA, BETA)
    total = c.ring_all_reduce_time(n, Fraction(P), ALPHA, BETA)
    assert total == 2 * c.ring_all_reduce_time(0, Fraction(P), ALPHA, BETA)


def test_halving_doubling_beats_the_ring_at_every_size_in_this_model():
    P = 64
    n = np.logspace(0, 11, 50)
    ring, halving = (
        c.schedule_time(build(P), n, Switch(P, 1e-6, 1e11))
        for build in (c.ring_all_reduce, c.halving_doubling_all_reduce)
    )
    assert (halving < ring).all()


def test_many_sizes_at_once_are_the_sizes_one_by_one():
    sizes_ = np.array([1e3, 1e6, 1e9])
    switch, schedule = Switch(8, 5e-6, 50e9), c.tree_all_reduce(8)
    together = c.schedule_time(schedule, sizes_, switch)
    assert together.tolist() == [c.schedule_time(schedule, n, switch) for n in sizes_]


def test_the_busiest_port_decides_a_round():
    switch = Switch(4, ALPHA, BETA)
    fan_in = Round.of([Send(1, 0, 0), Send(2, 0, 1), Send(3, 0, 2, count=2)])
    assert switch.round_time(fan_in, N) == 3 * ALPHA + 4 * N / BETA
    assert switch.round_time(Round.of([Send(0, 1, 0), Send(1, 0, 1)]), N) == ALPHA + N / BETA


@pytest.mark.parametrize(
    ("cores", "share"), [(1, 6), (2, 3), (3, 2), (4, 1.5), (12, 0.5), (64, 0.5)]
)
def test_on_a_shared_host_the_total_traffic_counts_and_a_message_has_two_cores(cores, share):
    host = SharedHost(6, ALPHA, BETA, cores)
    ring_round = c.ring_all_reduce(6).rounds[0]
    assert host.round_time(ring_round, N) == pytest.approx(share * (ALPHA + N / BETA), rel=1e-14)


def test_on_a_shared_host_the_latency_of_a_ring_is_P_times_that_of_a_tree():
    """On two cores every message counts; on a switch only the rounds do."""
    P = 4
    host, switch = SharedHost(P, ALPHA, BETA, cores=2), Switch(P, ALPHA, BETA)
    ring, tree = c.ring_all_reduce(P), c.tree_all_reduce(P)
    times = [c.schedule_time(schedule, 0 * N, host) for schedule in (ring, tree)]
    assert times[0] == pytest.approx(P * times[1], rel=1e-14)
    assert c.schedule_time(ring, 0 * N, switch) == 6 * ALPHA
    assert c.schedule_time(tree, 0 * N, switch) == 4 * ALPHA


def test_a_topology_of_another_size_is_refused():
    with pytest.raises(ValueError, match="has P = 4 ranks, the topology has P = 8"):
        c.schedule_time(c.ring_all_reduce(4), N, Switch(8, ALPHA, BETA))


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (lambda: Switch(0, 1, 1), "P must be at least 1; got P = 0"),
        (lambda: Switch(2, -1, 1), "alpha must not be negative; got alpha = -1"),
        (lambda: Switch(2, 1, 0), "beta must be positive; got beta = 0"),
        (lambda: SharedHost(2, 1, 1, 0), "cores must be at least 1; got cores = 0"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(machine, message):
    with pytest.raises(ValueError, match=message):
        machine()


def test_equal_rounds_are_timed_once():
    class Watched(Switch):
        calls = 0

        def round_time(self, round, chunk_bytes):
            Watched.calls += 1
            return super().round_time(round, chunk_bytes)

    c.schedule_time(c.ring_all_reduce(16), N, Watched(16, ALPHA, BETA))
    assert Watched.calls == 1


def test_a_ring_of_2048_ranks_and_a_halving_of_16384_are_simulated():
    ring = c.schedule_time(c.ring_all_reduce(2048), 10**9, Switch(2048, 5e-6, 50e9))
    assert ring == pytest.approx(c.ring_all_reduce_time(10**9, 2048, 5e-6, 50e9), rel=1e-12)
    P = 2**14
    halving = c.schedule_time(c.halving_doubling_all_reduce(P), 10**9, Switch(P, 5e-6, 50e9))
    closed = c.halving_doubling_all_reduce_time(10**9, P, 5e-6, 50e9)
    assert halving == pytest.approx(closed, rel=1e-12)
