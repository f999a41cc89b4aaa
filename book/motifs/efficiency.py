"""Chapters 28 to 31a: what is sent, awaited and kept with fewer bits."""

from itertools import accumulate

from book.motifs.marks import HEIGHT, WIDTH, Motif, log_scale, scale
from dtlib.efficiency.architecture.cost import latent_equal_kv_heads
from dtlib.efficiency.asynchrony.history import simulate_server
from dtlib.efficiency.asynchrony.rules import Asynchronous
from dtlib.efficiency.compression.cost import gathered_over_dense_ratio
from dtlib.efficiency.overlap.buckets import best_cut, cut_ends
from dtlib.efficiency.precision.formats import E4M3


def border() -> Motif:
    """Bytes of gathered messages over the ring's, by ranks: they climb, and cross the ring's."""
    motif = Motif()
    x, y = log_scale(2, 4096, 8, WIDTH - 8), log_scale(0.02, 41, HEIGHT - 10, 10)
    motif.line([(8, y(1)), (WIDTH - 8, y(1))], "forward", 2)
    for power in range(1, 13):
        ratio = gathered_over_dense_ratio(2**power, 0.01, 4, 4)
        motif.dot(x(2**power), y(ratio), 6, "communication" if ratio < 1 else "backward")
    return motif


def grids() -> Motif:
    """All positive numbers of E4M3 on a logarithmic line: even grids, and below them the last."""
    motif, m = Motif(), E4M3.mantissa_bits
    x = log_scale(E4M3.least, E4M3.largest, 8, WIDTH - 8)
    for exponent in range(E4M3.least_exponent, E4M3.most_exponent + 1):
        step = 2.0 ** (exponent - m)
        first = 1 if exponent == E4M3.least_exponent else 2**m
        for place in range(first, 2 ** (m + 1)):
            value = place * step
            if value > E4M3.largest:
                continue
            whole, normal = place % 2**m == 0, place >= 2**m
            colour = "backward" if not normal else "forward" if whole else "soft"
            top = 14 if whole else 44
            motif.line([(x(value), HEIGHT - 14), (x(value), top)], colour, 2)
    return motif


def growing() -> Motif:
    """A backward pass and the buckets that end first, each as large as what came ready."""
    motif, layers, backward, comm = Motif(), 400, 50, 80
    ready = [backward * (i + 1) / layers for i in range(layers)]
    row = (ready, [comm / layers] * layers, 0.1, 1)
    cut = best_cut(*row)
    ends, x = cut_ends(cut, *row), scale(0, 1.02 * (backward / 50 + comm), 8, WIDTH - 8)
    begin = 0
    for count, bucket, end in zip(accumulate(cut), cut, ends, strict=True):
        motif.bar(x(begin), 18, x(ready[count - 1]) - x(begin) - 1.5, 36, "backward")
        took = 0.1 + bucket * comm / layers
        motif.bar(x(end - took), 66, x(end) - x(end - took) - 1.5, 36, "communication")
        begin = ready[count - 1]
    return motif


def kept() -> Motif:
    """What one token leaves: keys and values of 128 heads, of 8 (a block each), and a latent."""
    motif, wide = Motif(), (WIDTH - 16) / 16
    for i in range(16):
        motif.bar(8 + i * wide, 10, wide - 3, 18, "forward")
        motif.bar(8 + i * wide, 31, wide - 3, 18, "backward")
    motif.bar(8, 60, wide - 3, 9, "forward")
    motif.bar(8, 72, wide - 3, 9, "backward")
    motif.bar(8, 92, latent_equal_kv_heads(512, 64, 128) / 8 * (wide - 3), 20, "communication")
    return motif


def ages() -> Motif:
    """Gradients of six workers, one of them slow: the more updates one missed, the louder."""
    motif, times, end = Motif(), (5, 7, 8, 11, 13, 37), 110
    run, x = simulate_server(Asynchronous(6), times.__getitem__, 70), scale(0, end, 8, WIDTH - 8)
    for arrival in run.arrivals:
        begin = arrival.time - times[arrival.worker]
        if arrival.time <= end:
            fresh, old = arrival.staleness < run.P - 1, arrival.staleness > 2 * (run.P - 1)
            colour = "soft" if fresh else "backward" if old else "forward"
            width = x(arrival.time) - x(begin) - 1.5
            motif.bar(x(begin), 10 + 17 * arrival.worker, width, 12, colour)
    return motif


CHAPTERS = {"28": border, "29": ages, "30": grids, "31": growing, "31a": kept}
