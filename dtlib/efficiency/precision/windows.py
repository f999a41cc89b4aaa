"""Which share of the gradients falls out of a format's window, for a normal distribution."""

import math

from dtlib.efficiency.precision.formats import FloatFormat
from dtlib.formulas.require import require_positive


def share_above(kind: FloatFormat, sigma: float, scale: float = 1.0) -> float:
    r"""The share of numbers that overflow, times `scale`: of mean 0 and deviation `sigma`.

    Equation: \(\mathrm{erfc}\left(x / (s\,\sigma\sqrt2)\right)\), where x lies half a step above
    the largest number: from there on one rounds to infinity.

    >>> from dtlib.efficiency.precision.formats import FP16
    >>> [round(share_above(FP16, 1e-4, 2.0**k), 4) for k in (24, 28)]
    [0.0, 0.0147]
    """
    half = kind.roundoff * 2.0**kind.most_exponent
    return math.erfc((kind.largest + half) / _spread(sigma, scale))


def share_below(kind: FloatFormat, sigma: float, scale: float = 1.0) -> float:
    r"""The share that rounds to zero: no more than half of the smallest number.

    >>> from dtlib.efficiency.precision.formats import FP16
    >>> round(share_below(FP16, 1e-7), 3)
    0.234
    """
    return math.erf(kind.least / 2 / _spread(sigma, scale))


def share_subnormal(kind: FloatFormat, sigma: float, scale: float = 1.0) -> float:
    """The share that keeps only a part of its digits: below the smallest normal number, not zero.

    >>> from dtlib.efficiency.precision.formats import FP16
    >>> round(share_subnormal(FP16, 1e-4), 3)
    0.458
    """
    spread = _spread(sigma, scale)
    return math.erf(kind.least_normal / spread) - math.erf(kind.least / 2 / spread)


def _spread(sigma: float, scale: float) -> float:
    require_positive("window", sigma=sigma, scale=scale)
    return sigma * scale * math.sqrt(2)
