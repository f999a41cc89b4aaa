"""Every builder does what its collective promises, with the bytes and rounds of its theory."""

from fractions import Fraction
from math import ceil, floor, log2

import pytest
from every_algorithm import ALL_REDUCES, CHECKS, name, sizes

from dtlib import collectives as c

POWERS_OF_TWO = [2**k for k in range(8)]


@pytest.mark.parametrize("build", CHECKS, ids=name)
def test_every_algorithm_computes_its_collective(build):
    for P in sizes(build, 17):
        CHECKS[build](build(P))


@pytest.mark.parametrize("build", [c.recursive_doubling_all_reduce, c.halving_doubling_all_reduce])
def test_doubling_names_the_rule_when_P_is_no_power_of_two(build):
    for P, over in ((3, 1), (5, 1), (6, 2), (7, 3), (12, 4)):
        rule = rf"P must be a power of two; got P = {P}. Fold first: {over} ranks hand"
        with pytest.raises(ValueError, match=rule):
            build(P)


@pytest.mark.parametrize("build", [c.ring_all_reduce, c.halving_doubling_all_reduce], ids=name)
def test_ring_and_halving_doubling_meet_the_bandwidth_lower_bound(build):
    for P in sizes(build, 17):
        bound = c.all_reduce_lower_bound_bytes(n=Fraction(1000), P=Fraction(P))
        assert build(P).sent_bytes(1000) == build(P).received_bytes(1000) == [bound] * P


@pytest.mark.parametrize("build", ALL_REDUCES, ids=name)
def test_no_all_reduce_sends_less_than_the_lower_bound(build):
    for P in sizes(build, 17):
        sent = build(P).sent_bytes(1000)
        assert sum(sent) >= c.all_reduce_lower_bound_messages(P) * 1000
        assert max(sent) >= c.all_reduce_lower_bound_bytes(Fraction(1000), Fraction(P))


@pytest.mark.parametrize(
    "build", [b for b in ALL_REDUCES if b is not c.recursive_doubling_all_reduce], ids=name
)
def test_every_all_reduce_but_recursive_doubling_sends_the_fewest_bytes_in_total(build):
    for P in sizes(build, 17):
        assert sum(build(P).sent_bytes(1000)) == c.all_reduce_lower_bound_messages(P) * 1000


@pytest.mark.parametrize("P", range(1, 18))
def test_rounds_are_those_of_the_theory(P):
    assert len(c.ring_all_reduce(P)) == c.ring_all_reduce_rounds(P) == 2 * (P - 1)
    assert len(c.tree_all_reduce(P)) == c.tree_all_reduce_rounds(P) == 2 * ceil(log2(P))
    assert len(c.flat_all_reduce(P)) == 2 * (P > 1)
    assert len(c.pairwise_all_to_all(P)) == P - 1


@pytest.mark.parametrize("P", POWERS_OF_TWO)
def test_doubling_takes_logarithmically_many_rounds(P):
    assert len(c.recursive_doubling_all_reduce(P)) == log2(P)
    assert len(c.halving_doubling_all_reduce(P)) == 2 * log2(P)


@pytest.mark.parametrize("P", range(1, 18))
def test_messages_and_bytes_are_those_of_the_formulas(P):
    ring, tree = c.ring_all_reduce(P), c.tree_all_reduce(P)
    assert ring.messages() == c.ring_all_reduce_messages(P)
    assert tree.messages() == c.flat_all_reduce(P).messages() == c.tree_all_reduce_messages(P)
    assert ring.sent_bytes(1000) == [c.ring_all_reduce_sent_bytes(Fraction(1000), Fraction(P))] * P
    assert max(tree.sent_bytes(1000)) == c.tree_all_reduce_sent_bytes(1000, P)
    assert c.pairwise_all_to_all(P).sent_bytes(1000) == [Fraction(P - 1, P) * 1000] * P


@pytest.mark.parametrize("P", range(2, 18))
def test_an_all_gather_is_a_reduce_scatter_reversed(P):
    c.check_all_gather(c.ring_reduce_scatter(P).reversed())
    c.check_reduce_scatter(c.ring_all_gather(P).reversed())
    c.check_all_reduce(c.ring_reduce_scatter(P) >> c.ring_reduce_scatter(P).reversed())


def test_a_broadcast_is_a_reduction_reversed():
    c.check_broadcast(c.flat_reduce(6).reversed())
    c.check_broadcast(c.tree_reduce(6).reversed())


@pytest.mark.parametrize("segments", [1, 2, 5])
@pytest.mark.parametrize("P", [*range(1, 20), 31, 32, 33, 64, 100])
def test_double_binary_tree_uses_a_port_once_in_a_round_and_is_done_in_time(P, segments):
    schedule = c.double_binary_tree_all_reduce(P, segments)
    for round in schedule:
        assert len(set(round.src)) == len(set(round.dst)) == len(round)
    most = 4 * floor(log2(P)) + 4 * (segments - 1)
    assert len(schedule) <= most
    if P in (4, 16, 64):
        assert len(schedule) == most


@pytest.mark.parametrize("P", range(2, 40))
def test_double_binary_tree_has_no_rank_inside_both_trees(P):
    inner = [set(), set()]
    for send in c.double_binary_tree_reduce(P).sends():
        inner[send.chunk].add(send.dst)
    assert not inner[0] & inner[1]


def test_double_binary_tree_needs_at_least_one_segment():
    with pytest.raises(ValueError, match="segments must be at least 1; got segments = 0"):
        c.double_binary_tree_all_reduce(4, segments=0)


@pytest.mark.parametrize("P", [1, 2, 3, 4])
def test_no_all_reduce_needs_fewer_messages_by_trying_them_all(P):
    assert c.fewest_messages(P) == c.all_reduce_lower_bound_messages(P)
