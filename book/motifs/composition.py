"""Chapters 23 and 25: a row of ranks, with the groups of a mesh or of gradients that are added."""

from itertools import pairwise

from book.motifs.marks import HEIGHT, WIDTH, Motif, scale
from dtlib.composition.uses import USES
from dtlib.mesh import Mesh


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


CHAPTERS = {"23": groups, "25": sums}
