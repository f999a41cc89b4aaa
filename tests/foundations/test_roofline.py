"""The roofline with a maximum, a sum and what lies between: by algebra and by simulation."""

from fractions import Fraction

import pytest
import sympy as sp

from dtlib.foundations import (
    GB,
    NOTATION,
    TB,
    TFLOP,
    bucketed_time,
    catalog,
    headroom,
    overlapped_time,
    ridge_intensity,
    roofline_rate,
    serial_rate,
)

F, B = (NOTATION[x].sympy() for x in ("peak", "bandwidth"))
TIMES = [(Fraction(a), Fraction(b)) for a in (1, 2, 3, 7, 30) for b in (1, 2, 3, 7, 30)]


def test_headroom_is_one_where_arithmetic_and_bytes_take_the_same_time():
    flops, moved = sp.symbols("flops moved", positive=True)
    assert sp.simplify(headroom(flops / moved, F, B) - (flops / F) / (moved / B)) == 0
    assert headroom(ridge_intensity(F, B), F, B) == 1


def test_serial_and_overlapped_rates_bracket_each_other_within_a_factor_of_two():
    for intensity in (1, 10, 295, 296, 3000, 10**6):
        serial = serial_rate(intensity, 989 * TFLOP, 3.35 * TB)
        roof = roofline_rate(intensity, 989 * TFLOP, 3.35 * TB)
        assert roof / 2 <= serial < roof
    ridge = ridge_intensity(F, B)
    assert sp.simplify(serial_rate(ridge, F, B) - F / 2) == 0


def test_overlap_goes_from_the_sum_to_the_maximum():
    for a, b in TIMES:
        assert overlapped_time(a, b, 0) == a + b
        assert overlapped_time(a, b, 1) == max(a, b)


def test_overlap_of_two_resources_gains_at_most_a_factor_of_two_and_only_between_equals():
    gains = {(a, b): overlapped_time(a, b, 0) / overlapped_time(a, b, 1) for a, b in TIMES}
    assert max(gains.values()) == 2
    assert {pair for pair, gain in gains.items() if gain == 2} == {p for p in TIMES if p[0] == p[1]}


def buckets(computing, comm, count) -> Fraction:
    """Brute force: a bucket is sent when its gradients are there and the network is free."""
    ready = computing / 3
    network = Fraction(0)
    for _ in range(count):
        ready += Fraction(2, 3) * computing / count
        network = max(network, ready) + comm / count
    return network


def step(computing, comm, count):
    """The forward pass, a third of the computing, and the buckets under the rest."""
    return computing / Fraction(3) + bucketed_time(2 * computing / Fraction(3), comm, count, 0)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 100])
def test_a_step_in_buckets_takes_the_time_of_its_simulation(count):
    for a, b in TIMES:
        assert step(a, b, Fraction(count)) == buckets(a, b, count)
    assert step(Fraction(3), Fraction(2), count) != buckets(3, 2, count + 1)


def test_buckets_stay_above_the_roofline_and_below_the_sum():
    for a, b in TIMES:
        for count in (1, 2, 50):
            assert max(a, b) < step(a, b, count) <= a + b
    many = Fraction(10**6)
    assert step(Fraction(3), Fraction(2), many) - 3 < Fraction(1, 10**5)
    never = step(Fraction(3), Fraction(30), many)
    assert 0 < never - 31 < Fraction(1, 10**5)  # the forward pass hides nothing


def test_the_ridges_of_a_node_count_one_direction_and_all_ports():
    node = catalog["dgx-h100"]
    peak = node.gpu.peak("bf16")
    rates = (node.gpu.hbm_bandwidth, node.link.beta, node.nic.beta, node.network_bandwidth)
    assert [round(ridge_intensity(peak, rate)) for rate in rates] == [295, 2198, 19780, 2472]
    both_directions = 900 * GB
    assert round(ridge_intensity(peak, both_directions)) == 1099  # what a data sheet misleads to
