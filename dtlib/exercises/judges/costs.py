"""Judges of costs: a measured link, a cost that rises without a jump, a checkpoint's interval."""

import math
from collections.abc import Callable
from typing import Any

from dtlib import foundations
from dtlib.exercises.judge import call, real
from dtlib.exercises.verdict import NotYet
from dtlib.later import np


def same_link(given: tuple, right: tuple, tolerance: float, where: str) -> None:
    """Raise `NotYet` unless ``given`` is (alpha, beta) of a link, within ``tolerance``.

    >>> same_link((4e-6, 1e9), (2e-6, 2e9), 0.1, "on a quiet link")
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: on a quiet link: both numbers are off by two: a round trip ...
    """
    alpha = real(given[0], f"{where}: alpha", "s") / right[0]
    beta = real(given[1], f"{where}: beta", "bytes/s") / right[1]
    off = {name: by for name, by in (("alpha", alpha), ("beta", beta)) if abs(by - 1) > tolerance}
    if not off:
        return
    if math.isclose(alpha, 2, rel_tol=0.1) and math.isclose(beta, 0.5, rel_tol=0.1):
        raise NotYet(f"{where}: both numbers are off by two: a round trip is two messages")
    if math.isclose(alpha, 14, rel_tol=0.1):
        raise NotYet(f"{where}: alpha is that of a whole all-reduce, not of one message")
    sides = [f"{name} is too {'large' if by > 1 else 'small'}" for name, by in off.items()]
    raise NotYet(f"{where} {' and '.join(sides)}: {_cause(where, 'alpha' in off)}")


def _cause(where: str, alpha_is_off: bool) -> str:
    if "first call" in where:
        return "the first call of a size is no sample of the link"
    if "jitter" in where:
        return "one call is not enough, and a mean carries every late call"
    if alpha_is_off:
        return "do the largest messages alone decide the fit?"
    return "is the longest message well past the knee?"


def rises_without_a_jump(cost: Callable, n: float) -> None:
    """Raise `NotYet` unless the reader's ``cost`` is positive and rises, up to four times ``n``."""
    grid = np.geomspace(n / 100, 4 * n, 2001)
    values = [_cost(cost, x) for x in grid]
    if min(values) <= 0:
        raise NotYet("a message that costs nothing, or less: the cost must be positive")
    steps = np.diff(values)
    if (steps <= 0).any():
        raise NotYet(f"not increasing: near n = {grid[steps.argmin()]:.4g} it stays or falls")
    for i in np.argsort(steps)[-5:]:
        if _jumps(cost, grid[i], grid[i + 1]):
            raise NotYet(f"not continuous: the cost jumps near n = {grid[i]:.4g}")


def _cost(cost: Callable, n: Any) -> float:
    return real(call(cost, float(n)), f"cost({n:.4g})")


def _jumps(cost: Callable, low: float, high: float) -> bool:
    """Halve the interval towards its steeper half; a jump keeps its height, a slope does not."""
    height = _cost(cost, high) - _cost(cost, low)
    for _ in range(40):
        middle = (low + high) / 2
        if _cost(cost, middle) - _cost(cost, low) > _cost(cost, high) - _cost(cost, middle):
            high = middle
        else:
            low = middle
    return _cost(cost, high) - _cost(cost, low) > 0.01 * height


def nearly_best_interval(given: Any, write: float, mtbf: float) -> None:
    """Raise `NotYet` unless saving every ``given`` seconds costs at most 2 % more than it must.

    >>> nearly_best_interval(2400, 1200, 1200)
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: with 1200 s to write and a failure every 20 min or so your ...
    """
    where = f"with {write} s to write and a failure every {mtbf / 60:.0f} min or so"
    interval = real(given, "the returned interval", "s")
    if interval <= 0:
        raise NotYet(f"{where}: an interval is positive")
    if (interval + write) / mtbf > 500:
        raise NotYet(f"{where}: no segment of your length would ever be finished")
    best = foundations.optimal_interval(write, mtbf)
    overhead, least = (
        foundations.failure_multiplier(x, write, 0, mtbf) - 1 for x in (interval, best)
    )
    if overhead > 1.02 * least:
        side = "long" if interval > best else "short"
        raise NotYet(f"{where} your interval is too {side}{_why(interval, write, mtbf)}")


def _why(interval: float, write: float, mtbf: float) -> str:
    if math.isclose(interval, math.sqrt(2 * write * mtbf), rel_tol=0.15):
        return ": is the writing still short against the time between failures?"
    if math.isclose(interval, foundations.optimal_interval(write, mtbf / 3), rel_tol=0.15):
        return ": before a planned stop the job saves, and loses nothing"
    return ""
