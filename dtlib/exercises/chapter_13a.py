"""Graders of chapter 13a, Collectives on a topology."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from dtlib.collectives.builders.algorithms import ring_reduce_scatter
from dtlib.collectives.check import ScheduleError, check_all_reduce
from dtlib.collectives.nodes import Nodes
from dtlib.collectives.schedule import Schedule
from dtlib.exercises.engine import grader
from dtlib.exercises.judge import Limit, call, formula, function, items, number, real, whole
from dtlib.exercises.verdict import NotYet

GB, MB, us = 10**9, 10**6, 1e-6


@grader("ex-sixteen-nodes")
def sixteen_nodes(answer: Any) -> str:
    def right(n, alpha_in, beta_in, alpha, beta):
        return 14 * (alpha_in + n / 8 / beta_in) + 30 * (alpha + n / 128 / beta)

    formula(
        answer,
        right,
        "hierarchical_time(n, alpha_in, beta_in, alpha, beta)",
        [
            {"n": n, "alpha_in": a_in, "beta_in": b_in, "alpha": a, "beta": b}
            for n in (1e3, 1e7, 1e10)
            for a_in, a in ((1e-6, 2e-6), (5e-7, 1e-5))
            for b_in, b in ((4.5e11, 5e10), (9e11, 2.5e10))
        ],
        limits=[
            Limit("nothing costs but the starts inside", {"alpha": 0, "n": 0}, "two phases inside"),
            Limit("nothing costs but the starts outside", {"alpha_in": 0, "n": 0}, "16 nodes"),
            Limit(
                "only the bytes inside cost",
                {"alpha": 0, "alpha_in": 0, "beta": 1e30},
                "the whole buffer is scattered and gathered there",
            ),
            Limit(
                "only the bytes outside cost",
                {"alpha": 0, "alpha_in": 0, "beta_in": 1e30},
                "how large is the share that one GPU takes out of its node?",
            ),
        ],
    )
    return "four terms: two levels, each with its starts and its bytes"


@grader("ex-eight-nodes")
def eight_nodes(answer: Any) -> str:
    size, factor = items(answer, "(bytes, factor)", 2)
    n = 5 * us * 50 * GB * 4 / (3 - 7 / 8)
    number(
        size,
        n,
        "bytes",
        "bytes",
        mistakes={
            n / 1e3: "in bytes, please",
            5 * us * 50 * GB * 8 / (6 - 7 / 8): "both phases of both, or one phase of both",
        },
    )
    ring = 14 * 5 * us + 1.75 * n / (50 * GB)
    best = 3 * (5 * us + n / (50 * GB))
    number(
        factor,
        ring / best,
        "factor",
        tolerance=0.005,
        mistakes={
            ring / (30 * us + 1.75 * n / (50 * GB)): "halving-doubling is not the fastest here",
            best / ring: "the other way round",
            1: "there are four algorithms in chapter 12",
        },
    )
    return "where two algorithms cross that are both slower than a third"


@grader("ex-busiest-port")
def busiest_port(answer: Any) -> str:
    given = items(answer, "(a, b, c, d)", 4)
    cases = (
        ("(a)", 22.5, {11.25: "one GPU sends all that leaves the node, through its own port"}),
        ("(b)", 11.25, {5.625: "two ports, not four", 22.5: "that is what leaves the node"}),
        ("(c)", 9.0, {18: "that is what leaves the node", 4.5: "two ports, not four"}),
        ("(d)", 45.0, {90: "that is what leaves the node", 22.5: "how many of a node's ranks?"}),
    )
    for value, (what, expected, mistakes) in zip(given, cases, strict=True):
        hints = {gb * GB: hint for gb, hint in mistakes.items()} | {expected: "in bytes, please"}
        number(value, expected * GB, what, "bytes", mistakes=hints)
    return "four schedules, one machine, bytes on the busiest port"


@grader("ex-saved")
def saved(answer: Any) -> str:
    function(answer, "saved(nodes, gpus)")
    for N, G in [(8, 8), (2, 2), (32, 8), (3, 5), (100, 4)]:
        P = N * G
        ordered = (P - 1) * N / (P * (N - 1))
        pair = items(call(answer, N, G), "the returned pair", 2)
        for what, value, right in zip(
            ("ordered", "dealt"), pair, (ordered, G * ordered), strict=True
        ):
            value = real(value, what)
            where = f"{N} nodes of {G}, {what}"
            if math.isclose(value, right, rel_tol=1e-9):
                continue
            if math.isclose(value, 1 / right, rel_tol=1e-9):
                raise NotYet(f"{where}: the other way round; the ring stands above")
            if what == "ordered" and math.isclose(value, G, rel_tol=0.05):
                raise NotYet(f"{where}: that is the folklore; count what leaves a node")
            if what == "dealt" and math.isclose(value, G, rel_tol=1e-9):
                raise NotYet(f"{where}: nearly; the two also differ in their numbers of ranks")
            raise NotYet(f"{where}: not yet; how many of a node's ranks send out of it?")
    return "what an ordered and what a dealt ring send out of a node, in units of the bound"


@grader("ex-gain-of-levels")
def gain_of_levels(answer: Any) -> str:
    names = ("small", "large", "bytes")
    if not isinstance(answer, dict) or set(answer) != set(names):
        raise NotYet(f"pass a dict with the keys {', '.join(names)}")
    starts = 510 * 10 * us, 14 * us + 620 * us
    per_byte = 510 / (2048 * 50 * GB), 14 / (8 * 450 * GB) + 62 / (256 * 50 * GB)
    cross = (starts[0] - starts[1]) / (per_byte[1] - per_byte[0])
    small, large = starts[0] / starts[1], per_byte[0] / per_byte[1]
    number(
        answer["small"],
        small,
        "small",
        mistakes={
            510 / 76: "a start inside costs a tenth of one outside",
            1 / small: "the flat rings stand above",
            510 / 62: "the rounds inside cost a little, too",
        },
    )
    number(
        answer["large"],
        large,
        "large",
        mistakes={
            1 / large: "the flat rings stand above",
            510 / 2048 / (62 / 256): "the hierarchy also moves the whole buffer inside",
            510 / 256 / (62 / 256): "eight ports for both",
        },
    )
    number(answer["bytes"], cross, "bytes", "bytes", mistakes={cross / GB: "in bytes, please"})
    return "a factor for small sums, a loss for large ones, and where they meet"


@grader("ex-repair-taper")
def repair_taper(answer: Any) -> str:
    def right(v, nodes, gpus, beta, pod_nodes, taper):
        port = v / (gpus * beta)
        return port if nodes == pod_nodes else max(port, v * taper / (pod_nodes * gpus * beta))

    def multiplied(v, nodes, gpus, beta, pod_nodes, taper):
        return taper * v / (gpus * beta)

    def untapered(v, nodes, gpus, beta, pod_nodes, taper):
        return v / (gpus * beta)

    def added(v, nodes, gpus, beta, pod_nodes, taper):
        return v / (gpus * beta) + v * taper / (pod_nodes * gpus * beta)

    def always(v, nodes, gpus, beta, pod_nodes, taper):
        return max(v / (gpus * beta), v * taper / (pod_nodes * gpus * beta))

    formula(
        answer,
        right,
        "rail_rings_time(v, nodes, gpus, beta, pod_nodes, taper)",
        [
            {"v": v, "nodes": N, "gpus": G, "beta": beta, "pod_nodes": p, "taper": taper}
            for v, G, beta in ((2e9, 8, 50e9), (7e8, 4, 25e9))
            for N, p in ((32, 8), (16, 4), (8, 8), (12, 2))
            for taper in (1, 3, 7, 16)
        ],
        wrong=[
            (multiplied, "that is the colleague's: how many bytes leave a pod, and over how much?"),
            (untapered, "a strong taper is felt in the end"),
            (added, "the two walls are crossed at the same time, so the slower one counts"),
            (always, "where all nodes are in one pod, nothing leaves it"),
        ],
    )
    return "two walls, and the slower one counts"


def _build(answer: Callable, *sizes: int) -> Schedule:
    schedule = call(answer, *sizes)
    if not isinstance(schedule, Schedule):
        raise NotYet(f"{sizes}: return a Schedule, got {type(schedule).__name__}")
    return schedule


@grader("ex-repair-the-middle")
def repair_the_middle(answer: Any) -> str:
    function(answer, "leftward(nodes, gpus)")
    for N, G in ((2, 2), (2, 4), (3, 4), (4, 3), (3, 5)):
        where = f"{N} nodes of {G}"
        schedule = _build(answer, N, G)
        if schedule.P != N * G:
            raise NotYet(f"{where}: a schedule for {schedule.P} ranks")
        try:
            check_all_reduce(schedule)
        except ScheduleError as error:
            first = error.problems[0]
            raise NotYet(f"{where}: {first}") from None
        ranks, left = np.arange(N * G).reshape(N, G), -np.arange(G) % G
        inner = ring_reduce_scatter(G).relabelled(left).over(ranks)
        hops = [{(s.src, s.dst) for s in round} for round in list(schedule)[: G - 1]]
        if hops != [{(s.src, s.dst) for s in round} for round in inner]:
            raise NotYet(f"{where}: right, but the rings inside no longer go to the left")
        machine = Nodes(N, G, inside=(0, 1), nic=(0, 1), nics=G)
        if max(machine.leaving(schedule, 1)) != Fraction(2 * (N - 1), N):
            raise NotYet(f"{where}: the right sum, but more bytes leave a node than need to")
    return "whole chunks on every rank, to the left inside, and the fewest bytes across"


@grader("ex-many-levels")
def many_levels(answer: Any) -> str:
    function(answer, "levels_time(n, levels)")

    def right(n, levels, shares=True, phases=2):
        total, below = 0.0, 1
        for ranks, alpha, beta in levels:
            total += phases * (ranks - 1) * (alpha + n / below / ranks / beta)
            below *= ranks if shares else 1
        return total

    one, two = (8, 1e-6, 450e9), (16, 5e-6, 50e9)
    three, four = (4, 2e-5, 10e9), (2, 1e-4, 1e9)
    for levels in ([one], [one, two], [one, two, three], [two, one, four, three], [one, (1, 1, 1)]):
        for n in (1e3, 1e8, 1e10):
            value = real(call(answer, n, list(levels)), "the returned value", "s")
            expected = right(n, levels)
            where = f"{len(levels)} level{'s' * (len(levels) > 1)}"
            if math.isclose(value, expected, rel_tol=1e-9):
                continue
            if math.isclose(value, right(n, levels, shares=False), rel_tol=1e-9):
                raise NotYet(f"{where}: what is a rank's share after the levels below?")
            if math.isclose(value, right(n, levels, phases=1), rel_tol=1e-9):
                raise NotYet(f"{where}: the sum must also come down again")
            if math.isclose(value, right(n, levels[::-1]), rel_tol=1e-9):
                raise NotYet(f"{where}: the first level of the list is the innermost")
            raise NotYet(f"{where}, {n:.0e} bytes: not yet; two phases on each level")
    return "one, two, three and four levels"


@grader("ex-stay-on-the-rail")
def stay_on_the_rail(answer: Any) -> str:
    function(answer, "rail_rings(nodes, gpus)")
    for N, G in ((2, 2), (4, 4), (2, 8), (6, 3), (4, 1)):
        where = f"{N} nodes of {G}"
        rings = [
            [whole(rank, f"{where}: a rank") for rank in items(ring, f"ring {k}", N * G)]
            for k, ring in enumerate(items(call(answer, N, G), "rings", G))
        ]
        exits = []
        for k, ring in enumerate(rings):
            if sorted(ring) != list(range(N * G)):
                raise NotYet(f"{where}, ring {k}: every rank once, please")
            hops = zip(ring, ring[1:] + ring[:1], strict=True)
            out = [(a, b) for a, b in hops if a // G != b // G]
            if len(out) != N:
                raise NotYet(f"{where}, ring {k}: it leaves some node more than once")
            for a, b in out:
                if a % G != b % G:
                    raise NotYet(f"{where}, ring {k}: {a}→{b} changes the rail")
            exits += [a for a, _ in out]
        if len(set(exits)) < len(exits):
            twice = next(a for a in exits if exits.count(a) > 1)
            raise NotYet(f"{where}: two rings leave through the port of rank {twice}")
    return "every ring leaves each node once, on a rail of its own"


@grader("ex-best-segments")
def best_segments(answer: Any) -> str:
    def right(n, nodes, gpus, alpha, beta_in):
        return math.sqrt((gpus - 1) * n / (gpus * beta_in * (nodes - 1) * alpha))

    def squared(*inputs):
        return right(*inputs) ** 2

    def one_phase(*inputs):
        return right(*inputs) / math.sqrt(2)

    formula(
        answer,
        right,
        "best_segments(n, nodes, gpus, alpha, beta_in)",
        [
            {"n": n, "nodes": N, "gpus": G, "alpha": alpha, "beta_in": beta}
            for n, alpha in ((1e8, 5e-6), (1e10, 5e-6), (1e10, 1e-5))
            for N, G in ((8, 8), (32, 4), (4, 2))
            for beta in (4.5e11, 9e11)
        ],
        wrong=[
            (squared, "set the derivative to zero and solve: there is a square"),
            (one_phase, "both phases inside stick out, the first and the last"),
        ],
    )
    return "as many segments as make the two overheads equal"
