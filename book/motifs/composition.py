"""Chapters 23 to 27: groups of a mesh, three axes, sums of gradients; a run that fails; choices."""

from itertools import pairwise, product

from book.motifs.marks import HEIGHT, WIDTH, Motif, scale
from dtlib.composition.failures.fleet import Fleet, Lifetime, Recovery
from dtlib.composition.failures.simulation import simulate_fleet
from dtlib.composition.planner.plans import plan
from dtlib.composition.uses import USES
from dtlib.foundations import Cluster, catalog, published_models
from dtlib.mesh import Mesh
from dtlib.parallelism.pipeline.builders import one_f_one_b
from dtlib.parallelism.pipeline.simulation import simulate


def groups() -> Motif:
    """Thirty-two ranks; along each of three axes arcs join neighbours of a group."""
    motif, mesh = Motif(), Mesh.of(pp=2, dp=4, tp=4)
    x = scale(0, mesh.size - 1, 14, WIDTH - 14)
    colours = {"pp": "communication", "dp": "backward", "tp": "forward"}
    middle = HEIGHT / 2
    for axis, side in (("pp", -1), ("dp", 1), ("tp", -1)):
        for group in mesh.groups(axis):
            for left, right in pairwise(group):
                lift = 22 + 6 * (right - left)
                top = ((x(left) + x(right)) / 2, middle + side * min(lift, HEIGHT / 2 - 4))
                motif.arc((x(left), middle), top, (x(right), middle), colours[axis], 1.2)
    for rank in mesh.ranks:
        motif.dot(x(rank), middle, 7, "ink")
    return motif


def grid() -> Motif:
    """Two replicas, each a pipeline of four stages; every stage is two ranks that share a layer."""
    motif, timeline = Motif(), simulate(one_f_one_b(4, 8), f=1, b=1, w=1)
    x = scale(0, timeline.makespan, 6, WIDTH - 6)
    for replica, rank in product(range(2), range(4)):
        top = 4 + 58 * replica + 13.5 * rank
        for span in timeline.spans:
            if span.rank == rank:
                motif.bar(x(span.start), top, x(span.stop) - x(span.start) - 1.2, 11, span.kind)
        motif.line([(0, top + 5.5), (WIDTH, top + 5.5)], "paper", 1)
    return motif


def sums() -> Motif:
    """Sixteen ranks; arcs join those that add a norm's gradient, a matrix's and an expert's."""
    motif, mesh = Motif(), Mesh.of(pp=2, dp=2, cp=2, tp=2)
    x, middle = scale(0, mesh.size - 1, 24, WIDTH - 24), HEIGHT / 2
    drawn = {"norm": ("forward", -1, 50), "queries": ("communication", 1, 52),
             "expert": ("backward", 1, 26)}  # fmt: skip
    for weight, (colour, side, lift) in drawn.items():
        groups = {tuple(mesh.sub(*USES[weight].summed, rank=rank).ranks) for rank in mesh.ranks}
        for left, right in (pair for group in sorted(groups) for pair in pairwise(group)):
            top = ((x(left) + x(right)) / 2, middle + side * lift)
            motif.arc((x(left), middle), top, (x(right), middle), colour, 1.4)
    for rank in mesh.ranks:
        motif.dot(x(rank), middle, 7, "ink")
    return motif


def progress() -> Motif:
    """The work of one run over time: it climbs, falls back at each failure, and climbs again."""
    motif, hour = Motif(), 3600
    fleet = Fleet(nodes=1000, gpus_per_node=8, life=Lifetime(mean=8000 * hour), spares=99)
    recovery = Recovery(interval=hour / 3, write_time=30, restart_time=hour / 6)
    account = simulate_fleet(fleet, recovery, duration=12 * hour, seed=3)
    x, done = scale(0, account.total, 8, WIDTH - 8), 0
    y = scale(0, 1.08 * account.work, HEIGHT - 8, 8)
    for what, start, stop in account.phases:
        climbs = stop - start if what in ("kept", "lost") else 0
        colour = {"kept": "forward", "lost": "backward"}.get(what, "ink")
        motif.line([(x(start), y(done)), (x(stop), y(done + climbs))], colour, 3)
        done += climbs if what == "kept" else 0
    return motif


def choices() -> Motif:
    """Layouts of one run, bytes to the right and seconds down; a line joins those on the border."""
    motif = Motif()
    plans = plan(
        published_models["llama-3.1-8b"], Cluster(catalog["dgx-h100"], 8), batch=512, seq=8192
    )
    border = plans.pareto[::-1]
    slowest = 3.2 * plans[0].time
    x = scale(0, 1.02 * plans.question.limit, 8, WIDTH - 8)
    y = scale(plans[0].time, slowest, HEIGHT - 12, 8)
    near = [one for one in plans[::41] if one.time < slowest]
    for one in near[:48]:
        motif.dot(x(one.memory), y(one.time), 2.5, "forward")
    motif.line(
        [(x(one.memory), y(one.time)) for one in border if one.time < slowest], "communication", 2
    )
    return motif


CHAPTERS = {"23": groups, "24": grid, "25": sums, "26": progress, "27": choices}
