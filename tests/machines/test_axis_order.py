"""Orders of axes: what crosses a boundary is counted, and the theorem is tried on every order."""

import random
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlib.collectives import Round, Schedule, ring_all_reduce, ring_all_reduce_time
from dtlib.foundations import GB, MB, catalog, half_performance_bytes, us
from dtlib.foundations.roofline.intensity import data_parallel_bytes
from dtlib.machines.axis_order import (
    Axis,
    AxisOrder,
    AxisOrderError,
    Level,
    axis_orders,
    best_axis_order,
    check_inside,
    cluster_levels,
    nested_read_time,
)
from dtlib.machines.traffic import (
    boundary_time,
    pipeline_traffic_bytes,
    ring_algorithm_bandwidth,
    tensor_traffic_bytes,
)

DGX = catalog["dgx-h100"]
FLAT = cluster_levels(DGX)
PODS = cluster_levels(DGX, pod_nodes=8, taper=7)
TOKENS = 32 * 4096
SEVENTY = (
    Axis("tensor", 8, tensor_traffic_bytes(80, 8, TOKENS, 8192, 8, 2)),
    Axis("pipeline", 8, pipeline_traffic_bytes(TOKENS, 8192, 2)),
    Axis("data", 8, data_parallel_bytes(70e9 / 64, 8, 2)),
)


def renumbered(schedule: Schedule, ranks: list[int], P: int) -> Schedule:
    """The schedule among these ranks of a world of P."""
    ranks = np.array(ranks)
    rounds = [Round(ranks[r.src], ranks[r.dst], r.chunk, r.reduce, r.count) for r in schedule]
    return Schedule(P, schedule.chunks, rounds)


def leaving(schedule: Schedule, n: int, container: int) -> dict[int, Fraction]:
    """Bytes that leave each container of so many consecutive ranks."""
    out: dict[int, Fraction] = {}
    for send in schedule.sends():
        here, there = send.src // container, send.dst // container
        if here != there:
            out[here] = out.get(here, 0) + Fraction(n * send.count, schedule.parts)
    return out


SHAPES = [(8, 4, 2), (2, 8, 4), (4, 2, 8), (2, 2, 16), (16, 4)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("container", [2, 4, 8, 16])
def test_the_bytes_that_leave_a_container_are_those_of_the_rings_that_cross_it(shape, container):
    P, n = 64, 64 * 1024
    axes = [Axis(name, size, 0) for name, size in zip("abc", shape, strict=False)]
    for axis in axes:
        ring = ring_all_reduce(axis.size)
        traffic = ring.sent_bytes(n)[0]
        place = AxisOrder(
            [Level("box", container, GB)],
            [Axis(a.name, a.size, traffic if a is axis else 0) for a in axes],
        )
        counted: dict[int, Fraction] = {}
        for group in {tuple(place.group(axis.name, rank)) for rank in range(P)}:
            for box, count in leaving(renumbered(ring, group, P), n, container).items():
                counted[box] = counted.get(box, 0) + count
        expected = place.load(axis.name, "box")
        assert set(counted.values()) == ({expected} if expected else set())
        assert len(counted) == (P // container if expected else 0)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_groups_partition_the_ranks_and_members_are_counted(shape):
    axes = [Axis(name, size, 1) for name, size in zip("abc", shape, strict=False)]
    place = AxisOrder([Level("box", 8, GB)], axes)
    for axis in axes:
        groups = {tuple(place.group(axis.name, rank)) for rank in range(place.ranks)}
        assert sorted(sum(groups, ())) == list(range(place.ranks))
        for group in groups:
            boxes = [rank // 8 for rank in group]
            assert {boxes.count(box) for box in boxes} == {place.members(axis.name, "box")}
            assert place.crosses(axis.name, "box") == (len(set(boxes)) > 1)


def test_a_hop_out_of_the_node_costs_nine_and_a_ring_that_straddles_it_an_eighth_more():
    inside = AxisOrder(FLAT, (Axis("t", 8, 1e9),)).axis_time("t")
    strided = AxisOrder(FLAT, (Axis("d", 8, 1e9), Axis("t", 8, 1e9))).axis_time("t")
    straddling = AxisOrder(FLAT, (Axis("t", 16, 1e9),)).axis_time("t")
    assert strided / inside == pytest.approx(9)
    assert straddling / inside == pytest.approx(9 / 8)


def test_the_boundary_time_of_a_gpu_is_that_of_its_link():
    assert boundary_time(traffic=1e9, members=1, container=1, uplink=450e9) == 1e9 / 450e9
    for members in (1, 2, 4, 8):
        share = Level("node", 8, 400e9).share
        assert boundary_time(1e9, members, 8, 400e9) == pytest.approx(1e9 / members / share)


@pytest.mark.parametrize("P", [2, 3, 8, 64, 1000])
def test_the_algorithm_bandwidth_is_the_buffer_over_the_time_of_the_ring(P):
    n = Fraction(10**9)
    time = ring_all_reduce_time(n, Fraction(P), 0, Fraction(450 * GB))
    assert ring_algorithm_bandwidth(P, Fraction(450 * GB)) == n / time


def test_an_all_reduce_in_a_node_runs_at_257_not_at_514():
    assert round(ring_algorithm_bandwidth(8, 450 * GB) / GB) == 257
    assert round(ring_algorithm_bandwidth(8, 900 * GB) / GB) == 514


def test_two_tensor_parallel_all_reduces_take_8_ms_inside_and_75_ms_across():
    traffic = tensor_traffic_bytes(1, 1, 32 * 2048, 8192, 8, 2) / 2
    assert round(traffic / 450e9 * 1e3, 2) == 8.35
    assert round(traffic / 50e9 * 1e3) == 75
    ring = ring_all_reduce_time(32 * 2048 * 8192 * 2, 8, 0, 450 * GB)
    assert 2 * ring == pytest.approx(traffic / 450e9)


# The theorem: each axis fills one level, so levels and axes are matched one to one.

amounts = st.lists(st.integers(0, 1000), min_size=2, max_size=5)


@settings(max_examples=60, deadline=None)
@given(amounts, st.data())
def test_no_matching_beats_the_heaviest_axis_on_the_fastest_level(traffic, data):
    k = len(traffic)
    shares = data.draw(st.lists(st.integers(1, 100), min_size=k, max_size=k))
    heavy, fast = sorted(traffic, reverse=True), sorted(shares, reverse=True)

    def total(order):
        return sum(Fraction(v, u) for v, u in zip(order, fast, strict=True))

    def walls(order):
        return [sum(order[level:]) for level in range(k)]

    for order in permutations(heavy):
        assert total(heavy) <= total(order)
        assert all(a <= b for a, b in zip(walls(heavy), walls(order), strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_sorted_by_bytes_every_wall_carries_the_least_that_it_can(seed):
    draw = random.Random(seed)
    axes = [Axis(name, 8, draw.randint(1, 100) * GB) for name in "abc"]
    axes.sort(key=lambda axis: -axis.traffic)
    for level in PODS:
        loads = [
            sum(place.load(axis.name, level.name) for axis in axes)
            for place in (AxisOrder(PODS, order) for order in permutations(axes))
        ]
        assert loads[0] == min(loads)
        crossing = sum(axis.traffic for axis in axes[PODS.index(level) :])
        assert loads[0] == level.ranks * crossing


@pytest.mark.parametrize("seed", range(12))
def test_on_axes_that_fill_their_levels_the_best_placement_is_sorted_by_bytes(seed):
    draw = random.Random(seed)
    axes = [Axis(name, 8, draw.uniform(1, 100) * GB) for name in "abc"]
    best = best_axis_order(PODS, axes)
    assert [a.traffic for a in best.axes] == sorted((a.traffic for a in axes), reverse=True)
    assert best.time == min(AxisOrder(PODS, order).time for order in permutations(axes))


def test_sabotage_where_an_axis_does_not_fill_its_level_the_sorted_order_is_not_best():
    heavy, small = Axis("tensor", 8, 10 * GB), Axis("context", 2, 9 * GB)
    sorted_order = AxisOrder(FLAT, (heavy, small))
    assert best_axis_order(FLAT, (heavy, small)).order == "context, tensor"
    assert sorted_order.time / best_axis_order(FLAT, (heavy, small)).time > 2.8


def test_where_only_the_innermost_boundary_binds_the_order_is_all_one():
    levels = Level("GPU", 1, 10 * GB), Level("node", 8, 8 * 400 * GB)
    axes = Axis("a", 8, 10 * GB), Axis("b", 8, 1 * GB)
    times = [AxisOrder(levels, order).time for order in (axes, axes[::-1])]
    assert times[0] == times[1]


def test_the_worst_numbering_of_512_gpus_is_22_times_slower_than_the_best():
    every = axis_orders(PODS, SEVENTY)
    assert len(every) == 6 and every[0].order == "tensor, pipeline, data"
    assert every[-1].order == "data, pipeline, tensor"
    assert round(every[-1].time / every[0].time, 1) == 22.1


def test_a_launcher_that_deals_ranks_round_robin_moves_the_last_axis_to_the_front():
    place = AxisOrder(FLAT, SEVENTY)
    nodes = place.ranks // 8
    slot = [rank % nodes * 8 + rank // nodes for rank in range(place.ranks)]
    dealt = AxisOrder(FLAT, (SEVENTY[2], *SEVENTY[:2]))
    for axis in SEVENTY:
        ours = {frozenset(slot[r] for r in place.group(axis.name, r0)) for r0 in range(512)}
        theirs = {frozenset(dealt.group(axis.name, r0)) for r0 in range(512)}
        assert ours == theirs
    with pytest.raises(
        AxisOrderError, match=r"tensor leaves the node: .* 0, 8, 16, 24, 32, \.\.\. no two share"
    ):
        check_inside(dealt, "tensor", "node")
    check_inside(place, "tensor", "node")


def test_latencies_are_those_of_the_outermost_level_that_is_crossed():
    axis = Axis("t", 8, 0, messages=100)
    assert AxisOrder(FLAT, (axis,)).time == 100 * catalog["nvlink4"].alpha
    assert AxisOrder(FLAT, (Axis("d", 8, 0), axis)).time == 100 * catalog["ib-ndr400"].alpha
    assert AxisOrder(FLAT, (Axis("t", 1, 1e9, messages=9),)).time == 0


def test_on_every_level_of_an_h100_a_megabyte_or_so_must_be_under_way():
    memories = [catalog[f"h100-{name}"] for name in ("registers", "shared", "l2", "hbm")]
    pairs = [(m.latency, m.bandwidth) for m in memories]
    pairs += [(catalog[name].alpha, catalog[name].beta) for name in ("nvlink4", "ib-ndr400")]
    nvme = catalog["nvme-gen4"]
    pairs += [(nvme.latency, nvme.bandwidth)]
    under_way = [half_performance_bytes(*pair) for pair in pairs]
    assert min(under_way) >= 0.1 * MB and max(under_way) < 1.5 * MB
    for column in zip(*pairs, strict=True):
        assert max(column) / min(column) > 6000


def test_what_cannot_be_placed_is_refused_and_named():
    axes = Axis("a", 3, 1), Axis("b", 8, 1)
    with pytest.raises(AxisOrderError, match="node of 8 ranks cuts the axis b of 8 ranks, 3 apart"):
        AxisOrder(FLAT, axes)
    with pytest.raises(AxisOrderError, match="cuts the axis"):
        axis_orders(FLAT, [Axis("a", 6, 1), Axis("b", 6, 1)])
    assert [place.order for place in axis_orders(FLAT, axes)] == ["b, a"]
    with pytest.raises(ValueError, match="smallest to the largest, got \\[8, 1\\]"):
        AxisOrder(FLAT[::-1], axes)
    with pytest.raises(ValueError, match="two axes have one name: a, a"):
        AxisOrder(FLAT, (Axis("a", 2, 1), Axis("a", 4, 1)))
    with pytest.raises(KeyError, match="no 'c'; there are a, b"):
        AxisOrder(FLAT[:1], axes).axis("c")
    with pytest.raises(KeyError, match="no 'rack'; there are GPU, node"):
        AxisOrder(FLAT, axes[1:]).load("b", "rack")
    with pytest.raises(ValueError, match=r"taper is 0\.5"):
        cluster_levels(DGX, 8, 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranks": 0}, "ranks is 0, but must be a whole number"),
        ({"uplink": 0}, "uplink is 0, but must be a positive"),
        ({"alpha": -1 * us}, "alpha is -1e-06"),
    ],
)
def test_a_level_that_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Level(**{"name": "l", "ranks": 1, "uplink": 1} | change)


@pytest.mark.parametrize(("size", "traffic"), [(0, 1), (1, -1), (1, float("nan"))])
def test_an_axis_that_cannot_be_is_refused(size, traffic):
    with pytest.raises(ValueError, match="must be at least"):
        Axis("a", size, traffic)


def test_the_time_of_a_read_is_the_mean_over_where_the_bytes_lie():
    memories = [(1000, 1.0), (4000, 5.0), (0, 100.0)]
    for size in (1, 999, 1000, 2500, 4000, 10_000):
        by_hand = [1.0 if b < 1000 else 5.0 if b < 4000 else 100.0 for b in range(size)]
        assert nested_read_time(size, memories) == pytest.approx(sum(by_hand) / size)
    assert nested_read_time(1, [(0, 7.0)]) == 7.0
    with pytest.raises(ValueError, match="size is 0"):
        nested_read_time(0, memories)


def test_more_bytes_never_make_a_read_faster():
    times = [nested_read_time(n, [(32, 1.0), (1000, 4.0), (0, 90.0)]) for n in range(1, 3000)]
    assert times == sorted(times)
