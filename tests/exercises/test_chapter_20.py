"""Every check of chapter 20: the solution passes; the stub, wrong answers and dtlib's own fail."""

import numpy as np
import pytest
from exercise_cases import Case, EveryExercise

from dtlib.exercises import NotYet, check
from dtlib.memory import zero_sent_bytes


def stage_two_bytes(params, P, m):
    return (m + 1) * (P - 1) / P * 2 * params


def pass_time(gathers, computes, sizes, room, *, own=1, serial=True):
    gathered, done = [], []
    for i in range(len(gathers)):
        first, taken = i, own * sizes[i]
        while first > 0 and taken + sizes[first - 1] <= room:
            first -= 1
            taken += sizes[first]
        start = max(gathered[-1] if serial and gathered else 0, done[first - 1] if first else 0)
        gathered.append(start + gathers[i])
        done.append(max(gathered[-1], done[-1] if done else 0) + computes[i])
    return done[-1]


def right_pass_time(gathers, computes, sizes, room):
    return pass_time(gathers, computes, sizes, room)


def simulated_pass_time(gathers, computes, sizes, room):
    """Another way: the moments at which memory is given back, one after the other."""
    free, network, before, held = 0.0, 0.0, 0.0, []
    for gather, compute, size in zip(gathers, computes, sizes, strict=True):
        while sum(s for _, s in held) + size > room:
            free = max(free, held.pop(0)[0])
        network = max(network, free) + gather
        before = max(network, before) + compute
        held.append((before, size))
    return before


def clip(g, most, add):
    with np.errstate(all="ignore"):
        norm = np.sqrt(add(float(np.sum(np.square(g, dtype=np.float64)))))
    if not np.isfinite(norm):
        return None
    return g * min(1.0, most / norm) if norm else g


def torchs_clip(g, most, add):
    norm = np.sqrt(add(float((g * g).sum())))
    return g * min(1.0, most / (norm + 1e-6)) if np.isfinite(norm) else None


def own_clip(g, most, add):
    add(0.0)
    norm = np.linalg.norm(g)
    return g * min(1.0, most / norm) if norm else g


def alone_clip(g, most, add):
    norm = np.sqrt(add(float((g * g).sum())))
    if not np.isfinite(g).all():
        return None
    return g * min(1.0, most / norm) if norm else g


def never_skips(g, most, add):
    return g * min(1.0, most / max(np.sqrt(add(float((g * g).sum()))), 1e-300))


def always_scales(g, most, add):
    norm = np.sqrt(add(float((g * g).sum())))
    if not np.isfinite(norm):
        return None
    return g * most / norm if norm else g


def adds_norms(g, most, add):
    norm = add(float(np.linalg.norm(g)))
    if not np.isfinite(norm):
        return None
    return g * min(1.0, most / norm) if norm else g


def silent(g, most, add):
    return g


def step(weights, gradient, velocity, comm, *, slip=""):
    n, P = len(weights), comm.size
    part = -(-n // P)
    own = slice(comm.rank * part, (comm.rank + 1) * part)
    fill = np.zeros(P * part - n) if slip != "fill" else np.zeros(0)
    if slip == "reduce":
        g = np.concatenate([gradient, fill])[own]
    else:
        g = comm.reduce_scatter(np.concatenate([gradient, fill]))
    if slip != "mean":
        g = g / P
    velocity = 0.9 * velocity + g
    mine = np.concatenate([weights, fill])[own] - 0.1 * velocity
    if slip == "gather":
        new = np.concatenate([weights, fill])
        new[own] = mine
        return new[:n], velocity
    whole = comm.all_gather(mine)
    return (whole if slip == "cut" else whole[:n]), velocity


def right_step(weights, gradient, velocity, comm):
    return step(weights, gradient, velocity, comm)


def slipping(slip):
    return lambda weights, gradient, velocity, comm: step(
        weights, gradient, velocity, comm, slip=slip
    )


def gathers_gradients(weights, gradient, velocity, comm):
    """Data parallelism in disguise: every rank updates everything."""
    n, P = len(weights), comm.size
    part = -(-n // P)
    total = comm.all_gather(comm.reduce_scatter(np.pad(gradient, (0, P * part - n)))) / P
    return weights - 0.1 * total[:n], np.zeros(part)


def only_rank_0(weights, gradient, velocity, comm):
    if comm.rank == 0:
        comm.reduce_scatter(np.zeros(comm.size))
    return weights, velocity


COPIES = {"a": 8, "b": 8, "c": 64, "d": 1, "e": 1}
CUTS = {
    "a": "anywhere", "b": "with one number", "c": "matrices", "d": "anywhere", "e": "rows",
    "f": "matrices", "g": "anywhere",
}  # fmt: skip
ONCE = 31 / 32 * 40e9 / 8 / 50e9

CASES = {
    "ex-thirteen-billion-sharded": Case(
        solution=(208, 48.75, 6.5),
        wrong=[
            ((52, 48.75, 6.5), "12 more bytes"),
            ((208, 71.5, 6.5), "stage 1"),
            ((208, 48.25, 6.5), "printed answer"),
            ((208, 48.75, 31.6875), "stage 2"),
        ],
        secret=[208, 48.75, 6.5],
    ),
    "ex-optimizer-of-192": Case(
        solution=(88, 60, 32, 32),
        wrong=[
            ((24, 60, 32, 32), "weights and gradients are on the device"),
            ((88, 28, 32, 32), "weights are whole"),
            ((88, 60, 24, 32), "that is the optimizer"),
            ((88, 60, 32, 12), "room for everything else"),
            ((88, 60, 32, 20), "does not fit"),
            ((88, 60, 32, 40), "fewer are enough"),
        ],
        secret=[88, 60],
    ),
    "ex-five-percent": Case(
        solution=(30_000, 15, 4),
        wrong=[
            ((1500, 15, 4), "equally long"),
            ((20_000, 15, 4), "three times"),
            ((30_000, 8, 4), "too few"),
            ((30_000, 15, 5), "too many"),
            ((30_000, 14.65, 3.66), "whole number"),
        ],
        secret=[30_000],
    ),
    "ex-sixteen-micro-batches": Case(
        solution=(4, 34, 96, 66, 34, 4),
        wrong=[
            ((64, 34, 96, 66, 34, 4), "once a step"),
            ((4, 64, 96, 66, 34, 4), "gathered once a step"),
            ((4, 34, 6, 66, 34, 4), "one micro-batch"),
            ((4, 34, 96, 96, 34, 4), "reduced once"),
            ((4, 34, 96, 66, 66, 4), "no second gather"),
            ((4, 34, 96, 66, 34, 34), "the next micro-batch finds them"),
            ((4, 34, 96, 66, 34, 2), "scattered once, too"),
        ],
        secret=[4, 34, 96, 66],
    ),
    "ex-what-stage-two-sends": Case(
        solution=stage_two_bytes,
        wrong=[
            (lambda params, P, m: 4 * m * (P - 1) / P * params, "what is done once"),
            (lambda params, P, m: 2 * m * (P - 1) / P * params, "the new weights"),
            (lambda params, P, m: 2 * (2 * m + 1) * (P - 1) / P * params, "half of an all-reduce"),
            (lambda params, P, m: 2 * (m + 1) * params, "the result"),
            (lambda params, P, m: zero_sent_bytes(params, 2, P, m, 2), "library's own"),
        ],
    ),
    "ex-only-the-large-layers": Case(
        solution=(1.5 + 2 + 14 / 64, 63 / 64 * 40, 63 / 64 * 2),
        wrong=[
            ((1.75, 39.375, 1.96875), "weights are whole"),
            ((3.71875, 63 / 64 * 38, 1.96875), "new weights"),
            ((3.71875, 40, 1.96875), "63 of 64"),
            ((3.71875, 39.375, 2), "63 of 64"),
        ],
        secret=[3.71875, 39.375],
    ),
    "ex-who-has-the-same": Case(
        solution=COPIES,
        wrong=[
            (COPIES | {"a": 1}, "other replicas"),
            (COPIES | {"b": 64}, "same samples"),
            (COPIES | {"c": 8}, "norm is not divided"),
            (COPIES | {"d": 8, "e": 8}, "1 more to come"),
            ({"a": 8}, "pass a dict"),
        ],
    ),
    "ex-looking-ahead": Case(
        solution=right_pass_time,
        also_right=[simulated_pass_time],
        wrong=[
            (lambda g, c, s, room: sum(g) + sum(c), "while earlier layers compute|too late"),
            (lambda g, c, s, room: pass_time(g, c, s, 0), "while earlier layers compute"),
            (lambda g, c, s, room: pass_time(g, c, s, 10**9), "no room for all"),
            (lambda g, c, s, room: pass_time(g, c, s, room, own=0), "needs room itself|no room"),
            (lambda g, c, s, room: pass_time(g, c, s, room, serial=False), "one gather at a time"),
            (lambda g, c, s, room: pass_time(g, c, [1] * len(s), room), "no room|too early"),
            (lambda g, c, s, room: 1e9, "too late"),
        ],
    ),
    "ex-norm-of-all-parts": Case(
        solution=clip,
        also_right=[torchs_clip],
        wrong=[
            (own_clip, "norm of its own part|must skip"),
            (alone_clip, "its own part is fine"),
            (never_skips, "must skip"),
            (always_scales, "stays as it is"),
            (adds_norms, "another part"),
            (silent, "call add once; it was called 0 times"),
        ],
    ),
    "ex-one-step-of-stage-two": Case(
        solution=right_step,
        wrong=[
            (slipping("mean"), "the mean, not the sum"),
            (slipping("fill"), "cannot be cut"),
            (slipping("reduce"), "it calls all_gather"),
            (slipping("gather"), "it calls reduce_scatter"),
            (slipping("cut"), "weights of shape"),
            (gathers_gradients, "not those of one process"),
            (only_rank_0, "calls neither|wait in a collective|it calls"),
        ],
    ),
    "ex-where-may-one-cut": Case(
        solution=CUTS,
        wrong=[
            (CUTS | {"b": "anywhere"}, "what does a rank need"),
            (CUTS | {"e": "matrices"}, "norm of a row"),
            (CUTS | {"f": "with one number"}, "one norm for each matrix"),
            (CUTS | {"a": "somewhere"}, "must be one of"),
        ],
    ),
    "ex-a-node-or-all": Case(
        solution=(1.25, 40, 12 * ONCE, 2 * ONCE),
        wrong=[
            ((40, 40, 12 * ONCE, 2 * ONCE), "256 ranks"),
            ((1.25, 320, 12 * ONCE, 2 * ONCE), "how many ranks"),
            ((1.25, 40, 3 * ONCE, 2 * ONCE), "four micro-batches"),
            ((1.25, 40, 96 * ONCE, 2 * ONCE), "eight ports"),
            ((1.25, 40, 12 * ONCE, 8 * ONCE), "put off"),
        ],
        secret=[1.25, 12 * ONCE, 2 * ONCE],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_a_step_that_waits_for_ranks_that_never_come_is_told_so():
    def odd(weights, gradient, velocity, comm):
        if comm.rank == 1:
            return weights, velocity
        return right_step(weights, gradient, velocity, comm)

    with pytest.raises(NotYet, match="others never call"):
        check("ex-one-step-of-stage-two", odd)
