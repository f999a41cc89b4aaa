"""Where a function of one number is zero or least: halving and the golden section."""

import math
from collections.abc import Callable

GOLDEN = (math.sqrt(5) - 1) / 2


def root_between(function: Callable[[float], float], low: float, high: float) -> float:
    """The place between two where a function changes its sign, by halving.

    Raises ValueError where it has the same sign at both ends.

    >>> round(root_between(lambda x: x**2 - 2, 0, 2), 9)
    1.414213562
    """
    below, above = function(low), function(high)
    if below * above > 0:
        raise ValueError(
            f"root_between: the function is {below:.3g} at {low:.3g} and {above:.3g} at "
            f"{high:.3g}, but must have two signs"
        )
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        same = function(middle) * below > 0
        low, high = (middle, high) if same else (low, middle)
    return (low + high) / 2


def least_between(
    function: Callable[[float], float], low: float, high: float, steps: int = 100
) -> float:
    """The place between two where a function with one valley is least, by the golden section.

    Each of the steps asks the function twice and leaves 0.618 of the bracket.

    >>> round(least_between(lambda x: (x - 0.3) ** 2, 0, 1), 6)
    0.3
    """
    for _ in range(steps):
        step = GOLDEN * (high - low)
        left, right = high - step, low + step
        if function(left) < function(right):
            high = right
        else:
            low = left
    return (low + high) / 2
