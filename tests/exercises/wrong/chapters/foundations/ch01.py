"""Wrong answers of chapter 1 that no slip derives: (exercise, answer, what it must be told)."""

import math

from dtlib.exercises.chapters.foundations.ch01 import _best_ranks, _enough, _largest_model, _speedup
from dtlib.exercises.chapters.foundations.ch01 import _step_time as step_time
from dtlib.exercises.chapters.foundations.ch01 import _steps_between as steps

WALL, STEPS, OVERLAP = "ex-which-wall", "ex-talk-less-often", "ex-repair-overlap"

# fmt: off
WRONG = [
    (WALL, lambda *m: (_largest_model(*m)[0] ** 2, _largest_model(*m)[1]), "params is too large"),
    (WALL, lambda *m: (_largest_model(*m)[0], "memory"), "the other wall"),
    (WALL, lambda *m: _largest_model(*m)[0], "must have 2 items"),
    (WALL, lambda *m: (_largest_model(*m)[0], "money"), "must be 'memory' or"),
    ("ex-half-of-the-limit", (_speedup, lambda rho, x: _enough(rho, x) + 2), "fewer than"),
    ("ex-half-of-the-limit", lambda P, rho: 1.0, "must have 2 items"),
    ("ex-four-times-the-workers", (100.0, 0.3), "must have 3 items"),
    (STEPS, lambda t, c, e: max(1, math.floor(e / (1 - e) * c / t)), "too few"),
    (STEPS, lambda t, c, e: steps(t, c, e) + 1, "more than it takes"),
    (STEPS, lambda t, c, e: 0, "too few"),
    ("ex-where-the-square-root-is", (100, 50.5, lambda *step: 0), "at least one"),
    ("ex-where-the-square-root-is", (100, 50.5, lambda *s: _best_ranks(*s) + 2), "fewer than"),
    (OVERLAP, lambda b, m: 0.9 * step_time(b, m), "ends before its"),
    (OVERLAP, lambda b, m: 1.1 * step_time(b, m), "is too long"),
    ("ex-moves-and-removals", lambda before, after: "move", "that is no 'move'"),
]
