"""What a sum of gradients loses to rounding: formats, orders, and how hard the numbers are.

A format is known here by its bits alone; overflow and underflow are left out. The order in which
P ranks are added is that of an algorithm: "flat" (rank 0, 1, 2, ...), "ring" (the same, from
another rank on, which depends on the chunk), "tree" (neighbours, then pairs of neighbours, ...).
"""

import math
from collections.abc import Sequence

BITS = {"fp32": 24, "fp16": 11, "bf16": 8}
ORDERS = ("flat", "ring", "tree")
_MULTIPLIER, _MODULUS = 48_271, 2**31 - 1


def unit_roundoff(kind: str) -> float:
    """The largest relative error of rounding a number to this format.

    >>> unit_roundoff("bf16") == 1 / 256
    True
    """
    return 2.0 ** -BITS[kind]


def rounded(x: float, kind: str) -> float:
    """The number of this format that is nearest to `x`; of two, the even one.

    >>> rounded(1 + 1 / 256, "bf16"), rounded(1 + 3 / 256, "bf16")
    (1.0, 1.015625)
    """
    fraction, exponent = math.frexp(x)
    scale = 2.0 ** BITS[kind]
    return math.ldexp(round(fraction * scale) / scale, exponent)


def summed(values: Sequence[float], order: str, kind: str, chunk: int = 0) -> float:
    """The sum of one number from each rank, rounded after every addition.

    Arguments: `values`, one for each rank; `order`, of "flat", "ring", "tree"; `kind`, of "fp32",
    "fp16", "bf16"; `chunk`, whose number it is: a ring begins to add chunk c at rank c + 1.
    Returns the computed sum. Raises ValueError for another order.

    >>> triple = [1e30, -1e30, 1.0]
    >>> [summed(triple, "ring", "fp32", chunk) for chunk in (0, 1, 2)]
    [0.0, 0.0, 1.0]
    """
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}; got {order!r}")
    terms = [rounded(v, kind) for v in values]
    if order == "ring":
        first = (chunk + 1) % len(terms)
        terms = terms[first:] + terms[:first]
    if order == "tree":
        while len(terms) > 1:
            pairs = [rounded(a + b, kind) for a, b in zip(terms[::2], terms[1::2], strict=False)]
            terms = pairs + terms[len(terms) - len(terms) % 2 :]
        return terms[0]
    total = terms[0]
    for term in terms[1:]:
        total = rounded(total + term, kind)
    return total


def condition_number(values: Sequence[float]) -> float:
    """By how much more than a sum of equal signs this one magnifies a relative error.

    Equation: sum |g_i| / |sum g_i|.

    >>> condition_number([3, -2])
    5.0
    """
    return math.fsum(map(abs, values)) / abs(math.fsum(values))


def hard_numbers(P: int, condition: float, seed: int) -> list[float]:
    """`P` numbers of mixed signs whose sum has about this condition number, the same every time.

    Arguments: `P` numbers, at least 2; `condition`, at least 1; `seed`, a whole number.

    >>> round(condition_number(hard_numbers(8, 1e6, seed=1)) / 1e6, 2)
    1.0
    """
    state, draws = seed + 1, []
    for _ in range(P + 9):
        state = state * _MULTIPLIER % _MODULUS
        draws.append(state / _MODULUS)
    draws = draws[9:]
    mean = math.fsum(draws) / P
    centred = [x - mean for x in draws]
    lift = math.fsum(map(abs, centred)) / P / condition
    values = [x + lift for x in centred]
    return [abs(x) for x in values] if condition == 1 else values
