"""Long sums in few bits: one after the other, with what was lost carried along, in pairs, in parts.

All add along the first dimension and round after each addition. Sums of two numbers are formed in
float64, which rounds nothing that a format of 25 significant bits or fewer would notice.
"""

from dtlib.efficiency.precision.formats import FP32, FloatFormat
from dtlib.efficiency.precision.rounding import cast
from dtlib.formulas.require import require, require_count
from dtlib.later import np

ACCUMULATOR = FloatFormat("14 bits", 8, 13)  # what Hopper's fp8 products are added up in


def running_sum(values, kind: FloatFormat, rounding: str = "nearest", generator=None):
    """One after the other, each partial sum rounded to `kind`.

    Argument: `values`, an array whose first dimension is added up. Returns float64.
    Raises ValueError for no values.

    >>> from dtlib.efficiency.precision.formats import BF16
    >>> float(running_sum(np.ones(1000), BF16))
    256.0
    """
    values = _terms(values)
    total = cast(values[0], kind, rounding, generator=generator)
    for term in values[1:]:
        total = cast(total + term, kind, rounding, generator=generator)
    return total


def kahan_sum(values, kind: FloatFormat):
    """The same, but what an addition has lost is added with the next term.

    Equation: y = x - c, t = s + y, c = (t - s) - y, s = t; every result rounded.
    Source: Kahan 1965.

    >>> from dtlib.efficiency.precision.formats import BF16
    >>> float(kahan_sum(np.ones(1000), BF16))
    1000.0
    """
    total = np.zeros_like(_terms(values)[0])
    lost = total
    for term in _terms(values):
        due = cast(term - lost, kind)
        new = cast(total + due, kind)
        lost = cast(cast(new - total, kind) - due, kind)
        total = new
    return total


def pairwise_sum(values, kind: FloatFormat):
    """Neighbours, then pairs of neighbours, and so on: a tree, log2(n) roundings deep.

    >>> from dtlib.efficiency.precision.formats import BF16
    >>> float(pairwise_sum(np.ones(1000), BF16))
    1000.0
    """
    values = cast(_terms(values), kind)
    while len(values) > 1:
        odd = values[len(values) - len(values) % 2 :]
        pairs = cast(values[0 : len(values) - len(odd) : 2] + values[1::2], kind)
        values = np.concatenate([pairs, odd])
    return values[0]


def promoted_sum(values, every: int, kind: FloatFormat = ACCUMULATOR, rounding: str = "zero"):
    """Partial sums of `every` terms in `kind`, which are added up in float32.

    A model of Hopper's fp8 products: about 14 bits in the tensor core, with lower ones cut off,
    and every 128 terms the result goes to registers of 32 bits. The hardware aligns several
    products at a time, which this leaves out.
    Source: DeepSeek-AI 2024, section 3.3.2.

    >>> float(promoted_sum(np.ones(100_000), 128)), float(running_sum(np.ones(20_000), ACCUMULATOR))
    (100000.0, 16384.0)
    """
    require_count("promoted_sum", every=every)
    values = _terms(values)
    full = len(values) // every * every
    cut = values[:full].reshape(full // every, every, *values.shape[1:])
    parts = list(running_sum(cut.swapaxes(0, 1), kind, rounding)) if full else []
    if full < len(values):
        parts.append(running_sum(values[full:], kind, rounding))
    return running_sum(parts, FP32)


def _terms(values):
    values = np.asarray(values, dtype=np.float64)
    require(values.ndim > 0 and len(values) > 0, "sum", "values", values, "at least one number")
    return values
