"""The exercises of chapter 13a, Collectives on a topology, in the order of its page."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

from dtlib import collectives
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Formula, Function, same_number
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import Limit, call, function, items, number, whole
from dtlib.exercises.judges.schedules import must_pass, schedule_of
from dtlib.exercises.verdict import NotYet
from dtlib.later import np

# fmt: off
GB, us = 10**9, 1e-6


def _cases(*choices: tuple) -> Iterator[tuple[str, tuple]]:
    """Every combination of one value from each of ``choices``."""
    return (("", case) for case in product(*choices))


def _hierarchical_time(n, alpha_in, beta_in, alpha, beta, *, phases=2, share=128):
    return 7 * phases * (alpha_in + n / 8 / beta_in) + 30 * (alpha + n / share / beta)


sixteen_nodes = Formula(
    "ex-sixteen-nodes",
    About("Sixteen nodes", "compute", 1, 8, "write down a two-level cost with its four terms",
          ("x13a.1",)),
    "hierarchical_time(n, alpha_in, beta_in, alpha, beta)", _hierarchical_time,
    lambda: _cases((1e3, 1e7, 1e10), (1e-6, 5e-7), (4.5e11, 9e11), (2e-6, 1e-5), (5e10, 2.5e10)),
    same_number, "four terms: two levels, each with its starts and its bytes",
    {
        "two phases inside": {"phases": 1},
        "how large is the share that one GPU takes out of its node?": {"share": 16},
    },
    (
        Limit("nothing costs but the starts inside", {"alpha": 0, "n": 0}, "two phases inside"),
        Limit("nothing costs but the starts outside", {"alpha_in": 0, "n": 0}, "16 nodes"),
        Limit("only the bytes inside cost", {"alpha": 0, "alpha_in": 0, "beta": 1e30},
              "the whole buffer is scattered and gathered there"),
        Limit("only the bytes outside cost", {"alpha": 0, "alpha_in": 0, "beta_in": 1e30},
              "how large is the share that one GPU takes out of its node?"),
    ),
)

_MEET = 5 * us * 50 * GB * 4 / (3 - 7 / 8)
_WIRE = _MEET / (50 * GB)
_RING, _DOUBLING = 14 * 5 * us + 1.75 * _WIRE, 3 * (5 * us + _WIRE)

eight_nodes = Numbers(
    "ex-eight-nodes",
    About("A crossing of losers", "compute", 1, 8,
          "compare with every algorithm before choosing between two", ("x13a.2",)),
    [
        Asked("bytes", _MEET, "bytes", {
              5 * us * 50 * GB * 8 / (6 - 7 / 8): "both phases of both, or one phase of both"}),
        Asked("factor", _RING / _DOUBLING, slips={
              _RING / (30 * us + 1.75 * _WIRE): "halving-doubling is not the fastest here",
              _DOUBLING / _RING: "the other way round",
              1: "there are four algorithms in chapter 12"}, tolerance=0.005),
    ],
    "where two algorithms cross that are both slower than a third",
)

_NODE, _PORTS = "that is what leaves the node", "two ports, not four"

busiest_port = Numbers(
    "ex-busiest-port",
    About("The busiest port", "compute", 1, 10,
          "count bytes per node and per port, not per algorithm", ("A.15",)),
    [
        Asked("(a)", 22.5 * GB, "bytes", {
              11.25 * GB: "one GPU sends all that leaves the node, through its own port"}),
        Asked("(b)", 11.25 * GB, "bytes", {5.625 * GB: _PORTS, 22.5 * GB: _NODE}),
        Asked("(c)", 9 * GB, "bytes", {18 * GB: _NODE, 4.5 * GB: _PORTS}),
        Asked("(d)", 45 * GB, "bytes", {
              90 * GB: _NODE, 22.5 * GB: "how many of a node's ranks?"}),
    ],
    "four schedules, one machine, bytes on the busiest port",
)


def _saved(nodes: int, gpus: int) -> tuple[float, float]:
    P = nodes * gpus
    ordered = (P - 1) * nodes / (P * (nodes - 1))
    return ordered, gpus * ordered


def _same_ratios(given: Any, right: tuple, *sizes: int) -> None:
    pair = items(given, "the returned pair", 2)
    for name, value, expected in zip(("ordered", "dealt"), pair, right, strict=True):
        number(value, expected, name, tolerance=1e-9)


saved = Function(
    "ex-saved",
    About("How much is saved", "derive", 2, 12,
          "derive what hierarchy saves over an ordered and a dealt ring", ("B.12",)),
    "saved(nodes, gpus)", _saved,
    lambda: (("", sizes) for sizes in ((8, 8), (2, 2), (32, 8), (3, 5), (100, 4))), _same_ratios,
    "what an ordered and what a dealt ring send out of a node, in units of the bound",
    {
        "the other way round; the ring stands above":
            lambda *sizes: tuple(1 / ratio for ratio in _saved(*sizes)),
        "that is the folklore; count what leaves a node": lambda nodes, gpus: (gpus, gpus),
        "dealt: nearly; the two also differ in their numbers of ranks":
            lambda nodes, gpus: (_saved(nodes, gpus)[0], gpus),
    },
)

_STARTS = 510 * 10 * us, 14 * us + 620 * us
_SLOPES = 510 / (2048 * 50 * GB), 14 / (8 * 450 * GB) + 62 / (256 * 50 * GB)
_SMALL, _LARGE = _STARTS[0] / _STARTS[1], _SLOPES[0] / _SLOPES[1]
_ABOVE = "the flat rings stand above"

gain_of_levels = Numbers(
    "ex-gain-of-levels",
    About("Small sums gain, large ones lose", "compute", 2, 15,
          "separate the latency and the bandwidth limit of a comparison", ("C.18",)),
    [
        Asked("small", _SMALL, slips={
              510 / 76: "a start inside costs a tenth of one outside", 1 / _SMALL: _ABOVE,
              510 / 62: "the rounds inside cost a little, too"}),
        Asked("large", _LARGE, slips={
              1 / _LARGE: _ABOVE,
              510 / 2048 / (62 / 256): "the hierarchy also moves the whole buffer inside",
              510 / 256 / (62 / 256): "eight ports for both"}),
        Asked("bytes", (_STARTS[0] - _STARTS[1]) / (_SLOPES[1] - _SLOPES[0]), "bytes"),
    ],
    "a factor for small sums, a loss for large ones, and where they meet",
    keyed=True,
)


def _rail_rings_time(v, nodes, gpus, beta, pod_nodes, taper):
    port = v / (gpus * beta)
    return port if nodes == pod_nodes else max(port, port * taper / pod_nodes)


repair_taper = Formula(
    "ex-repair-taper",
    About("A taper for everybody", "repair", 2, 12,
          "charge a tapered wall only with what crosses it", ("x13a.3", "x13a.4")),
    "rail_rings_time(v, nodes, gpus, beta, pod_nodes, taper)", _rail_rings_time,
    lambda: (("", (v, nodes, gpus, beta, pod, taper))
             for v, gpus, beta in ((2e9, 8, 50e9), (7e8, 4, 25e9))
             for nodes, pod in ((32, 8), (16, 4), (8, 8), (12, 2)) for taper in (1, 3, 7, 16)),
    same_number, "two walls, and the slower one counts",
    {
        "that is the colleague's: how many bytes leave a pod, and over how much?":
            lambda v, nodes, gpus, beta, pod_nodes, taper: taper * v / (gpus * beta),
        "a strong taper is felt in the end":
            lambda v, nodes, gpus, beta, pod_nodes, taper: v / (gpus * beta),
        "the two walls are crossed at the same time, so the slower one counts":
            lambda v, nodes, gpus, beta, pod, taper: v / gpus / beta * (1 + taper / pod),
        "where all nodes are in one pod, nothing leaves it":
            lambda v, nodes, *rest: _rail_rings_time(v, math.inf, *rest),
    },
)


def _leftward(nodes: int, gpus: int, turned: bool = True, outer: str = "ring_all_reduce"):
    across = getattr(collectives, outer)(nodes)
    ranks, left = np.arange(nodes * gpus).reshape(nodes, gpus), -np.arange(gpus) % gpus
    scatter = collectives.ring_reduce_scatter(gpus).relabelled(left).over(ranks).cut(across.chunks)
    groups = ranks.T[left] if turned else ranks.T
    return scatter >> across.over(groups, shares=True) >> scatter.reversed()


def _hops(rounds: Any) -> list[set[tuple[int, int]]]:
    return [{(send.src, send.dst) for send in round} for round in rounds]


def _leftward_law(answer: Callable) -> None:
    function(answer, "leftward(nodes, gpus)")
    for N, G in ((2, 2), (2, 4), (3, 4), (4, 3), (3, 5)):
        where = f"{N} nodes of {G}"
        schedule = schedule_of(call(answer, N, G), N * G, where)
        must_pass(collectives.check_all_reduce, schedule, where)
        if _hops([*schedule][: G - 1]) != _hops([*_leftward(N, G)][: G - 1]):
            raise NotYet(f"{where}: right, but the rings inside no longer go to the left")
        machine = collectives.Nodes(N, G, inside=(0, 1), nic=(0, 1), nics=G)
        if max(machine.leaving(schedule, 1)) != Fraction(2 * (N - 1), N):
            raise NotYet(f"{where}: the right sum, but more bytes leave a node than need to")


repair_the_middle = Made(
    "ex-repair-the-middle",
    About("Two halves that do not meet", "repair", 2, 20,
          "fit the groups across nodes to the chunks that the inner step leaves"),
    _leftward_law, lambda: _leftward,
    "whole chunks on every rank, to the left inside, and the fewest bytes across",
    {
        "rank 0, chunk": lambda: partial(_leftward, turned=False),
        "no longer go to the left": lambda: lambda *n: collectives.hierarchical_all_reduce(*n),
        "more bytes leave a node": lambda: partial(_leftward, outer="tree_all_reduce"),
        "the schedule is for 5 ranks": lambda: lambda *n: collectives.ring_all_reduce(5),
        "return a Schedule": lambda: lambda *n: [],
    },
)


def _levels_time(n, levels, *, shares=True, phases=2):
    seconds, below = 0.0, 1
    for ranks, alpha, beta in levels:
        seconds += phases * (ranks - 1) * (alpha + n / below / ranks / beta)
        below *= ranks if shares else 1
    return seconds


def _levels() -> Iterator[tuple[str, tuple]]:
    one, two = (8, 1e-6, 450e9), (16, 5e-6, 50e9)
    three, four = (4, 2e-5, 10e9), (2, 1e-4, 1e9)
    for levels in ([one], [one, two], [one, two, three], [two, one, four, three], [one, (1, 1, 1)]):
        for n in (1e3, 1e8, 1e10):
            yield f"{len(levels)} level{'s' * (len(levels) > 1)}, {n:.0e} bytes", (n, [*levels])


many_levels = Function(
    "ex-many-levels",
    About("Many levels", "derive", 3, 15, "extend a cost model to any number of levels"),
    "levels_time(n, levels)", _levels_time, _levels, same_number,
    "one, two, three and four levels",
    {
        "what is a rank's share after the levels below?": {"shares": False},
        "the sum must also come down again": {"phases": 1},
        "the first level of the list is the innermost":
            lambda n, levels: _levels_time(n, levels[::-1]),
    },
)


def _rail_rings(nodes: int, gpus: int) -> list[list[int]]:
    ups = [[(k + i) % gpus for i in range(gpus)] for k in range(gpus)]
    return [[m * gpus + g for m in range(nodes) for g in (up[::-1] if m % 2 else up)] for up in ups]


def _exits(ring: list, N: int, G: int) -> list[int]:
    """The ranks through which a ring leaves its nodes, each once and on its rail."""
    if sorted(ring) != list(range(N * G)):
        raise NotYet("every rank once, please")
    hops = zip(ring, ring[1:] + ring[:1], strict=True)
    out = [(a, b) for a, b in hops if a // G != b // G]
    if len(out) != N:
        raise NotYet("it leaves some node more than once")
    for a, b in out:
        if a % G != b % G:
            raise NotYet(f"{a}→{b} changes the rail")
    return [a for a, _ in out]


def _rails_law(answer: Callable) -> None:
    function(answer, "rail_rings(nodes, gpus)")
    for N, G in ((2, 2), (4, 4), (2, 8), (6, 3), (4, 1)):
        where, exits = f"{N} nodes of {G}", []
        for k, ring in enumerate(items(call(answer, N, G), "rings", G)):
            ranks = [whole(rank, f"{where}: a rank") for rank in items(ring, f"ring {k}", N * G)]
            try:
                exits += _exits(ranks, N, G)
            except NotYet as wrong:
                raise NotYet(f"{where}, ring {k}: {wrong.reason}") from None
        for rank in exits:
            if exits.count(rank) > 1:
                raise NotYet(f"{where}: two rings leave through the port of rank {rank}")


def _rings_of(at: Callable) -> Callable:
    """An answer whose ring k visits the ranks of ``at(k, nodes, gpus)``."""
    return lambda nodes, gpus: [[*at(k, nodes, gpus)] for k in range(gpus)]


stay_on_the_rail = Made(
    "ex-stay-on-the-rail",
    About("Stay on the rail", "design", 3, 30,
          "design rings that use every port once and keep to their rails"),
    _rails_law, lambda: _rail_rings, "every ring leaves each node once, on a rail of its own",
    {
        "changes the rail": lambda: _rings_of(
            lambda k, N, G: (m * G + (i + k) % G for m in range(N) for i in range(G))),
        "leaves some node more than once": lambda: _rings_of(
            lambda k, N, G: (m * G + (g + k) % G for g in range(G) for m in range(N))),
        "two rings leave through the port": lambda: _rings_of(lambda k, N, G: _rail_rings(N, G)[0]),
        "every rank once": lambda: _rings_of(lambda k, N, G: [0] * N * G),
        "ring 0 must have 4 items": lambda: _rings_of(lambda k, N, G: [0]),
        "must be a number": lambda: _rings_of(lambda k, N, G: [None] * N * G),
    },
)


def _best_segments(n, nodes, gpus, alpha, beta_in, *, phases=2):
    return math.sqrt(phases * (gpus - 1) * n / (2 * gpus * beta_in * (nodes - 1) * alpha))


best_segments = Formula(
    "ex-best-segments",
    About("How many segments", "derive", 3, 20,
          "balance the starts of many segments against what sticks out of few"),
    "best_segments(n, nodes, gpus, alpha, beta_in)", _best_segments,
    lambda: _cases((1e8, 1e10), (8, 32, 4), (8, 4, 2), (5e-6, 1e-5), (4.5e11, 9e11)),
    same_number, "as many segments as make the two overheads equal",
    {
        "set the derivative to zero and solve: there is a square":
            lambda *machine: _best_segments(*machine) ** 2,
        "both phases inside stick out, the first and the last": {"phases": 1},
    },
)

_FEW = "how many ports does a node have, and what goes out of it?"

wall_of_a_rack = Numbers(
    "ex-wall-of-a-rack",
    About("The wall of a rack", "compute", 2, 10, "find the narrow wall of a node of 72"),
    [
        Asked("(a)", 2e3 * 71 / 72 * 10 / 900, "ms", {
              1e3 * 71 / 72 * 10 / 900: "a reduce-scatter and an all-gather"}, tolerance=0.005),
        Asked("(b)", 2e3 * 10 / (72 * 50), "ms", {
              400: "the ports of a node share what goes out of it",
              1e3 * 10 / (72 * 50): "an all-reduce sends everything twice"}, tolerance=0.005),
        Asked("(c)", 2e3 * 10 / (18 * 50), "ms", {
              2e3 * 10 / (72 * 50): _FEW, 2e3 * 10 / (4 * 50): _FEW}, tolerance=0.005),
        Asked("(d)", 10, slips={9: "a rank sends nothing to itself", 19: "with 100 GB/s"},
              tolerance=1e-6),
    ],
    "more ports, and the narrow wall is inside",
)
