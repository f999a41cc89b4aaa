"""Chapters 7 to 10: losses that fall, and what is made of them."""

from math import exp

from book.motifs.marks import HEIGHT, WIDTH, Motif, scale
from dtlib.scaling_laws.emergence.rulers import at_least


def rulers() -> Motif:
    """One line that falls, the loss of an answer; above it what three rulers make of it."""
    motif, points = Motif(), 120
    x, y = scale(0, points, 6, WIDTH - 6), scale(0, 1, HEIGHT - 8, 8)
    losses = [2.3 * 10 ** (-4 * i / points) for i in range(points + 1)]
    motif.line([(x(0), y(0.95)), (x(points), y(0.05))], "backward", 2)
    for needed, answers, colour in ((1, 1, "soft"), (20, 20, "forward"), (90, 100, "fourth")):
        values = [at_least(exp(-loss), needed, answers) for loss in losses]
        motif.line([(x(i), y(value)) for i, value in enumerate(values)], colour, 2)
    return motif


CHAPTERS = {"9": rulers}
