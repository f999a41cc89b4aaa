"""Wrong answers of chapter 20 that no slip derives: (exercise, answer, what it must be told)."""

from dtlib.exercises.chapters.memory.ch20 import _clip, _pass_time, _step

CLIP, PASS, STEP = "ex-norm-of-all-parts", "ex-looking-ahead", "ex-one-step-of-stage-two"


def never_skips(g, most, add):
    clipped = _clip(g, most, add)
    return g if clipped is None else clipped


def only_rank_0(weights, gradient, velocity, comm):
    if comm.rank == 0:
        comm.reduce_scatter([0.0] * comm.size)
    return weights, velocity


def not_on_rank_1(weights, gradient, velocity, comm):
    return (weights, velocity) if comm.rank == 1 else _step(weights, gradient, velocity, comm)


def gathers_nothing(weights, gradient, velocity, comm):
    comm.reduce_scatter([0.0] * len(velocity) * comm.size)
    return weights, velocity


# fmt: off
WRONG = [
    ("ex-what-stage-two-sends", lambda params, P, m: 2 * (m + 1) * params, "the result"),
    (PASS, lambda gathers, computes, sizes, room: 1e9, "too late"),
    (PASS, lambda g, c, sizes, room: _pass_time(g, c, [1] * len(sizes), room), "too early"),
    (CLIP, never_skips, "must skip"),
    (STEP, only_rank_0, "wait in a collective|it calls"),
    (STEP, not_on_rank_1, "others never call"),
    (STEP, gathers_nothing, "it calls reduce_scatter$"),
]
