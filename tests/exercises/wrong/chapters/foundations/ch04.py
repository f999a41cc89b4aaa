"""Wrong answers of chapter 4 that no slip derives: (exercise, answer, what it must be told)."""

from dtlib.exercises import PracticeLink
from dtlib.exercises.chapters.foundations.ch04 import (
    _calibrate,
    _calibrate_with,
    _measured,
    optimal_chunks,
)
from dtlib.foundations import fit_alpha_beta

SIZE, CHUNKS, LINK = "ex-ninety-percent", "ex-optimal-chunks", "ex-design-calibration"
COST, MEASURE = "ex-without-the-property", "ex-repair-measure"


def measure_as_printed(link, sizes):
    samples = []
    for n in sizes:
        start = link.clock()
        link.all_reduce(n)
        samples.append((n, link.clock() - start))
    return fit_alpha_beta(samples)


# fmt: off
WRONG = [
    (SIZE, lambda e, a, b: 2 * e / (1 - e) * a * b, "wrong already when half is asked"),
    (SIZE, lambda e, a, b: e / (1 - e) * a * b + 1, "wrong already when half is asked"),
    (SIZE, lambda e, a: 0, r"must take size_for\(efficiency, alpha, beta\)"),
    (SIZE, lambda e, a, b: "much", "wrong already|must be a number"),
    (MEASURE, measure_as_printed, "on a quiet link: alpha is that of a whole all-reduce"),
    (MEASURE, lambda link, sizes: _measured(link, sizes, collect=max), "jitter"),
    (MEASURE, lambda link, sizes: (1e-6, 1e9), r"a fit with \.alpha and \.beta, got tuple"),
    (CHUNKS, lambda n, h, a, b: max(1, round(n / (a * b))), "over one hop"),
    (CHUNKS, lambda n, h, a, b: 1 if h == 1 else max(1, round(n / (a * b))), "fewer chunks"),
    (CHUNKS, lambda *chain: optimal_chunks.reference(*chain) - 1, "at least one"),
    (CHUNKS, lambda n, h, a, b: (h * n / (a * b)) ** 0.5, "whole number"),
    (CHUNKS, lambda n, h, a, b: 1, "more chunks are faster"),
    (LINK, lambda link: _calibrate(link, enough=80), "the 100 ms are spent"),
    (LINK, lambda link: _calibrate_with(link, sizes=(1e6,)), "raises ValueError"),
    (LINK, lambda link: PracticeLink.clock(link), "2 items"),
    (COST, (lambda n: 1 + n**2, 0.1), "batching still wins"),
    (COST, (lambda n: 1 + n**2, -1), "n must be positive"),
    (COST, (lambda n: None, 1), "returns nothing yet"),
    (COST, lambda n: n, "2 items"),
]
