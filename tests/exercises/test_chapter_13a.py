"""Every check of chapter 13a: the solution passes; the stub and listed wrong answers fail."""

import math

import numpy as np
import pytest
from exercise_cases import Case, EveryExercise

from dtlib.collectives import (
    Nodes,
    check_all_reduce,
    hierarchical_all_reduce,
    multi_rail_ring_all_reduce,
    ring_all_reduce,
    ring_reduce_scatter,
    round_robin,
)
from dtlib.exercises import NotYet, check

GB, us = 10**9, 1e-6


def hierarchical_time(n, alpha_in, beta_in, alpha, beta):
    return 14 * alpha_in + 7 / 4 * n / beta_in + 30 * alpha + 15 / 64 * n / beta


def whole_buffer_outside(n, alpha_in, beta_in, alpha, beta):
    return 14 * alpha_in + 7 / 4 * n / beta_in + 30 * alpha + 15 / 8 * n / beta


def one_phase_inside(n, alpha_in, beta_in, alpha, beta):
    return 7 * alpha_in + 7 / 8 * n / beta_in + 30 * alpha + 15 / 64 * n / beta


CROSSING = 5 * us * 50 * GB * 4 / (3 - 7 / 8)
RING = 14 * 5 * us + 1.75 * CROSSING / (50 * GB)
BEST = 3 * (5 * us + CROSSING / (50 * GB))


def saved(nodes, gpus):
    P = nodes * gpus
    ordered = (P - 1) * nodes / (P * (nodes - 1))
    return ordered, gpus * ordered


STARTS = 5100 * us, 634 * us
PER_BYTE = 510 / (2048 * 50 * GB), 14 / (8 * 450 * GB) + 62 / (256 * 50 * GB)


def gains(**changes):
    right = {
        "small": STARTS[0] / STARTS[1],
        "large": PER_BYTE[0] / PER_BYTE[1],
        "bytes": (STARTS[0] - STARTS[1]) / (PER_BYTE[1] - PER_BYTE[0]),
    }
    return right | changes


def rail_rings_time(v, nodes, gpus, beta, pod_nodes, taper):
    walls = [gpus * beta] + [pod_nodes * gpus * beta / taper] * (nodes > pod_nodes)
    return v / min(walls)


def leftward(nodes, gpus, turned=True):
    ranks = np.arange(nodes * gpus).reshape(nodes, gpus)
    left = -np.arange(gpus) % gpus
    scatter = ring_reduce_scatter(gpus).relabelled(left).over(ranks).cut(nodes)
    groups = ranks.T[left] if turned else ranks.T
    across = ring_all_reduce(nodes).over(groups, shares=True)
    return scatter >> across >> scatter.reversed()


def levels_time(n, levels):
    total = 0
    for ranks, alpha, beta in levels:
        n = n / ranks
        total += 2 * (ranks - 1) * (alpha + n / beta)
    return total


def levels_without_shares(n, levels):
    return sum(2 * (r - 1) * (a + n / r / b) for r, a, b in levels)


def rail_rings(nodes, gpus):
    rings = []
    for k in range(gpus):
        up = [(k + i) % gpus for i in range(gpus)]
        rings.append([m * gpus + g for m in range(nodes) for g in (up[::-1] if m % 2 else up)])
    return rings


def rotated(nodes, gpus):
    return [
        [m * gpus + (i + k) % gpus for m in range(nodes) for i in range(gpus)] for k in range(gpus)
    ]


def all_the_same(nodes, gpus):
    return [rail_rings(nodes, gpus)[0]] * gpus


def columns(nodes, gpus):
    return [
        [m * gpus + (g + k) % gpus for g in range(gpus) for m in range(nodes)] for k in range(gpus)
    ]


def best_segments(n, nodes, gpus, alpha, beta_in):
    return math.sqrt(n * (gpus - 1) / gpus / beta_in / ((nodes - 1) * alpha))


CASES = {
    "ex-sixteen-nodes": Case(
        solution=hierarchical_time,
        wrong=[
            (whole_buffer_outside, "only the bytes outside cost"),
            (one_phase_inside, "two phases inside"),
            (lambda n, alpha_in: 1, "must take"),
            (lambda n, a_in, b_in, a, b: hierarchical_time(n, 1e-6, b_in, a, b), "starts inside"),
            (
                lambda n, a_in, b_in, a, b: hierarchical_time(n, a_in, b_in, a, 50e9),
                "bytes inside cost",
            ),
        ],
    ),
    "ex-eight-nodes": Case(
        solution=(CROSSING, RING / BEST),
        wrong=[
            ((CROSSING / 1e3, 2), "in bytes, please"),
            ((CROSSING, 1), "four algorithms"),
            ((CROSSING, BEST / RING), "the other way round"),
            ((CROSSING, RING / (30 * us + 1.75 * CROSSING / (50 * GB))), "not the fastest"),
        ],
        secret=[CROSSING],
    ),
    "ex-busiest-port": Case(
        solution=(22.5 * GB, 11.25 * GB, 9 * GB, 45 * GB),
        wrong=[
            ((11.25 * GB, 11.25 * GB, 9 * GB, 45 * GB), r"\(a\): one GPU sends all"),
            ((22.5 * GB, 5.625 * GB, 9 * GB, 45 * GB), r"\(b\): two ports"),
            ((22.5 * GB, 11.25 * GB, 18 * GB, 45 * GB), r"\(c\): that is what leaves"),
            ((22.5 * GB, 11.25 * GB, 9 * GB, 90 * GB), r"\(d\): that is what leaves"),
            ((22.5, 11.25, 9, 45), "in bytes, please"),
        ],
        secret=[22.5 * GB, 11.25 * GB, 9 * GB, 45 * GB],
    ),
    "ex-saved": Case(
        solution=saved,
        wrong=[
            (lambda nodes, gpus: (gpus, gpus), "that is the folklore"),
            (lambda nodes, gpus: (saved(nodes, gpus)[0], gpus), "nearly"),
            (lambda nodes, gpus: tuple(1 / x for x in saved(nodes, gpus)), "the other way round"),
            (lambda nodes, gpus: (1, 1), "not yet"),
        ],
    ),
    "ex-gain-of-levels": Case(
        solution=gains(),
        wrong=[
            (gains(small=510 / 76), "a tenth"),
            (gains(large=1 / gains()["large"]), "stand above"),
            (gains(large=510 / 2048 / (62 / 256)), "whole buffer inside"),
            (gains(bytes=gains()["bytes"] / GB), "in bytes, please"),
            ({"small": 1}, "keys"),
        ],
        secret=list(gains().values()),
    ),
    "ex-repair-taper": Case(
        solution=rail_rings_time,
        wrong=[
            (lambda v, nodes, gpus, beta, pod_nodes, taper: taper * v / gpus / beta, "colleague"),
            (lambda v, nodes, gpus, beta, pod_nodes, taper: v / gpus / beta, "felt in the end"),
            (
                lambda v, nodes, gpus, beta, pod_nodes, taper: (
                    max(1, taper / pod_nodes) * v / gpus / beta
                ),
                "nothing leaves it",
            ),
            (lambda v, N, G, beta, p, taper: rail_rings_time(2e9, N, G, beta, p, taper), "v=7e"),
            (lambda v, N, G, beta, p, taper: rail_rings_time(v, N, 8, 50e9, p, taper), "v=7e"),
        ],
    ),
    "ex-repair-the-middle": Case(
        solution=leftward,
        wrong=[
            (lambda nodes, gpus: leftward(nodes, gpus, turned=False), "rank 0, chunk"),
            (hierarchical_all_reduce, "no longer go to the left"),
            (multi_rail_ring_all_reduce, "no longer go to the left"),
            (lambda nodes, gpus: ring_all_reduce(5), "a schedule for 5 ranks"),
            (lambda nodes, gpus: [], "return a Schedule"),
        ],
    ),
    "ex-many-levels": Case(
        solution=levels_time,
        wrong=[
            (levels_without_shares, "share after the levels below"),
            (lambda n, levels: levels_time(n, levels) / 2, "come down again"),
            (lambda n, levels: levels_time(n, levels[::-1]), "innermost"),
            (lambda n, levels: 1.0, "two phases on each level"),
        ],
    ),
    "ex-stay-on-the-rail": Case(
        solution=rail_rings,
        wrong=[
            (rotated, "changes the rail"),
            (all_the_same, "two rings leave through the port"),
            (columns, "leaves some node more than once"),
            (lambda nodes, gpus: [[0] * nodes * gpus] * gpus, "every rank once"),
            (lambda nodes, gpus: [[0]] * gpus, "must have 4 items"),
            (lambda nodes, gpus: [1] * gpus, "ring 0 must have 4 items"),
            (lambda nodes, gpus: [[None] * nodes * gpus] * gpus, "must be a number"),
        ],
    ),
    "ex-best-segments": Case(
        solution=best_segments,
        wrong=[
            (lambda *x: best_segments(*x) ** 2, "there is a square"),
            (lambda *x: best_segments(*x) / 2**0.5, "both phases inside"),
            (lambda n, N, G, a, b: best_segments(n, N, G, 5e-6, b), "with n="),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_the_bytes_of_the_busiest_port_are_those_of_the_machine():
    machine = Nodes(4, 4, inside=(0, 1), nic=(0, 1), nics=2)
    dealt = machine.ordered(round_robin(4, 4))
    schedules = (
        (machine, ring_all_reduce(16)),
        (machine, multi_rail_ring_all_reduce(4, 4)),
        (machine, hierarchical_all_reduce(4, 4)),
        (dealt, ring_all_reduce(16)),
    )
    busiest = [
        max(v for port, v in where.edge_loads(schedule, 12 * GB).items() if port.kind == "NIC")
        for where, schedule in schedules
    ]
    assert tuple(busiest) == CASES["ex-busiest-port"].solution


def test_rings_on_rails_are_all_reduces_and_use_every_port_alike():
    orders = rail_rings(4, 4)
    schedule = ring_all_reduce(16).over(orders, shares=True)
    check_all_reduce(schedule)
    machine = Nodes(4, 4, inside=(0, 1), nic=(0, 1), nics=4)
    loads = {v for p, v in machine.edge_loads(schedule, 1).items() if p.kind == "NIC"}
    assert len(loads) == 1


@pytest.mark.parametrize("builder", [hierarchical_all_reduce, multi_rail_ring_all_reduce])
def test_the_librarys_own_builders_are_no_answer(builder):
    for slug in ("ex-repair-the-middle", "ex-stay-on-the-rail"):
        with pytest.raises(NotYet):
            check(slug, builder)
