"""Chapters 11 to 13a: eight matrices, a ring, a bound, and seats."""

from itertools import pairwise

import numpy as np

from book.motifs.marks import HEIGHT, WIDTH, Motif, log_scale, powers, scale
from dtlib.collectives.algebra import as_matrix
from dtlib.collectives.builders.algorithms import ring_all_reduce
from dtlib.collectives.cost.bandwidth import bus_bandwidth
from dtlib.collectives.cost.bounds import all_reduce_lower_bound_time
from dtlib.collectives.cost.ring_and_tree import ring_all_reduce_time, tree_all_reduce_time
from dtlib.collectives.nodes import round_robin
from dtlib.collectives.primitives import PRIMITIVES
from dtlib.formulas.units import GB, us

COLOURS = ("forward", "communication", "fourth", "backward")


def matrices() -> Motif:
    """The eight operations on three ranks as matrices; under each pair lies its transpose."""
    motif, P, cell, gap = Motif(), 4, 6, 32
    grids = [as_matrix(p, P, max(p.cells(P), P)) for p in PRIMITIVES.values()]
    left = (WIDTH - cell * sum(grid.shape[1] for grid in grids) - gap * (len(grids) - 1)) / 2
    for place, grid in enumerate(grids):
        rows, columns = grid.shape
        top = (HEIGHT - rows * cell) / 2
        motif.bar(left - 1, top - 1, columns * cell + 1, rows * cell + 1, "rule", 0.35)
        for row, column in np.argwhere(grid).tolist():
            corner = left + column * cell, top + row * cell
            motif.bar(*corner, cell - 1, cell - 1, COLOURS[place // 2])
        left += columns * cell + gap
    return motif


def ring() -> Motif:
    """A ring all-reduce on eight ranks: every message of every round, sums first, copies then."""
    motif, P = Motif(), 8
    schedule = ring_all_reduce(P)
    x = scale(0, len(schedule), 17, 17 + 49 * len(schedule))
    y = scale(0, P - 1, 11, 11 + 14 * (P - 1))
    for t, messages in enumerate(schedule):
        for send in messages:
            colour = "backward" if send.reduce else "forward"
            motif.line([(x(t), y(send.src)), (x(t + 1), y(send.dst))], colour, 1.6)
    for t in range(len(schedule) + 1):
        for rank in range(P):
            motif.dot(x(t), y(rank), 6, "soft")
    return motif


def bound() -> Motif:
    """The rate of a ring and of a tree over the size, below what no algorithm exceeds."""
    motif, P, link = Motif(), 64, {"alpha": 5 * us, "beta": 50 * GB}
    sizes = powers(1e5, 1e10)
    x = log_scale(1e5, 1e10, 10, WIDTH - 10)
    y = scale(0, link["beta"], HEIGHT - 8, 12)
    motif.line([(10, y(link["beta"])), (WIDTH - 10, y(link["beta"]))], "soft", 2)
    for time, colour, stroke in (
        (all_reduce_lower_bound_time, "soft", 2),
        (tree_all_reduce_time, "fourth", 3.5),
        (ring_all_reduce_time, "communication", 3.5),
    ):
        rates = [bus_bandwidth("all-reduce", n, time(n, P, **link), P) for n in sizes]
        motif.line([(x(n), y(rate)) for n, rate in zip(sizes, rates, strict=True)], colour, stroke)
    return motif


def seats() -> Motif:
    """One ring on the same sixteen seats twice: in order, and dealt out like cards."""
    motif, nodes, each = Motif(), 4, 4
    P = nodes * each
    for left, order in ((16, list(range(P))), (376, round_robin(nodes, each))):
        place = {seat: left + 22 * seat + 6 for seat in range(P)}
        for node in range(nodes):
            motif.bar(left + 22 * each * node - 4, 86, 22 * each - 6, 28, "rule", 0.5)
        for here, there in pairwise([*order, order[0]]):
            crosses = here // each != there // each
            colour = "backward" if crosses else "forward"
            high = 84 - 1.5 * min(abs(there - here) * 8, 54)
            middle = (place[here] + place[there]) / 2
            motif.arc((place[here], 92), (middle, high), (place[there], 92), colour, 2)
        for seat in range(P):
            motif.dot(place[seat], 100, 12, "soft")
    return motif


CHAPTERS = {"11": matrices, "12": ring, "13": bound, "13a": seats}
