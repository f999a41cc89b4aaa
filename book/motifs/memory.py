"""Chapters 19 to 22: lives, shards, a comb of checkpoints, and three lanes."""

from itertools import pairwise

from book.motifs.marks import HEIGHT, WIDTH, Motif, scale
from book.motifs.parallelism import spans
from dtlib.memory.account.state import (
    held_gradient_bytes,
    held_optimizer_bytes,
    held_weight_bytes,
)
from dtlib.memory.live import training_lives
from dtlib.memory.offload.pipeline import simulate_offload
from dtlib.memory.recompute.drawing import kept_spans, steps
from dtlib.memory.recompute.schedule import revolve
from dtlib.models.spec import TransformerSpec

KINDS = {
    "weights": "forward",
    "optimizer": "soft",
    "gradients": "backward",
    "activations": "fourth",
}


def lives() -> Motif:
    """Two steps of training: what is alive, kind upon kind."""
    motif = Motif()
    spec = TransformerSpec("small", layers=8, hidden=512, heads=8, vocab=8192)
    live = training_lives(spec, layer_bytes=1e8, loss_bytes=6e7)
    x = scale(0, len(live.moments), 6, WIDTH - 6)
    y = scale(0, live.peak_bytes, HEIGHT - 6, 8)
    below = [0.0] * len(live.moments)
    for kind, colour in KINDS.items():
        above = [a + b for a, b in zip(below, live.curve(kind), strict=True)]
        motif.area(_stairs(above, x, y) + _stairs(below, x, y)[::-1], colour, 0.85)
        below = above
    return motif


def shards() -> Motif:
    """What each of eight ranks holds of weights, gradients and optimizer, in stages 0 to 3."""
    motif, dp = Motif(), 8
    parts = (
        (held_weight_bytes, 2, "forward"),
        (held_gradient_bytes, 2, "backward"),
        (held_optimizer_bytes, 12, "soft"),
    )
    whole = sum(held(1.0, width, 0, dp) for held, width, _ in parts)
    y = scale(0, whole, 0, HEIGHT - 14)
    for zero in range(4):
        for rank in range(dp):
            low = HEIGHT - 7.0
            for held, width, colour in parts:
                high = y(held(1.0, width, zero, dp))
                motif.bar(10 + 180 * zero + 20 * rank, low - high, 17, max(high - 1, 0.8), colour)
                low -= high
    return motif


def comb() -> Motif:
    """A chain of 24 layers with four slots: forward, back, and again from the kept states."""
    motif, schedule = Motif(), revolve(24, 4)
    played = list(steps(schedule))
    x = scale(0, played[-1].stop, 6, WIDTH - 6)
    y = scale(0, schedule.layers, 8, HEIGHT - 8)
    for state, since, until in kept_spans(schedule):
        motif.line([(x(since), y(state)), (x(until), y(state))], "fourth", 3.5)
    for step in played:
        colour = "backward" if step.kind == "B" else "forward"
        motif.line([(x(step.start), y(step.begin)), (x(step.stop), y(step.end))], colour, 2)
    return motif


def lanes() -> Motif:
    """Layers that come over a link, are computed and go back, two of them ahead."""
    motif = Motif()
    run = simulate_offload(22, compute=7, fetch=5, back=5, alpha=4, lookahead=1)
    rows = {(0, lane): (8 + 37 * place, 30) for place, lane in enumerate(LANES)}
    spans(motif, run.timeline(), rows)
    return motif


LANES = ("link in", "compute", "link out")


def _stairs(values: list[float], x, y) -> list[tuple[float, float]]:
    """The corners of a curve that keeps each value for one moment."""
    inside = range(1, len(values))
    turns = [i for i in inside if values[i] != values[i - 1]]
    edges = [0, *turns, len(values)]
    return [(x(edge), y(values[a])) for a, b in pairwise(edges) for edge in (a, b)]


CHAPTERS = {"19": lives, "20": shards, "21": comb, "22": lanes}
