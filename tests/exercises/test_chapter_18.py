"""Every check of chapter 18: the solution passes; the stub, wrong answers and dtlib's own fail."""

from math import comb

import numpy as np
from exercise_cases import Case, EveryExercise

TOKEN, T = 8192, 1024
BYTES = {
    "dispatch": T * 7 / 8 * TOKEN,
    "round_trip": T * 7 / 4 * TOKEN,
    "sent_0": T / 2 * TOKEN,
    "sent_1": (T - T / 14) * TOKEN,
    "received_0": 7 * T / 2 * TOKEN,
    "received_1": T / 2 * TOKEN,
}
LAW = [comb(64, x) * 0.25**x * 0.75 ** (64 - x) for x in range(65)]
CHANCE, OVER = sum(LAW[21:]), sum((x - 20) * LAW[x] for x in range(21, 65))
GROUPS = {
    "tp": [12, 13, 14, 15],
    "ep": [1, 5, 9, 13, 17, 21, 25, 29],
    "dp": [13, 45],
    "expert_gradients": "dp",
}
PLAN = {"attention": (0, 1), "dispatch": (1, 2), "experts": (2, 3), "combine": (3, 4)}


def gradient(g, f):
    T, E = g.shape
    return E / T * g * (f - (g @ f)[:, None])


def steps(count, factor=1.0):
    z = np.log([0.6, 0.4])
    for t in range(count):
        p = np.exp(z) / np.exp(z).sum()
        if p[0] < 0.51:
            return p[0], t
        z = z - factor * 0.02 * p * (p - p @ p)
    return (np.exp(z) / np.exp(z).sum())[0], count


AFTER, STEPS = steps(100)[0], steps(100_000)[1]


def counts(chosen, experts, ranks):
    order = np.argsort(chosen, kind="stable")
    return order, np.bincount(chosen, minlength=experts).reshape(ranks, -1).sum(axis=1)


def backwards(chosen, experts, ranks):
    return np.argsort(-chosen, kind="stable")[::-1], counts(chosen, experts, ranks)[1]


def monitor(load, capacity):
    load = np.asarray(load, dtype=float)
    share = load[load > 0] / load.sum()
    entropy = -(share * np.log(share)).sum() / np.log(len(load))
    over = np.maximum(load - capacity, 0).sum() / load.sum()
    return load.max() / load.mean(), over, entropy


def monitor_without_zeros(load, capacity):
    load = np.asarray(load, dtype=float)
    share = load / load.sum()
    with np.errstate(all="ignore"):
        entropy = -(share * np.log(share)).sum() / np.log(len(load))
    return (*monitor(load, capacity)[:2], entropy)


def limited(score, k, nodes, most, width=None):
    by_node = np.sort(score.reshape(nodes, -1), axis=1)[:, ::-1]
    kept = np.argsort(-by_node[:, : width or k // most].sum(axis=1))[:most]
    on = np.repeat(np.isin(np.arange(nodes), kept), len(score) // nodes)
    return np.argsort(-np.where(on, score, -np.inf))[:k]


CASES = {
    "ex-bytes-of-a-moe-layer": Case(
        solution=BYTES,
        wrong=[
            (BYTES | {"dispatch": T * TOKEN}, "at home already"),
            (BYTES | {"round_trip": BYTES["dispatch"]}, "come back"),
            (BYTES | {"sent_0": T * TOKEN}, "at home on GPU 0"),
            (BYTES | {"received_0": 4 * T * TOKEN}, "need not travel"),
            ({k: v / 2 for k, v in BYTES.items()}, "two bytes"),
            ({"dispatch": 1}, "the keys dispatch, round_trip"),
        ],
        secret=[7.34e6, 2.936e7],
    ),
    "ex-chance-and-share": Case(
        solution=(CHANCE, OVER / 16, 21),
        wrong=[
            ((sum(LAW[20:]), OVER / 16, 21), "does not overflow"),
            ((100 * CHANCE, OVER / 16, 21), "between 0 and 1"),
            ((CHANCE, CHANCE, 21), "the chance again"),
            ((CHANCE, OVER, 21), "on average"),
            ((CHANCE, OVER / 16, 20), "too small"),
            ((CHANCE, OVER / 16, 25), "too large"),
        ],
        secret=[0.0142],
    ),
    "ex-gradient-of-balance": Case(
        solution=gradient,
        wrong=[
            (lambda g, f: 2 * gradient(g, f), "no derivative"),
            (lambda g, f: len(g) * gradient(g, f), "mean over the tokens|differs"),
            (lambda g, f: -gradient(g, f), "the sign"),
            (lambda g, f: g.shape[1] / len(g) * g * f, "lowers the probabilities"),
            (lambda g, f: g.sum(), "shape"),
            (lambda g, f: "up", "array of numbers"),
        ],
    ),
    "ex-steps-to-balance": Case(
        solution=(AFTER, STEPS),
        wrong=[
            ((0.5, STEPS), "run it"),
            ((steps(100, 2)[0], STEPS), "half as large"),
            ((AFTER, steps(100_000, 2)[1]), "no derivative"),
            ((AFTER, 100), "too small"),
        ],
    ),
    "ex-when-experts-choose": Case(
        solution=(6, 6, 12),
        wrong=[
            ((3, 6, 12), "two copies"),
            ((6, 0, 12), "the same"),
            ((6, 6, 11), "skip the same"),
        ],
    ),
    "ex-two-half-batches": Case(
        solution=PLAN,
        also_right=[PLAN | {"combine": (3.25, 4)}, {k: v[::-1] for k, v in PLAN.items()}],
        wrong=[
            (PLAN | {"combine": (3, 5)}, "the GPU waits"),
            (PLAN | {"attention": (0, 0.5)}, "two things to do|before its"),
            (PLAN | {"dispatch": (0.5, 2)}, "half 1: dispatch starts before"),
            (PLAN | {"combine": (3.5, 4)}, "the network has two things"),
            ({"attention": (0, 1)}, "the keys attention"),
        ],
    ),
    "ex-groups-of-rank-13": Case(
        solution=GROUPS,
        also_right=[GROUPS | {"dp": [45, 13]}, GROUPS | {"tp": {12, 13, 14, 15}}],
        wrong=[
            (GROUPS | {"tp": [13, 14, 15, 16]}, "tp: 4 ranks, but"),
            (GROUPS | {"ep": list(range(8))}, "in its own group"),
            (GROUPS | {"dp": [13, 14]}, "other coordinates must agree"),
            (GROUPS | {"expert_gradients": "ep"}, "the very same pieces"),
        ],
    ),
    "ex-repair-the-counts": Case(
        solution=counts,
        wrong=[
            (lambda c, e, r: (counts(c, e, r)[0], np.bincount(c, minlength=e)), "each rank"),
            (backwards, "stay in their order"),
            (lambda c, e, r: (np.arange(40), counts(c, e, r)[1]), "not sorted"),
            (lambda c, e, r: (counts(c, e, r)[0], np.full(r, 40 / r)), "live on which rank"),
            (lambda c, e, r: (counts(c, e, r)[0], np.zeros(r)), "add up"),
        ],
    ),
    "ex-collapse-monitor": Case(
        solution=monitor,
        wrong=[
            (monitor_without_zeros, "has no logarithm"),
            (lambda c, m: (max(c), *monitor(c, m)[1:]), "busiest is wrong"),
            (lambda c, m: (monitor(c, m)[0], 0.0, monitor(c, m)[2]), "dropped is wrong"),
            (lambda c, m: (*monitor(c, m)[:2], 1.0), "entropy is wrong"),
        ],
    ),
    "ex-bound-of-an-all-to-all": Case(
        solution=(4096, 64 * 4096, 63 * 4096, 63 * 64),
        wrong=[
            ((64 * 4096, 64 * 4096, 63 * 4096, 63 * 64), "it has d tokens"),
            ((4096, 64 * 64 * 4096, 63 * 4096, 63 * 64), "moves once"),
            ((4096, 64 * 4096, 64 * 4096, 63 * 64), "there already"),
            ((4096, 64 * 4096, 63 * 4096, 4096), "at home"),
        ],
    ),
    "ex-at-most-m-nodes": Case(
        solution=limited,
        wrong=[
            (lambda s, k, nodes, most: np.argsort(-s)[:k], "too many nodes"),
            (lambda s, k, nodes, most: limited(s, k, nodes, most, width=1), "the larger sum"),
            (lambda s, k, nodes, most: limited(s, k, nodes, most)[::-1], "must stand first"),
            (lambda s, k, nodes, most: [0] * k, "different experts"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES
