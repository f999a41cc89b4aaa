"""Every check of chapter 15: the solution passes; the stub and wrong answers fail and say why."""

import math

import numpy as np
from exercise_cases import Case, EveryExercise

from dtlib.exercises.chapter_15 import MAPS

N = 2 * 4 * 2048 * 4096
WORK = (24 * 4 * 2048 * 4096**2 + 4 * 4 * 2048**2 * 4096) / 8
PAYLOAD = 4 * 96 * 2 * 2048 * 12288
COMPUTING = 6 * 12 * 96 * 12288**2 * 2048 / 8 / 156e12


def shard(weight, heads, rank, P):
    return np.concatenate([np.split(part, P)[rank] for part in np.split(weight, 3)])


def contiguous(weight, heads, rank, P):
    return np.split(weight, P)[rank]


def by_head(weight, heads, rank, P):
    parts = shard(weight, heads, rank, P)
    return parts.reshape(3, heads // P, -1, parts.shape[1]).swapaxes(0, 1).reshape(parts.shape)


def next_rank(weight, heads, rank, P):
    return shard(weight, heads, (rank + 1) % P, P)


def backward(x, w, dy, sum_over_ranks):
    return sum_over_ranks(dy @ w.T), x.T @ dy


def backward_without_f(x, w, dy, sum_over_ranks):
    return dy @ w.T, x.T @ dy


def backward_that_sums_everything(x, w, dy, sum_over_ranks):
    return sum_over_ranks(dy @ w.T), sum_over_ranks(x.T @ dy)


def backward_with_a_sum_too_many(x, w, dy, sum_over_ranks):
    sum_over_ranks(dy)
    return sum_over_ranks(dy @ w.T), x.T @ dy


def ranks(heads, hidden, rho):
    return max(t for t in range(1, heads + 1) if heads % t == 0 and (t - 1) * rho / 3 <= hidden)


def ranks_of_a_whole_step(heads, hidden, rho):
    return max(t for t in range(1, heads + 1) if heads % t == 0 and (t - 1) * rho / 4.5 <= hidden)


def ranks_that_divide_nothing(heads, hidden, rho):
    return min(heads, 1 + int(3 * hidden / rho))


def one_rank(heads, hidden, rho):
    return 1


def part(logits, target):
    top = logits.max()
    return top, np.exp(logits - top).sum(), 0.0 if target is None else logits[target]


def merge(parts):
    top = max(m for m, _, _ in parts)
    total = sum(s * math.exp(m - top) for m, s, _ in parts)
    return top + math.log(total) - sum(t for _, _, t in parts)


def merge_without_scale(parts):
    top = max(m for m, _, _ in parts)
    return top + math.log(sum(s for _, s, _ in parts)) - sum(t for _, _, t in parts)


def raw_part(logits, target):
    with np.errstate(over="ignore"):
        return 0.0, np.exp(logits).sum(), 0.0 if target is None else logits[target]


CASES = {
    "ex-bytes-of-a-layer": Case(
        (3.5 * N, 280 * N),
        [
            ((2 * N, 160 * N), "what is all-reduced"),
            ((3.5 * N, 17.92e9), "MiB are not MB"),
            ((7 * N, 560 * N), "forward and the backward"),
        ],
        secret=[3.5 * N, 280 * N],
    ),
    "ex-headroom-of-a-layer": Case(
        (WORK / 989e12, 3.5 * N / 450e9, 7 / 3),
        [
            ((WORK / 989e12, 3.5 * N / 900e9, 7 / 3), "both directions"),
            ((24 * 4 * 2048 * 4096**2 / 8 / 989e12, 3.5 * N / 450e9, 7 / 3), "scores"),
            ((WORK / 989e12, 3.5 * N / 450e9, 2), "bytes a rank sends change"),
        ],
        secret=[WORK / 989e12, 3.5 * N / 450e9, 7 / 3],
    ),
    "ex-what-may-stand-between": Case(
        dict(MAPS),
        [
            (MAPS | {"layer norm over all columns": True}, "layer norm over all columns: which"),
            (MAPS | {"gelu": False}, "gelu: which"),
            ({"gelu": True}, "pass a dict"),
            (MAPS | {"gelu": 1}, "True or False"),
        ],
    ),
    "ex-bias-of-a-row": Case((8, 8), [((1, 8), "right layer"), ((8, 1), "its own gradient")]),
    "ex-heads-on-six-ranks": Case(
        (0.125, 0.125, 0.5),
        [((1.125, 0.125, 0.5), "without the 1"), ((0.125, 1 / 9, 0.5), "of the heads there are")],
        secret=[0.125, 0.5],
    ),
    "ex-a-published-overhead": Case(
        (PAYLOAD, 1.75 * PAYLOAD, 1.75 * PAYLOAD / 300e9 / COMPUTING),
        [
            ((PAYLOAD / 2048, 1.75 * PAYLOAD, 0.066), "one token"),
            ((PAYLOAD, PAYLOAD, 0.066), "that is the payload"),
            ((PAYLOAD, 1.75 * PAYLOAD, 0.0329), "two trips|half of the peak"),
        ],
        secret=[PAYLOAD, 1.75 * PAYLOAD, 0.0658],
    ),
    "ex-statistics-of-a-norm": Case(
        (65536, 1024),
        [((32768, 1024), "a mean and a variance"), ((65536, 4096), "in the same way")],
        secret=[65536, 1024],
    ),
    "ex-fused-projections": Case(
        shard,
        [
            (contiguous, "a head needs all three"),
            (by_head, "in another order"),
            (next_rank, "not of this rank's heads"),
        ],
    ),
    "ex-backward-of-columns": Case(
        backward,
        [
            (backward_without_f, "only this rank's summand"),
            (backward_that_sums_everything, "dw has wrong values"),
            (backward_with_a_sum_too_many, "2 sums over the ranks"),
        ],
    ),
    "ex-how-many-ranks": Case(
        ranks,
        [
            (ranks_of_a_whole_step, "cannot hide"),
            (ranks_that_divide_nothing, "cannot share"),
            (one_rank, "more would"),
        ],
    ),
    "ex-three-numbers": Case(
        (part, merge),
        [
            ((part, merge_without_scale), "on what scale"),
            ((raw_part, merge), "the loss is wrong|finite"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES
