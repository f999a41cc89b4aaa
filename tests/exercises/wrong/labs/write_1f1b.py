"""Wrong answers of the lab 'Write 1F1B' that no slip derives: (exercise, answer, complaint)."""

from dtlib.exercises.labs.write_1f1b import _alternating, _late, _ordered
from dtlib.parallelism import pipeline
from dtlib.parallelism.pipeline import Action, PipelineSchedule


def in_two_orders(p, m):
    rows = _ordered(p, m).rows
    return PipelineSchedule([row[:m][:: (-1) ** r] + row[m:] for r, row in enumerate(rows)], m)


def backward_first(p, m):
    """1F1B with B before W at once: no slower, and no zero bubble."""
    rows = _alternating(p, m).rows
    return PipelineSchedule([[a._replace(kind=k) for a in row for k in a.kind] for row in rows], m)


def with_actions(p, m):
    rows = _late(p, m, c=2).rows
    return PipelineSchedule([[Action(*action) for action in row] for row in rows], m)


GPIPE, ALTERNATING, HALF, HALVES = (
    f"ex-lab-pp-{name}" for name in ("gpipe", "one-f-one-b", "zb-h1", "halves")
)
RIGHT = [
    (
        GPIPE,
        lambda p, m: PipelineSchedule([r[:m] + r[: m - 1 : -1] for r in _ordered(p, m).rows], m),
    ),
    (ALTERNATING, backward_first),
    ("ex-lab-pp-zb-h2", with_actions),
]

# fmt: off
WRONG = [
    (GPIPE, pipeline.gpipe, "the library's own gpipe"),
    (GPIPE, in_two_orders, "legal, but slow: if F, B and W take 1, 1 and 1"),
    (GPIPE, lambda p, m: _ordered(p + 1, m), "ranks, asked are"),
    (GPIPE, lambda p, m: PipelineSchedule(["0F0 0F0 0BW0"], 1), "0F0 is done twice"),
    (ALTERNATING, lambda p, m: pipeline.zero_bubble(p, m, 1), "rank . holds . micro-batches"),
    ("ex-lab-pp-weights", lambda targets: [t.numel() for t in targets], "do not add up"),
    ("ex-lab-pp-weights", lambda targets: [1.0], "must have 3 items"),
    (HALVES, lambda dy, weight: dy @ weight, "must have 2 items"),
    (HALF, backward_first, "waits longer than one unit for each stage|ends late"),
    (HALF, lambda p, m: _late(p, m, lag=lambda r: 0), "waits longer|ends late"),
    ("ex-lab-pp-zb-h2", lambda p, m: _late(p, m, c=2, lag=lambda r: m), "still waits|at once"),
]
