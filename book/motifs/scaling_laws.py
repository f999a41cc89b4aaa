"""Chapters 7 to 10: losses that fall, and what is made of them."""

from math import exp

from book.motifs.marks import HEIGHT, WIDTH, Motif, log_scale, scale
from dtlib.scaling_laws.emergence.rulers import at_least
from dtlib.scaling_laws.loss_surface.surface import LossSurface
from dtlib.scaling_laws.noise.recorded import recorded_best
from dtlib.scaling_laws.noise.tradeoff import fit_hyperbola


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


def tangents() -> Motif:
    """Tokens against size: lines of equal loss, and budgets that touch them at the best model."""
    motif, law = Motif(), LossSurface.besiroglu()
    x, y = log_scale(3e7, 3e13, 6, WIDTH - 6), log_scale(3e9, 3e13, HEIGHT - 6, 6)
    for C in (1e20, 1e22, 1e24):
        best = law.optimum(C)
        sizes = [best.N * 2 ** (k / 4) for k in range(-40, 61)]
        equal = [(N, law.isoloss(N, best.loss)) for N in sizes]
        for line, colour in ((equal, "soft"), ([(N, C / 6 / N) for N in sizes], "forward")):
            seen = [(N, D) for N, D in line if 3e7 < N < 3e13 and 3e9 < D < 3e13]
            motif.line([(x(N), y(D)) for N, D in seen], colour, 2)
        motif.dot(x(best.N), y(best.D), 4, "backward")
    return motif


def valleys() -> Motif:
    """Losses against size at four budgets, and the line through their lowest points."""
    motif, law = Motif(), LossSurface.besiroglu()
    budgets = [10.0**k for k in (18, 19, 20, 21)]
    x, y = log_scale(1e7, 4e10, 6, WIDTH - 6), log_scale(2.1, 4.2, HEIGHT - 6, 6)
    for C in budgets:
        best = law.optimum(C).N
        sizes = [best * 2 ** (k / 4) for k in range(-12, 13)]
        motif.line([(x(N), y(float(law(N, C / 6 / N)))) for N in sizes], "forward", 2)
    feet = [law.optimum(C) for C in budgets]
    motif.line([(x(foot.N), y(float(foot.loss))) for foot in feet], "fourth", 2)
    for foot in feet:
        motif.dot(x(foot.N), y(float(foot.loss)), 4, "backward")
    return motif


def batches() -> Motif:
    """Steps against samples to three losses: recorded runs, and the hyperbola through each."""
    motif = Motif()
    x, y = log_scale(25, 2500, 6, WIDTH - 6), log_scale(1.2e3, 8e4, HEIGHT - 8, 8)
    for target, colour in ((0.6, "fourth"), (0.4, "forward"), (0.3, "communication")):
        best = recorded_best("adam", target)
        curve = fit_hyperbola([one.batch for one in best], [one.steps for one in best])
        grid = [4 * 2 ** (k / 4) for k in range(33)]
        motif.line([(x(curve.steps(B)), y(curve.samples(B))) for B in grid], colour, 2)
        for one in best:
            motif.dot(x(one.steps), y(one.samples), 3, colour)
    return motif


CHAPTERS = {"7": tangents, "8": valleys, "9": rulers, "10": batches}
