"""The newer algorithms: simulated is closed form, exactly; bounds follow from two tables."""

from fractions import Fraction
from math import ceil, floor, log2

import numpy as np
import pytest
from every_algorithm import CHECKS, name, sizes

from dtlib import collectives as c
from dtlib.collectives import PRIMITIVES, Packed, Switch

ALPHA, BETA, N = Fraction(1, 7), Fraction(13, 3), Fraction(1000)  # so that nothing cancels
TIMES = {
    c.flat_scatter: c.flat_scatter_time,
    c.flat_gather: c.flat_scatter_time,
    c.tree_scatter: c.tree_scatter_time,
    c.tree_gather: c.tree_scatter_time,
    c.scatter_all_gather_broadcast: c.scatter_all_gather_broadcast_time,
    c.two_way_ring_all_reduce: c.two_way_ring_all_reduce_time,
    c.folded_halving_doubling_all_reduce: c.folded_halving_doubling_all_reduce_time,
}
PROMISES = {
    c.check_broadcast: "broadcast",
    c.check_reduce: "reduce",
    c.check_scatter: "scatter",
    c.check_gather: "gather",
    c.check_all_gather: "all-gather",
    c.check_reduce_scatter: "reduce-scatter",
    c.check_all_reduce: "all-reduce",
    c.check_all_to_all: "all-to-all",
}


@pytest.mark.parametrize("build", TIMES, ids=name)
def test_the_simulated_time_is_the_closed_form_exactly(build):
    for P in range(2, 34):
        simulated = c.schedule_time(build(P), N, Switch(P, ALPHA, BETA))
        closed = TIMES[build](N, Fraction(P), ALPHA, BETA)
        assert simulated == closed, P


@pytest.mark.parametrize("S", [1, 2, 5, 12])
@pytest.mark.parametrize("P", [2, 3, 4, 7, 12])
def test_a_chain_takes_the_closed_form_exactly(P, S):
    switch = Switch(P, ALPHA, BETA)
    closed = c.chain_broadcast_time(N, P, S, ALPHA, BETA)
    assert c.schedule_time(c.chain_broadcast(P, S), N, switch) == closed
    assert c.schedule_time(c.chain_reduce(P, S), N, switch) == closed
    both = c.schedule_time(c.chain_all_reduce(P, S), N, switch)
    assert both == c.chain_all_reduce_time(N, P, S, ALPHA, BETA)
    assert len(c.chain_broadcast(P, S)) == P + S - 2
    assert c.chain_broadcast(P, S).messages() == (P - 1) * S


def test_best_segments_of_a_chain_are_the_best_of_all():
    n, P, alpha, beta = 10**8, 64, 1e-5, 50e9
    best = c.chain_best_segments(n, P, alpha, beta)
    times = [c.chain_broadcast_time(n, P, S, alpha, beta) for S in range(1, 400)]
    assert abs(1 + int(np.argmin(times)) - best) < 1


def test_a_chain_of_many_segments_nears_the_bandwidth_bound_of_a_broadcast_and_a_tree_does_not():
    P, n, alpha, beta = 64, 10**10, 1e-6, 50e9
    S = round(c.chain_best_segments(n, P, alpha, beta))
    assert c.chain_broadcast_time(n, P, S, alpha, beta) < 1.05 * n / beta
    assert c.scatter_all_gather_broadcast_time(n, P, alpha, beta) < 2 * n / beta
    assert c.tree_broadcast_time(n, P, alpha, beta) > log2(P) * n / beta


@pytest.mark.parametrize("P", range(1, 34))
def test_folding_costs_two_rounds_and_two_buffers_and_nothing_for_a_power_of_two(P):
    folded, Q = c.folded_halving_doubling_all_reduce(P), 2 ** floor(log2(P))
    assert len(folded) == 2 * ceil(log2(P))
    assert max(folded.sent_bytes(Q)) == 2 * (Q - 1) + Q * (P > Q)
    if P == Q:
        assert folded == c.halving_doubling_all_reduce(P)


@pytest.mark.parametrize("P", range(2, 34))
def test_bruck_takes_logarithmically_many_rounds_of_at_most_half_the_blocks(P):
    bruck = c.bruck_all_to_all(P)
    assert len(bruck) == ceil(log2(P)) and c.packed_messages(bruck) == P * ceil(log2(P))
    hops = sum((way).bit_count() for way in range(P))
    assert bruck.sent_bytes(P) == bruck.received_bytes(P) == [hops] * P
    seconds = c.schedule_time(bruck, N, Packed(Switch(P, ALPHA, BETA)))
    assert seconds == ceil(log2(P)) * ALPHA + hops * N / P / BETA
    if P & (P - 1) == 0:
        assert seconds == pytest.approx(c.bruck_all_to_all_time(N, P, ALPHA, BETA), rel=1e-14)


def test_bruck_beats_pairwise_where_latency_counts_and_loses_where_bytes_do():
    P, alpha, beta = 64, 5e-6, 50e9
    for n, bruck_wins in ((64, True), (10**8, False)):
        bruck = c.bruck_all_to_all_time(n, P, alpha, beta)
        assert (bruck < c.pairwise_all_to_all_time(n, P, alpha, beta)) is bruck_wins


class Links(Switch):
    """Every pair of ranks has a link of its own: a round lasts as long as its busiest link."""

    def round_time(self, round, chunk_bytes):
        per_link = {}
        for send in round:
            messages, chunks = per_link.get((send.src, send.dst), (0, 0))
            per_link[send.src, send.dst] = messages + 1, chunks + send.count
        return max(k * self.alpha + m * chunk_bytes / self.beta for k, m in per_link.values())


@pytest.mark.parametrize("P", range(3, 18))
def test_two_directions_help_where_there_are_two_links_and_only_there(P):
    two_way, half = c.two_way_ring_all_reduce(P), c.half_ring_all_reduce(P)
    links, one_port = Links(P, ALPHA, BETA), Switch(P, ALPHA, BETA)
    times = [c.schedule_time(schedule, N, links) for schedule in (two_way, half)]
    assert times[0] == c.two_link_ring_all_reduce_time(N, P, ALPHA, BETA)
    assert times[1] == c.half_ring_all_reduce_time(N, P, ALPHA, BETA)
    ring = c.ring_all_reduce_time(N, Fraction(P), ALPHA, BETA)
    for schedule in (two_way, half):
        assert c.schedule_time(schedule, N, one_port) >= ring
        assert schedule.sent_bytes(P) == [2 * (P - 1)] * P
    assert len(half) == 2 * (P // 2)
    bytes_only = c.half_ring_all_reduce_time(N, P, 0, BETA), c.ring_all_reduce_time(N, P, 0, BETA)
    assert (2 * bytes_only[0] == pytest.approx(bytes_only[1])) is (P % 2 == 1)


@pytest.mark.parametrize("operation", PRIMITIVES)
def test_the_bus_factors_of_nccl_tests_are_the_bounds_of_the_two_tables(operation):
    for P in range(2, 12):
        share = c.busiest_port_fraction(PRIMITIVES[operation], P)
        assert share == c.bus_factor(operation, Fraction(P))


@pytest.mark.parametrize("build", CHECKS, ids=name)
def test_no_algorithm_has_fewer_bytes_rounds_or_seconds_than_its_primitive_takes(build):
    primitive = PRIMITIVES[PROMISES[CHECKS[build]]]
    for P in [P for P in sizes(build, 17) if P > 1]:
        schedule, share = build(P), c.busiest_port_fraction(primitive, P)
        busiest = max(max(schedule.sent_bytes(N)), max(schedule.received_bytes(N)))
        assert busiest >= share * N
        machine = Packed(Switch(P, ALPHA, BETA))
        seconds = c.schedule_time(schedule, N, machine)
        assert c.bus_bandwidth(PROMISES[CHECKS[build]], N, seconds, Fraction(P)) <= BETA
        assert seconds >= c.lower_bound_time(primitive, N, P, ALPHA, BETA)


@pytest.mark.parametrize("P", [2, 8, 64])
def test_the_bounds_are_met_by_scatters_and_gathers_and_for_an_all_reduce_are_those_of_theory(P):
    for build, operation in ((c.tree_scatter, "scatter"), (c.tree_gather, "gather")):
        met = c.schedule_time(build(P), N, Switch(P, ALPHA, BETA))
        assert met == c.lower_bound_time(PRIMITIVES[operation], N, P, ALPHA, BETA)
    bound = c.lower_bound_time(PRIMITIVES["all-reduce"], N, P, ALPHA, BETA)
    assert bound == c.all_reduce_lower_bound_time(N, Fraction(P), ALPHA, BETA)


def test_a_ring_without_latency_has_the_bus_bandwidth_of_a_port_and_a_network_that_adds_more():
    P, beta = Fraction(8), Fraction(50 * 10**9)
    ring = c.ring_all_reduce_time(N, P, 0, beta)
    assert c.bus_bandwidth("all-reduce", N, ring, P) == beta
    assert c.bus_bandwidth("all-reduce", N, N / beta, P) == Fraction(7, 4) * beta


def test_algorithm_and_bus_bandwidth_of_an_operation_nobody_has():
    assert c.algorithm_bandwidth(10, 2) == 5
    with pytest.raises(ValueError, match=r"operation must be one of broadcast, .*; got 'sendrecv'"):
        c.bus_bandwidth("sendrecv", 1, 1, 2)


@pytest.mark.parametrize("P", [1, 2, 3, 5, 8])
def test_parameter_servers_add_up_and_their_ports_carry_what_the_formulas_say(P):
    for S in range(1, P + 1):
        colocated, own = c.parameter_server_all_reduce(P, S), c.dedicated_parameter_server(P, S)
        c.check_all_reduce(colocated)
        if P > 1:
            c.check_primitive(own, c.all_reduce_of_workers(P))
        assert sum(colocated.sent_bytes(N)) == 2 * (P - 1) * N
        assert sum(own.sent_bytes(N)) == 2 * P * N
        served = c.dedicated_parameter_server_received_bytes(N, P, Fraction(S))
        assert own.received_bytes(N)[P:] == own.sent_bytes(N)[P:] == [served] * S
        seconds = c.schedule_time(own, N, Switch(P + S, ALPHA, BETA))
        assert seconds == c.dedicated_parameter_server_time(N, P, S, ALPHA, BETA)
        if P > 1:
            seconds = c.schedule_time(colocated, N, Switch(P, ALPHA, BETA))
            assert seconds == c.parameter_server_all_reduce_time(N, P, S, ALPHA, BETA)


@pytest.mark.parametrize("P", [2, 16, 64, 256])
def test_with_a_shard_on_every_rank_a_parameter_server_is_a_ring_and_else_slower(P):
    P = Fraction(P)
    ring = c.ring_all_reduce_time(N, P, ALPHA, BETA)
    assert c.parameter_server_all_reduce_time(N, P, P, ALPHA, BETA) == ring
    for S in (1, 4, P):
        ratio = c.dedicated_parameter_server_time(N, P, S, 0, BETA) / c.ring_all_reduce_time(
            N, P, 0, BETA
        )
        assert ratio == c.parameter_server_over_ring_ratio(P, S) == P**2 / (S * (P - 1))
    assert c.parameter_server_over_ring_ratio(P, P) == P / (P - 1)


def test_golden_parameter_server_of_256_workers_and_16_shards():
    server = c.dedicated_parameter_server_time(7e8, 256, 16, 0, 200e9)
    ring = c.ring_all_reduce_time(7e8, 256, 0, 200e9)
    assert f"{server:.3f} {ring:.5f} {server / ring:.1f}" == "0.112 0.00697 16.1"
    assert f"{c.dedicated_parameter_server_time(7e8, 256, 1, 0, 200e9):.2f}" == "1.79"


@pytest.mark.parametrize("builder", [c.parameter_server_all_reduce, c.dedicated_parameter_server])
def test_more_shards_than_workers_are_refused(builder):
    for shards in (0, 5):
        with pytest.raises(ValueError, match=f"shards must be 1 to P = 4; got shards = {shards}"):
            builder(4, shards)


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
@pytest.mark.parametrize("G", [1, 2, 3, 4])
def test_on_several_levels_every_all_reduce_sends_the_bytes_of_a_ring(nodes, G):
    P = nodes * G
    for across in (c.ring_all_reduce, c.folded_halving_doubling_all_reduce, c.tree_all_reduce):
        c.check_all_reduce(c.hierarchical_all_reduce(nodes, G, across=across))
    rings, rails = c.hierarchical_all_reduce(nodes, G), c.multi_rail_ring_all_reduce(nodes, G)
    c.check_all_reduce(rails)
    assert rings.sent_bytes(P) == rails.sent_bytes(P) == [2 * (P - 1)] * P
    assert len(rings) == 2 * (G - 1) + 2 * (nodes - 1) and len(rails) == 2 * (P - 1)


@pytest.mark.parametrize("G", [2, 3, 4])
def test_every_rail_crosses_from_node_to_node_at_a_rank_of_its_own(G):
    for round in c.multi_rail_ring_all_reduce(3, G):
        away = round.src // G != round.dst // G
        assert sorted(round.src[away]) == sorted(round.dst[away]) == list(range(3 * G))


def test_three_levels_are_a_hierarchy_whose_upper_level_is_one():
    three = c.hierarchical_all_reduce(6, 2, across=lambda nodes: c.hierarchical_all_reduce(3, 2))
    c.check_all_reduce(three)
    assert three.sent_bytes(12) == [22] * 12 and len(three) == 2 + 2 + 4


def test_golden_bytes_out_of_a_node_of_8_among_32():
    P, G = 256, 8
    ring = c.ring_all_reduce(P)
    places = np.arange(P).reshape(-1, G)
    interleaved = ring.relabelled(places.T.ravel())

    def out_of_a_node(schedule):
        run_bytes = sum(
            len(run) * run[0].count[(run[0].src < G) & (run[0].dst >= G)].sum()
            for run in schedule.rounds.runs
        )
        return run_bytes / schedule.parts

    for schedule, golden in (
        (ring, 1.992),
        (interleaved, 15.94),
        (c.hierarchical_all_reduce(32, 8), 1.9375),
        (c.multi_rail_ring_all_reduce(32, 8), 1.992),
    ):
        assert out_of_a_node(schedule) == pytest.approx(golden, abs=5e-3)


def test_golden_milliseconds_of_two_levels_and_of_rails():
    """32 nodes of 8 ranks, 700 MB: one NIC of 25 GB/s a node, shared by all, and one a rank."""
    machine = {"nodes": 32, "ranks_per_node": 8, "alpha_in": 1e-6, "beta_in": 450e9}
    shared = c.hierarchical_all_reduce_time(7e8, **machine, alpha=1e-5, beta=25e9 / 8)
    own = c.hierarchical_all_reduce_time(7e8, **machine, alpha=1e-5, beta=25e9)
    rails = c.multi_rail_ring_all_reduce_time(7e8, **machine, alpha=1e-5, beta=25e9)
    flat = c.ring_all_reduce_time(7e8, 256, 1e-5, 25e9)
    assert f"{shared * 1e3:.2f} {flat * 1e3:.3f}" == "57.61 60.881"
    assert f"{own * 1e3:.1f} {rails * 1e3:.1f}" == "10.1 12.1"
