"""Chapters 28 to 31a: what is sent, awaited and kept with fewer bits."""

from book.motifs.marks import HEIGHT, WIDTH, Motif, log_scale
from dtlib.efficiency.precision.formats import E4M3


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


CHAPTERS = {"30": grids}
