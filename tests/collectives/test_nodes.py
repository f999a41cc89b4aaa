"""Ranks in nodes: what every port carries is counted again by hand, and no time is below a cut."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from every_algorithm import ALL_REDUCES, CHECKS, name, sizes
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlib import collectives as c
from dtlib.collectives import Round, Schedule, Send, Switch
from dtlib.collectives.nodes import Nodes, Port, Wire, round_robin
from dtlib.foundations import Axis, AxisOrder, Cluster, Level, catalog

INSIDE = Wire(Fraction(1, 11), Fraction(29, 3))
NIC = Wire(Fraction(1, 7), Fraction(13, 3))  # so that nothing cancels
N = Fraction(1000)


def by_hand(machine: Nodes, round) -> tuple[Counter, Counter]:
    """Messages and chunks through every port, one send and one `if` at a time."""
    messages, chunks = Counter(), Counter()
    order = machine.order or range(machine.P)
    G, K = machine.ranks_per_node, machine.nics
    for send in round:
        src, dst = order[send.src], order[send.dst]
        if src // G == dst // G:
            used = [Port("GPU", src, "out"), Port("GPU", dst, "in")]
        else:
            used = [
                Port("NIC", src // G * K + src % G % K, "out"),
                Port("NIC", dst // G * K + dst % G % K, "in"),
            ]
            pods = src // G // machine.pod_nodes, dst // G // machine.pod_nodes
            if pods[0] != pods[1]:
                used += [Port("pod", pods[0], "out"), Port("pod", pods[1], "in")]
        for port in used:
            messages[port] += 1
            chunks[port] += send.count
    return messages, chunks


def time_by_hand(machine: Nodes, round, chunk_bytes):
    """The slowest of all ports."""
    messages, chunks = by_hand(machine, round)
    uplink = machine.pod_nodes * machine.nics * machine.nic.beta / machine.taper
    wires = {"GPU": machine.inside, "NIC": machine.nic, "pod": Wire(0, uplink)}
    return max(
        messages[port] * wires[port.kind].alpha + chunks[port] * chunk_bytes / wires[port.kind].beta
        for port in messages
    )


@st.composite
def machines(draw, most_nodes=6):
    nodes, G = draw(st.integers(1, most_nodes)), draw(st.integers(1, 5))
    if nodes * G == 1:
        G = 2
    return Nodes(
        nodes,
        G,
        INSIDE,
        NIC,
        nics=draw(st.integers(1, G)),
        taper=draw(st.fractions(1, 9)),
        pod_nodes=draw(st.sampled_from([k for k in range(1, nodes + 1) if nodes % k == 0])),
        order=draw(st.permutations(range(nodes * G)) | st.none()),
    )


@st.composite
def rounds_on(draw, P, chunks=8):
    sends = st.tuples(
        st.integers(0, P - 1), st.integers(1, P - 1), st.integers(0, chunks - 3), st.integers(1, 3)
    )
    drawn = draw(st.lists(sends, min_size=1, max_size=12))
    return [Send(src, (src + hop) % P, chunk, False, count) for src, hop, chunk, count in drawn]


@st.composite
def traffic(draw):
    machine = draw(machines())
    rounds = draw(st.lists(rounds_on(machine.P), min_size=1, max_size=4))
    return machine, Schedule(machine.P, 8, rounds)


@settings(max_examples=100, deadline=None)
@given(traffic())
def test_the_load_of_every_port_is_that_of_a_count_by_hand(drawn):
    machine, schedule = drawn
    total = Counter()
    for round in schedule:
        _, chunks = by_hand(machine, round)
        assert machine.link_loads(round) == chunks
        assert machine.round_time(round, N) == time_by_hand(machine, round, N)
        total += chunks
    assert machine.edge_loads(schedule, N) == {p: N * k / 8 for p, k in total.items()}


@settings(max_examples=100, deadline=None)
@given(traffic())
def test_what_leaves_enters_somewhere(drawn):
    machine, schedule = drawn
    loads = machine.edge_loads(schedule, N)
    for kind in ("GPU", "NIC", "pod"):
        out, into = (
            sum(load for port, load in loads.items() if port[0] == kind and port[2] == way)
            for way in ("out", "in")
        )
        assert out == into
    sent = sum(schedule.sent_bytes(N))
    assert sent == sum(load for port, load in loads.items() if port[0] != "pod") / 2
    assert sum(machine.leaving(schedule, N)) <= sent


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_one_node_and_one_rank_per_node_are_a_switch(data):
    P = data.draw(st.integers(2, 8))
    schedule = Schedule(P, 8, data.draw(st.lists(rounds_on(P), min_size=1, max_size=4)))
    order = data.draw(st.permutations(range(P)))
    alone = Nodes(1, P, INSIDE, NIC, nics=data.draw(st.integers(1, P)), taper=3, order=order)
    single = Nodes(P, 1, INSIDE, NIC, pod_nodes=P, taper=3, order=order)
    for machine, wire in ((alone, INSIDE), (single, NIC)):
        assert c.round_times(schedule, N, machine) == c.round_times(schedule, N, Switch(P, *wire))
    floats = Nodes(P, 1, (3e-7, 1e9), (1e-6, 5e10))
    assert c.schedule_time(schedule, 1e6, floats) == c.schedule_time(
        schedule, 1e6, Switch(P, 1e-6, 5e10)
    )


@settings(max_examples=60, deadline=None)
@given(traffic(), st.randoms())
def test_numbering_the_ranks_otherwise_is_renaming_them_in_the_schedule(drawn, random):
    machine, schedule = drawn
    names = list(range(machine.P))
    random.shuffle(names)
    renamed = Schedule(
        machine.P,
        8,
        [Round(np.array(names)[r.src], np.array(names)[r.dst], r.chunk, False, r.count)
         for r in schedule],
    )  # fmt: skip
    order = machine.order or range(machine.P)
    assert machine.edge_loads(renamed, N) == machine.ordered(
        [order[name] for name in names]
    ).edge_loads(schedule, N)


@pytest.mark.parametrize("build", CHECKS, ids=name)
def test_a_run_is_priced_like_its_rounds(build):
    for P in sizes(build, 8):
        lazily = build(P)
        built = Schedule(P, lazily.chunks, list(lazily), parts=lazily.parts)
        for G in (k for k in range(1, P + 1) if P % k == 0):
            machine = Nodes(P // G, G, INSIDE, NIC, nics=G, order=round_robin(P // G, G))
            assert c.schedule_time(lazily, N, machine) == c.schedule_time(built, N, machine)
            assert c.schedule_time(lazily, N, machine) == sum(c.round_times(lazily, N, machine))
            assert machine.edge_loads(lazily, N) == machine.edge_loads(built, N)


# Cuts.


@pytest.mark.parametrize("build", ALL_REDUCES, ids=name)
@pytest.mark.parametrize("order", ["side by side", "dealt"])
def test_no_all_reduce_sends_less_or_is_faster_than_the_cuts_allow(build, order):
    for P in sizes(build, 12)[1:]:
        for G in (k for k in range(1, P + 1) if P % k == 0):
            nodes = P // G
            for pod_nodes in (k for k in range(1, nodes + 1) if nodes % k == 0):
                machine = Nodes(nodes, G, INSIDE, NIC, G, Fraction(5, 2), pod_nodes)
                if order == "dealt":
                    machine = machine.ordered(round_robin(nodes, G))
                schedule = build(P)
                assert max(machine.leaving(schedule, N)) >= machine.cut_bound(N)
                assert c.schedule_time(schedule, N, machine) >= machine.cut_bound_time(N)


def test_sabotage_what_does_not_reduce_everything_undercuts_the_cut():
    ring = c.ring_all_reduce(8)
    machine = Nodes(4, 2, INSIDE, NIC)
    half = Schedule(8, 8, ring.rounds[:5])
    with pytest.raises(c.ScheduleError):
        c.check_all_reduce(half)
    assert max(machine.leaving(half, N)) < machine.cut_bound(N)


def hierarchical_all_reduce(nodes, G):
    """Scatter the sums of a node over its ranks, all-reduce each part across, gather in the node.

    A part of rank i of every node is ``nodes`` neighbouring chunks; rings everywhere.
    """
    r = np.arange(nodes * G)
    node, i = np.divmod(r, G)
    right, across = node * G + (i + 1) % G, (r + G) % (nodes * G)

    def inside(part, reduce):
        return Round(r, right, part % G * nodes, reduce, count=nodes)

    def between(chunk, reduce):
        return Round(r, across, i * nodes + chunk % nodes, reduce)

    rounds = [inside(i - t - 1, True) for t in range(G - 1)]
    rounds += [between(node - t - 1, True) for t in range(nodes - 1)]
    rounds += [between(node - t, False) for t in range(nodes - 1)]
    rounds += [inside(i - t, False) for t in range(G - 1)]
    return Schedule(nodes * G, nodes * G, rounds)


def test_golden_bytes_out_of_a_node_on_32_nodes_of_8():
    machine = Nodes.of(Cluster(catalog["dgx-h100"], nodes=32))
    ring, dealt = c.ring_all_reduce(256), machine.ordered(round_robin(32, 8))
    d = 256
    assert set(machine.leaving(ring, d)) == {2 * 255}  # 1.992 d
    assert set(dealt.leaving(ring, d)) == {8 * 2 * 255}  # 15.94 d
    hierarchical = hierarchical_all_reduce(32, 8)
    assert set(machine.leaving(hierarchical, d)) == {2 * 31 * 8}  # 1.9375 d
    assert machine.cut_bound(d) == 2 * 31 * 8
    printed = [round(x / d, 4) for x in (2 * 255, 8 * 2 * 255, machine.cut_bound(d))]
    assert printed == [1.9922, 15.9375, 1.9375]
    c.check_all_reduce(hierarchical_all_reduce(4, 3))


def test_the_two_level_time_is_its_closed_form_and_its_wall_is_the_cut():
    nodes, G = 6, 4
    machine = Nodes(nodes, G, INSIDE, NIC, nics=G)
    inner = 2 * (G - 1) * INSIDE.alpha + Fraction(2 * (G - 1), G) * N / INSIDE.beta
    outer = 2 * (nodes - 1) * NIC.alpha + Fraction(2 * (nodes - 1), nodes) * N / G / NIC.beta
    assert c.schedule_time(hierarchical_all_reduce(nodes, G), N, machine) == inner + outer
    assert outer - 2 * (nodes - 1) * NIC.alpha == machine.cut_bound_time(N)
    one = Nodes(nodes, G, INSIDE, NIC)
    shared = G * 2 * (nodes - 1) * NIC.alpha + one.cut_bound_time(N)
    assert c.schedule_time(hierarchical_all_reduce(nodes, G), N, one) == inner + shared


def test_the_hierarchy_of_the_library_loads_the_ports_as_this_one_does():
    for nodes, G in ((2, 2), (3, 4), (5, 3)):
        machine = Nodes(nodes, G, INSIDE, NIC, nics=G - 1)
        ours, theirs = hierarchical_all_reduce(nodes, G), c.hierarchical_all_reduce(nodes, G)
        assert machine.edge_loads(ours, N) == machine.edge_loads(theirs, N)
        assert c.schedule_time(ours, N, machine) == c.schedule_time(theirs, N, machine)


def test_golden_milliseconds_of_512_nodes_like_for_like():
    """10 GB: hierarchical with rings and with halving-doubling between, flat on eight rails."""
    machine = Nodes(512, 8, (0, 500e9), (5e-6, 50e9), nics=8)
    halving = c.hierarchical_all_reduce(512, 8, across=c.halving_doubling_all_reduce)
    schedules = (
        (c.hierarchical_all_reduce(512, 8), "90.0"),
        (halving, "85.0"),
        (c.multi_rail_ring_all_reduce(512, 8), "90.9"),  # 50.0 of bytes and 41 of latency
        (c.ring_all_reduce(4096), "440.9"),  # one rail: eight times the bytes for one NIC
    )
    for schedule, milliseconds in schedules:
        assert f"{c.schedule_time(schedule, 10**10, machine) * 1e3:.1f}" == milliseconds
    assert round(machine.cut_bound_time(10**10) * 1e3, 1) == 49.9


def test_golden_two_level_milliseconds_with_one_nic():
    """700 MB on 32 nodes of 8, without latency: 2.72 ms inside, 54.25 ms between."""
    machine = Nodes(32, 8, (0, 450 * 10**9), (0, 25 * 10**9))
    inside, between = 2 * 7 / 8 * 0.7e9 / 450e9, 2 * 31 / 32 * 0.7e9 / 25e9
    time = c.schedule_time(hierarchical_all_reduce(32, 8), 0.7e9, machine)
    assert time == pytest.approx(inside + between, rel=1e-12)
    assert [f"{x * 1e3:.2f}" for x in (inside, between)] == ["2.72", "54.25"]


# Rails, taper, rank order.


def test_rails_share_the_messages_of_a_node():
    across = [Send(i, 4 + i, i) for i in range(4)]
    for nics, share in ((1, 4), (2, 2), (3, 2), (4, 1)):
        machine = Nodes(2, 4, INSIDE, NIC, nics)
        assert machine.round_time(Round.of(across), N) == share * (NIC.alpha + N / NIC.beta)
        out = [p for p in machine.link_loads(Round.of(across)) if p[::2] == ("NIC", "out")]
        assert len(out) == nics


def test_a_taper_slows_down_what_leaves_the_pod_and_nothing_else():
    def time(schedule, taper):
        machine = Nodes(4, 2, INSIDE, NIC, nics=2, pod_nodes=2, taper=taper)
        return c.schedule_time(schedule, N, machine)

    everybody_far = Schedule(8, 1, [[Send(r, (r + 4) % 8, 0) for r in range(8)]])
    at_home = Schedule(8, 1, [[Send(r, r ^ 2, 0) for r in range(8)]])
    ring = Schedule(8, 1, [[Send(r, (r + 1) % 8, 0) for r in range(8)]])
    assert time(everybody_far, 1) == NIC.alpha + N / NIC.beta
    for taper in (2, 4, 8):
        assert time(everybody_far, taper) == taper * N / NIC.beta
        assert time(at_home, taper) == time(at_home, 1)
        assert time(ring, min(taper, 4)) == time(ring, 1)  # one message of four leaves a pod


def test_a_port_waits_for_many_small_or_few_large_messages_whichever_takes_longer():
    """The slowest port, not the most messages of one port with the most bytes of another."""
    mixed = Round.of([Send(0, 1, 0, count=5), *(Send(2, dst, 0) for dst in (3, 4, 5))])
    for n in (Fraction(0), Fraction(1, 100), N):
        wanted = max(INSIDE.alpha + 5 * n / INSIDE.beta, 3 * (INSIDE.alpha + n / INSIDE.beta))
        assert Nodes(1, 6, INSIDE, NIC).round_time(mixed, n) == wanted
        assert Switch(6, *INSIDE).round_time(mixed, n) == wanted


def test_sizes_may_be_an_array():
    machine = Nodes(4, 2, (1e-6, 4e11), (2e-6, 5e10), nics=2, taper=2)
    sizes_ = np.array([0.0, 1e3, 1e9])
    ring = c.ring_all_reduce(8)
    together = c.schedule_time(ring, sizes_, machine)
    assert together.tolist() == [c.schedule_time(ring, n, machine) for n in sizes_]
    assert (together >= machine.cut_bound_time(sizes_)).all()
    assert isinstance(machine.cut_bound_time(10**9), float)
    assert machine.cut_bound(sizes_).tolist() == [machine.cut_bound(n) for n in sizes_]


# Agreement with what earlier chapters count.


@pytest.mark.parametrize("members", [1, 2, 4])
def test_a_ring_loads_the_wall_of_a_node_as_a_placement_says(members):
    nodes, G, n = 4, 4, 1600
    ring = c.ring_all_reduce(16)
    others = [Axis("others", G // members, 0)] if members < G else []
    size = 16 // (G // members)
    inner = c.ring_all_reduce(size)
    traffic = inner.sent_bytes(n)[0]
    place = AxisOrder([Level("node", G, 1)], (*others, Axis("ring", size, traffic)))
    total = [0] * nodes
    for group in {tuple(place.group("ring", rank)) for rank in range(16)}:
        ranks = np.array(group)
        moved = Schedule(
            16,
            size,
            [Round(ranks[r.src], ranks[r.dst], r.chunk, r.reduce) for r in inner],
        )
        out = Nodes(nodes, G, INSIDE, NIC).leaving(moved, n)
        total = [a + b for a, b in zip(total, out, strict=True)]
    assert set(total) == {place.load("ring", "node")}
    if members == G:
        assert total == Nodes(nodes, G, INSIDE, NIC).leaving(ring, n)


def test_a_scatter_leaves_the_node_of_its_root_alone_and_a_gather_all_others():
    machine = Nodes(3, 2, INSIDE, NIC)
    assert machine.leaving(c.flat_scatter(6), N) == [4 * N / 6, 0, 0]
    assert machine.leaving(c.flat_gather(6), N) == [0, 2 * N / 6, 2 * N / 6]


@pytest.mark.parametrize("order", ["side by side", "scattered"])
def test_what_leaves_a_node_is_what_a_loop_over_the_sends_finds(order):
    nodes, G, n = 4, 8, 32_000
    ring, machine = c.ring_all_reduce(nodes * G), Nodes(nodes, G, INSIDE, NIC, nics=8)
    layout = np.arange(32) // G if order == "side by side" else np.arange(32) % nodes
    if order == "scattered":
        machine = machine.ordered(round_robin(nodes, G))
    sent = np.zeros(nodes)
    for r in ring.rounds:
        source, target = layout[r.src], layout[r.dst]
        np.add.at(sent, source[source != target], n / ring.chunks)
    assert sent.tolist() == machine.leaving(ring, n)


@pytest.mark.parametrize("nodes", [2, 8, 125])
def test_a_ring_side_by_side_fills_an_eighth_of_the_ports_that_a_dealt_one_fills(
    nodes,
):
    machine = Nodes.of(Cluster(catalog["dgx-h100"], nodes=nodes))
    ring, beta = c.ring_all_reduce(machine.P), catalog["ib-ndr400"].beta
    n = 10**12
    loads = {}
    for title, each in (("side", machine), ("dealt", machine.ordered(round_robin(nodes, 8)))):
        loads[title] = sum(each.leaving(ring, n)) / nodes / (8 * beta)
    assert loads["dealt"] == pytest.approx(8 * loads["side"])
    assert loads["dealt"] == pytest.approx(c.ring_all_reduce_time(n, machine.P, 0, beta))


def test_sabotage_another_order_and_another_rail_are_noticed():
    ring = c.ring_all_reduce(8)
    machine = Nodes(2, 4, INSIDE, NIC, nics=2)
    loads = machine.edge_loads(ring, N)
    assert machine.ordered([1, 0, 2, 3, 4, 5, 6, 7]).edge_loads(ring, N) != loads
    assert Nodes(2, 4, INSIDE, NIC, nics=4).edge_loads(ring, N) != loads
    lacking = Schedule(8, 8, [list(ring.rounds[0])[1:], *ring.rounds[1:]])
    assert machine.edge_loads(lacking, N) != loads


# Drawing, size, refusals.


@pytest.mark.parametrize("nics", [1, 2, 4])
def test_a_timeline_on_nodes_ends_with_the_schedule_and_a_nic_has_one_message_at_a_time(nics):
    machine = Nodes(2, 4, (1e-6, 4e11), (2e-6, 5e10), nics=nics)
    schedule = hierarchical_all_reduce(2, 4)
    steps = c.timeline(schedule, 8 * 10**6, machine)
    assert steps.makespan == pytest.approx(c.schedule_time(schedule, 8 * 10**6, machine))
    across = sorted(
        (span.start, span.stop, rank % nics)
        for rank in range(4)
        for span in steps.of(rank)
        if span.lane == "out" and int(span.name.partition("→")[2]) // 4 == 1
    )
    for nic in range(nics):
        mine = [times for *times, port in across if port == nic]
        assert len(mine) == 2 * 4 / nics
        for (_, stop), (start, _) in pairwise(mine):
            assert stop <= start * (1 + 1e-12)


def test_a_ring_of_a_hundred_thousand_ranks_in_nodes_waits_for_its_nics():
    nodes, G = 12_500, 8
    machine = Nodes.of(Cluster(catalog["dgx-h100"], nodes=nodes))
    ring = c.ring_all_reduce(nodes * G)
    n, (alpha, beta) = 10**9, machine.nic
    rounds = 2 * (nodes * G - 1)
    assert c.schedule_time(ring, n, machine) == pytest.approx(
        rounds * (alpha + n / (nodes * G) / beta)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": 0}, "nodes must be at least 1; got nodes = 0"),
        ({"ranks_per_node": 0}, "ranks_per_node must be at least 1"),
        ({"nics": 9}, "nics must not exceed ranks_per_node, because a rank uses one NIC; got nics"),
        ({"taper": 0.5}, "taper must be at least 1; got taper = 0.5"),
        ({"pod_nodes": 3}, "pod_nodes must divide nodes = 4; got pod_nodes = 3"),
        ({"order": range(15)}, "order must have each of the places 0..31 once"),
        ({"order": [0] * 32}, "order must have each of the places 0..31 once"),
        ({"inside": (-1, 1)}, "inside must have alpha >= 0 and beta > 0; got alpha = -1, beta = 1"),
        ({"nic": (1, 0)}, "nic must have alpha >= 0 and beta > 0; got alpha = 1, beta = 0"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        Nodes(**{"nodes": 4, "ranks_per_node": 8, "inside": (1, 1), "nic": (1, 1)} | change)


def test_a_schedule_for_another_number_of_ranks_is_refused():
    with pytest.raises(ValueError, match="has P = 4 ranks, the topology has P = 8"):
        c.schedule_time(c.ring_all_reduce(4), N, Nodes(2, 4, INSIDE, NIC))
