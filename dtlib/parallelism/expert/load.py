"""Loads of experts: how uneven they are, what a capacity drops and wastes, what a bias mends.

A made-up router, in numpy: the logit of expert i for a token is `skew` times the expert's
popularity plus noise of the token's own, of spread 1. Popularities are the quantiles of a normal
law, so they are the same on every run; the noise has a seed.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil, comb
from statistics import NormalDist

import numpy as np

from dtlib.formulas.require import require, require_count


@dataclass(frozen=True)
class Filled:
    """What a `capacity`, in places, does to loads.

    `dropped` is a share of the copies, `wasted` one of the places, `busiest` a load over the mean.
    """

    capacity: int
    dropped: float
    wasted: float
    busiest: float


def popularity(experts: int) -> np.ndarray:
    """How much the tokens like each expert, the favourite first; mean 0, spread about 1.

    >>> popularity(2).round(2).tolist()
    [0.67, -0.67]
    """
    law = NormalDist()
    return np.array([law.inv_cdf(1 - (i + 0.5) / experts) for i in range(experts)])


def token_logits(tokens: int, experts: int, skew: float, rng) -> np.ndarray:
    """One logit for each token and expert."""
    return skew * popularity(experts) + rng.normal(size=(tokens, experts))


def expert_loads(tokens: int, experts: int, k: int, skew: float = 0, seed: int = 0) -> np.ndarray:
    """The copies that each expert gets when every token goes to its k best.

    Arguments: counts `tokens`, `experts` and `k`; `skew` of the popularities; `seed` of the noise.
    Returns one count for each expert; they add up to tokens x k. Raises ValueError for k > experts.

    >>> int(expert_loads(tokens=100, experts=4, k=2, skew=1).sum())
    200
    """
    require_count("expert_loads", tokens=tokens, experts=experts, k=k)
    require(k <= experts, "expert_loads", "k", k, f"at most the number of experts, {experts}")
    return _counts(token_logits(tokens, experts, skew, np.random.default_rng(seed)), k)


def fill_experts(load, capacity_factor: float) -> Filled:
    """Put these loads into equally many places at every expert: c times the mean, rounded up.

    Raises ValueError for a capacity factor that is not positive.

    >>> fill_experts([6, 2], capacity_factor=1.25)
    Filled(capacity=5, dropped=0.125, wasted=0.3, busiest=1.5)
    """
    require(capacity_factor > 0, "fill_experts", "capacity_factor", capacity_factor, "positive")
    load = np.asarray(load)
    capacity = ceil(capacity_factor * load.sum() / len(load))
    kept = np.minimum(load, capacity).sum()
    return Filled(
        capacity,
        _share(load.sum() - kept, load.sum()),
        _share(capacity * len(load) - kept, capacity * len(load)),
        float(load.max() / load.mean()),
    )


def even_router_overflow(tokens: int, experts: int, k: int, capacity: int) -> tuple[float, float]:
    """For a router that chooses at random: (chance that an expert overflows, share of drops).

    Equation: an expert's load X is binomial, of `tokens` trials with chance k/E each; the two are
    P(X > C) and E[max(X - C, 0)] / E[X]. Arguments: counts. Returns two shares.
    Raises ValueError for counts that are not positive.

    >>> [round(x, 3) for x in even_router_overflow(tokens=64, experts=8, k=2, capacity=20)]
    [0.099, 0.014]
    """
    require_count("even_router_overflow", tokens=tokens, experts=experts, k=k, capacity=capacity)
    p = k / experts
    chance = [comb(tokens, x) * p**x * (1 - p) ** (tokens - x) for x in range(tokens + 1)]
    beyond = range(capacity + 1, tokens + 1)
    over = sum((x - capacity) * chance[x] for x in beyond)
    return sum(chance[x] for x in beyond), over / (tokens * p)


def expected_nodes(experts: int, k: int, nodes: int) -> float:
    """Nodes that a token's k experts lie on, on average, if any k are equally likely.

    Equation: a node is spared when all k are among the others' experts. Arguments: counts; `nodes`
    divides `experts`. Returns a mean. Raises ValueError for k > experts.

    >>> round(expected_nodes(experts=256, k=8, nodes=8), 2)
    5.29
    """
    require_count("expected_nodes", experts=experts, k=k, nodes=nodes)
    require(k <= experts, "expected_nodes", "k", k, f"at most the number of experts, {experts}")
    return nodes * (1 - comb(experts - experts // nodes, k) / comb(experts, k))


@cache
def loads_under_bias(gamma: float, *, steps: int = 301, tokens: int = 4096, experts: int = 16,
                     k: int = 2, skew: float = 1, seed: int = 0) -> np.ndarray:  # fmt: skip
    """The load of every expert, step by step, while biases follow the sign of the error.

    Every step draws new tokens; scores are sigmoids of the logits, the bias is added to choose, and
    then moved by `gamma`, up where the load was below the mean. Returns steps x experts counts;
    the first are without a bias. Computed once, and read-only. Source: Wang et al. 2024.

    >>> loads_under_bias(gamma=1e-2, steps=3).sum(axis=1).tolist()
    [8192, 8192, 8192]
    """
    rng, bias = np.random.default_rng(seed), np.zeros(experts)
    seen = []
    for _ in range(steps):
        score = 1 / (1 + np.exp(-token_logits(tokens, experts, skew, rng)))
        load = _counts(score + bias, k)
        seen.append(load)
        bias += gamma * np.sign(load.mean() - load)
    found = np.array(seen)
    found.flags.writeable = False
    return found


def balanced_by_bias(gamma: float, **options) -> np.ndarray:
    """The busiest load over the mean for each step of `loads_under_bias`.

    >>> run = balanced_by_bias(gamma=1e-2, steps=60)
    >>> bool(run[0] > 4), bool(run[-1] < 1.3)
    (True, True)
    """
    seen = loads_under_bias(gamma, **options)
    return seen.max(axis=1) / seen.mean(axis=1)


def _counts(score: np.ndarray, k: int) -> np.ndarray:
    experts = score.shape[1]
    best = np.argpartition(-score, k - 1, axis=1)[:, :k]
    return np.bincount(best.ravel(), minlength=experts)


def _share(part, whole) -> float:
    return round(float(part / whole), 12)
