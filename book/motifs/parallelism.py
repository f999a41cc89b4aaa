"""Chapters 14 to 18: buckets, cut matrices, 1F1B, half-empty blocks, tokens on their way."""

import numpy as np

from book.motifs.marks import HEIGHT, WIDTH, Motif, scale
from dtlib.models.spec import TransformerSpec
from dtlib.models.weights import list_weights
from dtlib.parallelism.data.overlap import simulate_step
from dtlib.parallelism.expert.load import token_logits
from dtlib.parallelism.pipeline.builders import one_f_one_b
from dtlib.parallelism.pipeline.simulation import simulate
from dtlib.parallelism.sequence.layouts import causal_work, contiguous, zigzag
from dtlib.timeline import Timeline

RANKS = ("forward", "fourth", "communication", "backward")
SUMMED = ("output", "feed-forward down")  # cut by rows, so that their results are added up


def spans(motif: Motif, timeline: Timeline, rows: dict[tuple, tuple[float, float]]) -> None:
    """Every span of a timeline as a bar in the row, top and height, of its rank and lane."""
    x = scale(0, timeline.makespan, 6, WIDTH - 6)
    for span in timeline.spans:
        top, high = rows[span.rank, span.lane]
        motif.bar(x(span.start), top, x(span.stop) - x(span.start) - 1.2, high, span.kind)


def buckets() -> Motif:
    """A step on three ranks: a bucket leaves as soon as the slowest rank has its gradients."""
    motif = Motif()
    step = simulate_step([30, 32, 36], [62, 66, 70], [11, 11, 11, 11, 11, 11])
    rows = {(rank, "compute"): (8 + 37 * rank, 20) for rank in range(3)}
    rows |= {(rank, "network"): (29.5 + 37 * rank, 7) for rank in range(3)}
    spans(motif, step, rows)
    return motif


def cuts() -> Motif:
    """The matrices of one layer to scale, each in four colours: by columns, then by rows."""
    motif = Motif()
    spec = TransformerSpec("layer", 1, 4096, 32, 32000, ffn=11008, gated=True, bias=False)
    layer = [w for w in list_weights(spec) if w.part in ("attention", "feed-forward")]
    unit = (HEIGHT - 8) / max(w.shape[0] for w in layer)
    gap = (WIDTH - 16 - unit * sum(w.shape[1] for w in layer)) / (len(layer) - 1)
    left = 8.0
    for weight in layer:
        high, wide = (unit * size for size in weight.shape)
        top = (HEIGHT - high) / 2
        for rank, colour in enumerate(RANKS):
            if weight.name in SUMMED:
                motif.bar(left, top + rank * high / 4, wide, high / 4 - 1, colour)
            else:
                motif.bar(left + rank * wide / 4, top, wide / 4 - 1, high, colour)
        left += wide + gap
    return motif


def one_forward_one_backward() -> Motif:
    """1F1B on four stages and ten micro-batches, with a backward pass of twice the forward's."""
    motif = Motif()
    timeline = simulate(one_f_one_b(4, 10), f=1, b=1, w=1)
    lane = timeline.spans[0].lane
    spans(motif, timeline, {(rank, lane): (7 + 27.5 * rank, 23) for rank in range(4)})
    return motif


def half_empty_blocks() -> Motif:
    """How much of its block each of eight ranks computes, step by step: in a row, and zigzag."""
    motif, P = Motif(), 8
    for left, layout in ((8, contiguous), (374, zigzag)):
        for t, step in enumerate(causal_work(layout, P)):
            motif.bar(left + 42 * t, 4, 40, 110, "rule", 0.35)
            for rank, share in enumerate(step):
                if share:
                    motif.bar(left + 42 * t, 4 + 14 * rank, 40 * float(share), 12, "forward")
    return motif


def tokens_on_their_way() -> Motif:
    """Forty tokens, each to the experts that like it most: the favourites have long queues."""
    motif, tokens, experts, k = Motif(), 40, 8, 2
    logits = token_logits(tokens, experts, 0.45, np.random.default_rng(0))
    chosen = np.argsort(-logits, axis=1, kind="stable")[:, :k]
    x = scale(0, tokens - 1, 14, WIDTH - 14)
    seat = scale(0, experts - 1, 60, WIDTH - 60)
    loads = np.bincount(chosen.ravel(), minlength=experts)
    for token, picks in enumerate(chosen.tolist()):
        for rank, expert in enumerate(picks):
            colour, stroke = ("forward", 1.6) if rank == 0 else ("communication", 1)
            motif.line([(x(token), 10), (seat(expert), 86)], colour, stroke)
    for token in range(tokens):
        motif.dot(x(token), 10, 8, "soft")
    for expert, load in enumerate(loads.tolist()):
        high = 30 * load / loads.max()
        motif.bar(seat(expert) - 26, 86, 52, high, "backward" if load == loads.max() else "fourth")
    return motif


CHAPTERS = {
    "14": buckets,
    "15": cuts,
    "16": one_forward_one_backward,
    "17": half_empty_blocks,
    "18": tokens_on_their_way,
}
