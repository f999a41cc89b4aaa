"""Wrong answers of chapter 13a that no slip derives: (exercise, answer, what it must be told)."""

from dtlib.exercises.chapters.collectives.ch13a import (
    _best_segments,
    _hierarchical_time,
    _rail_rings_time,
)

LEVELS, TAPER = "ex-sixteen-nodes", "ex-repair-taper"

# fmt: off
WRONG = [
    (LEVELS, lambda n, a_in, *rest: _hierarchical_time(n, 1e-6, *rest), "starts inside"),
    (LEVELS, lambda *n: _hierarchical_time(*n[:4], 50e9), "only the bytes inside cost"),
    ("ex-saved", lambda nodes, gpus: (1, 1), "nodes = 8, gpus = 8: ordered"),
    (TAPER, lambda v, *rest: _rail_rings_time(2e9, *rest), r"v = 7e\+08"),
    (TAPER, lambda v, N, G, beta, *pods: _rail_rings_time(v, N, 8, 50e9, *pods), r"v = 7e\+08"),
    ("ex-many-levels", lambda n, levels: 1.0, "1 level, 1e.03 bytes"),
    ("ex-best-segments", lambda n, N, G, a, b: _best_segments(n, N, G, 5e-6, b), "alpha = 1e-05"),
]
