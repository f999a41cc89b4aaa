"""Wrong answers of chapter 18 that no slip derives: (exercise, answer, what it must be told)."""

import numpy as np

from dtlib.exercises.chapters.parallelism.ch18 import _counts as counts
from dtlib.exercises.chapters.parallelism.ch18 import _monitor as monitor

COUNTS, MONITOR = "ex-repair-the-counts", "ex-collapse-monitor"

# fmt: off
WRONG = [
    ("ex-bytes-of-a-moe-layer", {"dispatch": 1}, "the keys dispatch, round_trip"),
    ("ex-gradient-of-balance", lambda g, f: g.sum(), "shape"),
    ("ex-gradient-of-balance", lambda g, f: "up", "shape"),
    ("ex-two-half-batches", {"attention": (0, 1)}, "the keys attention"),
    ("ex-groups-of-rank-13", {"tp": 5, "ep": 5, "dp": 5, "expert_gradients": "dp"}, "4 items"),
    (COUNTS, lambda c, e, r: (np.arange(40), counts(c, e, r)[1]), "not sorted"),
    (COUNTS, lambda c, e, r: (np.zeros(40), counts(c, e, r)[1]), "every copy once"),
    (COUNTS, lambda c, e, r: (counts(c, e, r)[0], np.full(r, 40 / r)), "live on rank"),
    (COUNTS, lambda c, e, r: (counts(c, e, r)[0], np.zeros(r)), "live on rank"),
    (MONITOR, lambda c, places: (max(c), 0.0, 1.0), "busiest is wrong"),
    (MONITOR, lambda c, places: (monitor(c, places)[0], 0.0, 1.0), "dropped is wrong"),
    (MONITOR, lambda c, places: (*monitor(c, places)[:2], 1.0), "entropy is wrong"),
    ("ex-at-most-m-nodes", lambda s, k, nodes, most: [0] * k, "different experts"),
]
