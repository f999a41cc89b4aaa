"""Chapter 13a as theorems: flat and hierarchical, like for like, on nodes with ports."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dtlib.collectives import (
    Nodes,
    Schedule,
    ScheduleError,
    check_all_reduce,
    hierarchical_all_reduce,
    hierarchical_all_reduce_time,
    multi_rail_ring_all_reduce,
    multi_rail_ring_all_reduce_time,
    pairwise_all_to_all,
    ring_all_reduce,
    round_robin,
    schedule_time,
)
from dtlib.foundations import GB, MB, us

SHAPES = [(2, 2), (3, 4), (4, 2), (8, 8), (5, 3)]


def machine(nodes, gpus, **changes):
    ports = {"inside": (1e-6, 450 * GB), "nic": (5e-6, 50 * GB), "nics": gpus}
    return Nodes(nodes, gpus, **ports | changes)


@pytest.mark.parametrize(("nodes", "gpus"), SHAPES)
@pytest.mark.parametrize("n", [10**3, 10**7, 10**10])
def test_the_simulated_time_of_hierarchy_and_rails_is_the_formula(nodes, gpus, n):
    inputs = n, nodes, gpus, 1e-6, 450e9, 5e-6, 50e9
    pairs = (
        (hierarchical_all_reduce, hierarchical_all_reduce_time),
        (multi_rail_ring_all_reduce, multi_rail_ring_all_reduce_time),
    )
    for build, formula in pairs:
        simulated = schedule_time(build(nodes, gpus), n, machine(nodes, gpus))
        assert simulated == pytest.approx(formula(*inputs), rel=1e-12)


@pytest.mark.parametrize(("nodes", "gpus"), SHAPES)
def test_hierarchy_meets_the_cut_bound_and_an_ordered_ring_misses_it_by_little(nodes, gpus):
    here, P = machine(nodes, gpus), nodes * gpus
    ordered = here.leaving(ring_all_reduce(P), 1)
    dealt = here.ordered(round_robin(nodes, gpus)).leaving(ring_all_reduce(P), 1)
    levels = here.leaving(hierarchical_all_reduce(nodes, gpus), 1)
    assert set(levels) == {here.cut_bound(1)} == {Fraction(2 * (nodes - 1), nodes)}
    assert set(ordered) == {Fraction(2 * (P - 1), P)}
    assert ordered[0] / levels[0] == Fraction((P - 1) * nodes, P * (nodes - 1))
    assert dealt[0] == gpus * ordered[0]


def test_the_golden_numbers_of_32_nodes_of_8():
    here = machine(32, 8)
    schedules = ring_all_reduce(256), hierarchical_all_reduce(32, 8)
    ordered, levels = (float(here.leaving(s, 1)[0]) for s in schedules)
    dealt = float(here.ordered(round_robin(32, 8)).leaving(schedules[0], 1)[0])
    assert (ordered, dealt, levels) == (1.9921875, 15.9375, 1.9375)


def test_the_brochure_gives_one_side_eight_ports_and_with_equal_ports_the_flat_ring_wins():
    ring, rails, levels = (
        ring_all_reduce(64),
        multi_rail_ring_all_reduce(8, 8),
        hierarchical_all_reduce(8, 8),
    )

    def ms(schedule, nics):
        return 1e3 * schedule_time(schedule, 10 * GB, machine(8, 8, nics=nics))

    assert ms(ring, 1) == pytest.approx(394.4, abs=0.1)
    assert ms(levels, 1) == pytest.approx(389.5, abs=0.1)
    assert ms(rails, 8) == pytest.approx(49.85, abs=0.01)
    assert ms(levels, 8) == pytest.approx(82.72, abs=0.01)


def test_whoever_does_not_know_the_nodes_gains_nothing_from_levels():
    shuffled = machine(8, 8).ordered(np.random.default_rng(0).permutation(64))
    ring, rails, levels = (
        schedule_time(s, 10 * GB, shuffled)
        for s in (
            ring_all_reduce(64),
            multi_rail_ring_all_reduce(8, 8),
            hierarchical_all_reduce(8, 8),
        )
    )
    assert levels == pytest.approx(ring, rel=0.01)
    assert rails == pytest.approx(ring, rel=0.015)


def test_the_gain_of_levels_falls_with_the_size():
    here = machine(32, 8, nic=(10 * us, 50 * GB))
    rails, levels = multi_rail_ring_all_reduce(32, 8), hierarchical_all_reduce(32, 8)
    gains = [
        schedule_time(rails, n, here) / schedule_time(levels, n, here)
        for n in (MB, 10 * MB, 100 * MB, 700 * MB)
    ]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] == pytest.approx(7.9, abs=0.05)
    assert gains[-1] == pytest.approx(1.28, abs=0.01)


def test_an_ordered_ring_feels_a_taper_from_the_nodes_of_a_pod_on_and_an_all_to_all_at_once():
    here = machine(32, 8, pod_nodes=8)
    for schedule, limit in (
        (multi_rail_ring_all_reduce(32, 8), 8),
        (pairwise_all_to_all(256), 248 / 192),
    ):
        port = float(max(v for p, v in here.edge_loads(schedule, 1).items() if p.kind == "NIC"))
        pod = float(max(v for p, v in here.edge_loads(schedule, 1).items() if p.kind == "pod"))
        assert port / 50e9 / (pod / here.wires["pod"].beta) == pytest.approx(limit)


def test_sabotage_an_outer_group_that_forgets_a_chunk_is_noticed():
    good = hierarchical_all_reduce(2, 4)
    check_all_reduce(good)
    for t, lost in product(range(3, 5), range(4)):
        rounds = [list(sends) for sends in good]
        rounds[t] = [s for s in rounds[t] if not (s.src == lost and s.dst == lost + 4)]
        assert len(rounds[t]) < len(good.rounds[t])
        with pytest.raises(ScheduleError):
            check_all_reduce(Schedule(8, good.chunks, rounds))


def test_a_third_level_is_a_hierarchy_across_hierarchies():
    three = hierarchical_all_reduce(
        4, 2, across=lambda nodes: hierarchical_all_reduce(nodes // 2, 2)
    )
    check_all_reduce(three)
    podded = replace(machine(4, 2), pod_nodes=2)
    out = [v for p, v in podded.edge_loads(three, 1).items() if p.kind == "pod"]
    assert set(out) == {1}


@pytest.mark.parametrize(("inside", "nic"), [(450, 50), (900, 50), (900, 100)])
def test_the_walls_are_even_where_a_node_has_one_rank_more_than_the_ratio_of_its_links(inside, nic):
    """By the loads of the busiest ports, as seconds; on sixteen nodes, two ranks to either side."""
    border, nodes = 1 + inside // nic, 16
    for gpus, narrow_outside in ((border - 2, True), (border + 2, False)):
        here = machine(nodes, gpus, inside=(0, inside), nic=(0, nic))
        loads = here.edge_loads(hierarchical_all_reduce(nodes, gpus), Fraction(1))
        seconds = {
            kind: max(Fraction(load) / rate for p, load in loads.items() if p.kind == kind)
            for kind, rate in (("GPU", inside), ("NIC", nic))
        }
        assert seconds["GPU"] == Fraction(2 * (gpus - 1), gpus * inside)
        assert seconds["NIC"] == Fraction(2 * (nodes - 1), nodes * gpus * nic)
        assert (seconds["NIC"] > seconds["GPU"]) is narrow_outside
