"""Arithmetic as a page does it: it never raises, what has no value is nan, what is too large inf.

>>> quotient(1.0, 0.0), power(-8.0, 0.5), FUNCTIONS["log"](0.0)
(inf, nan, -inf)
"""

import math
from collections.abc import Callable


def quotient(a: float, b: float) -> float:
    """``a / b``, and what JavaScript says of a division by zero."""
    if b:
        return a / b
    if not a or math.isnan(a) or math.isnan(b):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


def power(a: float, b: float) -> float:
    """``a ** b``, and what JavaScript says where Python raises or has a complex number."""
    if abs(a) == 1 and not math.isfinite(b):
        return math.nan
    odd = math.isfinite(b) and b % 2 == 1
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and odd else math.inf
    except ValueError:  # a root of a negative number, or zero to a negative power
        return math.nan if a else math.copysign(math.inf, a) if odd else math.inf


def _exponential(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _logarithm(of: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: of(x) if x > 0 else math.nan if x else -math.inf


def _whole(rounded: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: float(rounded(x)) if math.isfinite(x) else x


def _largest(*given: float) -> float:
    return math.nan if any(map(math.isnan, given)) else max(given)


FUNCTIONS: dict[str, Callable[..., float]] = {
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "exp": _exponential,
    "log": _logarithm(math.log),
    "log2": _logarithm(math.log2),
    "ceil": _whole(math.ceil),
    "floor": _whole(math.floor),
    "abs": abs,
    "max": _largest,
    "min": lambda *given: -_largest(*(-x for x in given)),
}
SEVERAL = ("max", "min")
