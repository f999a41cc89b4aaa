"""Best models of given budgets: the foot of a parabola, the winners of a table of losses."""

import math
from collections.abc import Iterator
from typing import Any

from dtlib.exercises.judge import items, number, real
from dtlib.exercises.verdict import NotYet


def foot(params, losses, *, logs=True, bends=True, inside=True):
    """The size at the lowest point of the parabola of log L over log N; 0 where none is seen."""
    x = [math.log(N) if logs else N for N in params]
    y = [math.log(L) for L in losses]
    middle = sum(x) / len(x)
    z = [(one - middle) / (max(x) - min(x)) for one in x]
    bend, slope = _least_squares(z, y)
    if bends and bend <= 0:
        return 0
    at = -slope / (2 * bend)
    if inside and not min(z) < at < max(z):
        return 0
    there = middle + at * (max(x) - min(x))
    return math.exp(there) if logs else there


def _least_squares(z, y):
    """Bend and slope of the parabola through points whose z are centred."""
    n, s2, s3 = len(z), sum(one**2 for one in z), sum(one**3 for one in z)
    q = [one**2 - s3 / s2 * one - s2 / n for one in z]  # z^2 without what 1 and z explain
    bend = sum(a * b for a, b in zip(q, y, strict=True)) / sum(one**2 for one in q)
    slope = (sum(a * b for a, b in zip(z, y, strict=True)) - bend * s3) / s2
    return bend, slope


def foot_cases() -> Iterator[tuple[str, tuple]]:
    """Budgets that show a best model, and two that show none."""
    yield from {
        "three sizes": ([1e8, 2e8, 4e8], [2.02, 2.0, 2.02]),
        "five sizes, uneven": ([1e8, 1.5e8, 3e8, 5e8, 9e8], [3.1, 3.02, 2.97, 2.99, 3.08]),
        "scattered losses": ([2e6, 4e6, 9e6, 1.6e7], [4.21, 4.13, 4.16, 4.33]),
        "falling": ([1e8, 2e8, 4e8, 8e8], [3.4, 3.2, 3.06, 2.98]),
        "bent downwards": ([1e8, 2e8, 4e8], [3.0, 3.1, 3.05]),
    }.items()


def same_foot(given: Any, right: float, *args: Any) -> None:
    """The law of a foot: the same size, or 0 for both."""
    given = real(given, "the size")
    if (given == 0) != (right == 0):
        raise NotYet("it is there, and seen" if given == 0 else "0, for none is seen")
    if right:
        number(given, right, "the size", tolerance=1e-6)


def winners(sizes, table, *, ends=(True, True), lowest=True):
    """At each budget the size with the lowest loss; None where it is at an end."""
    best = []
    for column in zip(*table, strict=True):
        place = column.index(min(column) if lowest else max(column))
        out = (ends[0] and place == 0) or (ends[1] and place == len(sizes) - 1)
        best.append(None if out else sizes[place])
    return best


def winner_cases() -> Iterator[tuple[str, tuple]]:
    """Tables of losses, a row for each size."""
    sizes = [1, 2, 4, 8]
    yield from {
        "each wins once": (sizes, [[1, 5, 6, 7], [2, 4, 5, 6], [3, 5, 4, 5], [4, 6, 5, 4]]),
        "only inner ones": (sizes, [[5, 5], [4, 4.5], [4.5, 4], [6, 5]]),
        "only the smallest": (sizes, [[1, 1], [2, 2], [3, 3], [4, 4]]),
        "only the largest": (sizes, [[4, 4], [3, 3], [2, 2], [1, 1]]),
    }.items()


def same_winners(given: Any, right: list, *args: Any) -> None:
    """The law of a list of winners: the same at every budget."""
    for place, (one, due) in enumerate(
        zip(items(given, "the winners", len(right)), right, strict=True)
    ):
        if one != due:
            raise NotYet(f"budget {place}: not the size that the table shows to be best")
