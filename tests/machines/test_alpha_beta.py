"""Theorems of the alpha-beta model and of the roofline, proved by sympy or by brute force."""

from fractions import Fraction

import pytest
import sympy as sp

from dtlib.foundations import (
    NOTATION,
    arithmetic_intensity,
    bandwidth_efficiency,
    chunked_time,
    effective_bandwidth,
    half_performance_bytes,
    loggp_alpha,
    loggp_beta,
    loggp_burst_time,
    loggp_time,
    message_time,
    ping_pong_time,
    pipelined_chain_best_chunks,
    pipelined_chain_best_time,
    pipelined_chain_time,
    ridge_intensity,
    roofline_rate,
    roofline_time,
)

n, k, h, alpha, beta = (NOTATION[x].sympy() for x in ("n", "k", "h", "alpha", "beta"))
L, o, G = (NOTATION[x].sympy() for x in ("L", "o", "G"))


def equal(left, right) -> bool:
    return sp.simplify(left - right) == 0


def test_at_the_half_performance_size_latency_and_transfer_take_the_same_time():
    half = half_performance_bytes(alpha, beta)
    assert equal(message_time(half, alpha, beta), 2 * alpha)
    assert bandwidth_efficiency(half, alpha, beta).simplify() == sp.Rational(1, 2)


def test_efficiency_is_effective_over_full_bandwidth_and_tends_to_one():
    efficiency = bandwidth_efficiency(n, alpha, beta)
    assert equal(efficiency, effective_bandwidth(n, alpha, beta) / beta)
    assert sp.limit(efficiency, n, sp.oo) == 1
    assert sp.limit(efficiency, n, 0) == 0


def test_cutting_a_message_on_one_link_only_adds_latencies():
    added = chunked_time(n, k, alpha, beta) - message_time(n, alpha, beta)
    assert equal(added, (k - 1) * alpha)
    assert equal(chunked_time(n, k, alpha, beta), k * message_time(n / k, alpha, beta))


def test_a_ping_pong_is_two_messages():
    assert equal(ping_pong_time(n, alpha, beta), 2 * message_time(n, alpha, beta))


def chain(size, chunks, hops, latency, bandwidth) -> Fraction:
    """Brute force: when chunk c has reached rank r, by who waits for whom."""
    step = latency + Fraction(size) / chunks / bandwidth
    free = [Fraction(0)] * hops
    arrived = Fraction(0)
    for _ in range(chunks):
        arrived = Fraction(0)
        for hop in range(hops):
            arrived = free[hop] = max(arrived, free[hop]) + step
    return arrived


@pytest.mark.parametrize("hops", [1, 2, 3, 8])
@pytest.mark.parametrize("chunks", [1, 2, 5, 16])
def test_a_pipelined_chain_takes_the_time_of_its_simulation(chunks, hops):
    simulated = chain(1000, chunks, hops, Fraction(3), Fraction(7))
    assert pipelined_chain_time(Fraction(1000), chunks, hops, Fraction(3), Fraction(7)) == simulated
    assert chain(1000, chunks, hops + 1, Fraction(3), Fraction(7)) != simulated


def test_a_chain_of_one_hop_is_a_chunked_message():
    assert equal(pipelined_chain_time(n, k, 1, alpha, beta), chunked_time(n, k, alpha, beta))


def test_the_best_number_of_chunks_is_where_the_derivative_is_zero():
    derivative = sp.diff(pipelined_chain_time(n, k, h, alpha, beta), k)
    best = pipelined_chain_best_chunks(n, h, alpha, beta)
    assert sp.simplify(derivative.subs(k, best)) == 0
    assert sp.diff(derivative, k).subs(h, 1 + h).simplify().is_positive
    at_best = pipelined_chain_time(n, best, h, alpha, beta)
    more = sp.Symbol("more", positive=True)
    difference = (at_best - pipelined_chain_best_time(n, h, alpha, beta)).subs(h, 1 + more)
    assert sp.simplify(sp.expand(difference)) == 0


def test_no_whole_number_of_chunks_is_faster_than_the_best_time():
    size, hops, latency, bandwidth = 8e6, 8, 5e-6, 1e9
    times = {c: pipelined_chain_time(size, c, hops, latency, bandwidth) for c in range(1, 400)}
    fastest = min(times, key=times.get)
    best = pipelined_chain_best_chunks(size, hops, latency, bandwidth)
    assert abs(fastest - best) < 1
    assert times[fastest] >= pipelined_chain_best_time(size, hops, latency, bandwidth)
    assert times[fastest] < times[1] / 5


def test_loggp_is_alpha_beta_with_other_names():
    same = message_time(n, loggp_alpha(L, o, G), loggp_beta(G))
    assert equal(loggp_time(n, L, o, G), same)
    assert not equal(loggp_time(n, L, o, G), message_time(n, L + 2 * o, loggp_beta(G)))


@pytest.mark.parametrize("o, gap, n", [(3, 1, 1), (1, 4, 1), (1, 1, 9), (2, 0, 3)])
def test_a_burst_takes_the_time_of_its_simulation(o, gap, n):
    """Step by step: when processor and port are free, when the last byte is there and taken."""
    L, G, processor, port = 10, 1, 0, 0
    for k in range(1, 6):
        start = max(processor, port - o)
        processor = start + o
        port = processor + (n - 1) * G + gap
        arrival = processor + (n - 1) * G + L + o
        assert loggp_burst_time(n=n, k=k, L=L, o=o, gap=gap, G=G) == arrival


def test_the_two_roofs_meet_at_the_ridge():
    flops, moved, peak, memory = (
        NOTATION[x].sympy() for x in ("flops", "bytes", "peak", "bandwidth")
    )
    ridge = ridge_intensity(peak, memory)
    assert roofline_rate(ridge, peak, memory) == peak
    assert equal(flops / peak, (moved / memory).subs(moved, flops / ridge))
    rate = roofline_rate(arithmetic_intensity(flops, moved), peak, memory)
    values = {flops: 3e12, moved: 2e9, peak: 1e15, memory: 4e12}
    time = roofline_time(flops, moved, peak, memory)
    assert float((flops / rate).subs(values)) == pytest.approx(float(time.subs(values)), rel=1e-14)
