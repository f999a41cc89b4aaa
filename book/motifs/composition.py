"""Chapter 23: one row of ranks, and the groups along each axis of a mesh."""

from itertools import pairwise

from book.motifs.marks import HEIGHT, WIDTH, Motif, scale
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


CHAPTERS = {"23": groups}
