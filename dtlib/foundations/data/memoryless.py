"""Exact busy shares of a prefetcher whose fetches have no memory, without simulating any.

An exponentially distributed fetch is as likely to end in the next second whether it has just begun
or has been under way for long. So the state of the loader at the moment when the GPU takes a batch
says all about its future: a Markov chain, whose long-run shares are the solution of linear
equations. The standard deviation of these fetches is their mean: a spread of 1.
"""

from itertools import product
from math import exp, factorial

import numpy as np


def memoryless_busy_fraction(workers: int, depth: int, fetch: float, step: float) -> float:
    """The share of time for which the GPU is busy when it takes batches as they become ready.

    Equation: between two takes u unfinished fetches end at the rate min(u, workers)/fetch; the GPU
    waits only if after a step all `depth` are unfinished, and then for fetch/min(depth, workers).
    Arguments: `workers` and `depth`, counts; `fetch`, the mean, and `step`, seconds.
    Returns a share. Raises ValueError for no worker or no depth. Source: the embedded Markov chain.

    >>> round(memoryless_busy_fraction(workers=1, depth=1, fetch=2.0, step=0.5), 6)
    0.243001
    """
    _check(workers, depth)
    after = _deaths([min(u, workers) / fetch for u in range(depth + 1)], step)
    chain = np.zeros((depth + 1, depth + 1))
    for u in range(1, depth + 1):
        chain[u, 1:] = after[u, :depth]
        chain[u, depth] += after[u, depth]
    waits = _stationary(chain[1:, 1:]) @ after[1:, depth]
    return float(step / (step + waits * fetch / min(depth, workers)))


def memoryless_in_order_busy_fraction(depth: int, fetch: float, step: float) -> float:
    """The same when the GPU takes batches in order, with one worker for each of `depth` batches.

    Equation: the state is which of the outstanding batches are ready. In a step each other one
    becomes ready with probability 1 - exp(-step/fetch). If the next one is not ready, the GPU
    waits for `fetch` on average, in which j given others end and k do not with probability
    j! k!/(j + k + 1)!.
    Arguments: `depth`, a count of at most 10; `fetch`, the mean, and `step`, seconds.
    Returns a share. Raises ValueError for another depth. Source: the embedded Markov chain.

    >>> round(memoryless_in_order_busy_fraction(depth=1, fetch=2.0, step=0.5), 6)
    0.243001
    >>> round(memoryless_in_order_busy_fraction(depth=4, fetch=2.0, step=0.5), 3)
    0.508
    """
    _check(depth, depth)
    if depth > 10:
        raise ValueError(f"depth: {depth}, but must be at most 10: there are 2**depth states")
    states = list(product((0, 1), repeat=depth))
    place = {state: i for i, state in enumerate(states)}
    finish = 1 - exp(-step / fetch)
    size = len(states)
    step_chain, take_chain = np.zeros((size, size)), np.zeros((size, size))
    for i, before in enumerate(states):
        for j, after in enumerate(states):
            step_chain[i, j] = _probability(
                before, after, lambda n, k: finish**n * (1 - finish) ** k
            )
        if before[0]:
            take_chain[i, place[*before[1:], 0]] = 1
            continue
        for rest in product((0, 1), repeat=depth - 1):
            chance = _probability(before[1:], rest, _race)
            take_chain[i, place[*rest, 0]] += chance
    share = _stationary(step_chain @ take_chain) @ step_chain
    waits = sum(p for p, state in zip(share, states, strict=True) if not state[0])
    return float(step / (step + waits * fetch))


def _race(j: int, k: int) -> float:
    """The chance that j given fetches end before another one does, and k given ones do not."""
    return factorial(j) * factorial(k) / factorial(j + k + 1)


def _probability(before: tuple, after: tuple, chance) -> float:
    """`chance(ended, not ended)` for the unfinished, and 0 where a finished one is unfinished."""
    if any(a > b for a, b in zip(before, after, strict=True)):
        return 0.0
    ended = sum(after) - sum(before)
    return chance(ended, len(after) - sum(before) - ended)


def _deaths(rates: list[float], time: float) -> np.ndarray:
    """Row u: how many of u are left after `time`, when the next one of v goes at `rates[v]`.

    By uniformisation, a sum of positive terms: a Poisson number of moments, at each of which one
    goes or nothing happens.
    """
    fastest, size = max(rates), len(rates)
    jump = np.zeros((size, size))
    for u, rate in enumerate(rates):
        jump[u, u] = 1 - rate / fastest
        if u:
            jump[u, u - 1] = rate / fastest
    weight, power, total = exp(-fastest * time), np.eye(size), np.zeros((size, size))
    for k in range(1, int(fastest * time + 40 * (1 + fastest * time) ** 0.5)):
        total += weight * power
        weight, power = weight * fastest * time / k, power @ jump
    return total


def _stationary(chain: np.ndarray) -> np.ndarray:
    """The shares that a step of the chain leaves as they are."""
    size = len(chain)
    equations = np.vstack([chain.T - np.eye(size), np.ones(size)])
    return np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]


def _check(workers: int, depth: int) -> None:
    for name, count in (("workers", workers), ("depth", depth)):
        if count < 1:
            raise ValueError(f"{name}: {count}, but must be at least 1")
