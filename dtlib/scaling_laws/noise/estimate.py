"""How noisy a gradient is, from nothing but norms: the noise scale and its interval.

The noun is `NoiseScale`. A gradient of b samples is the true one, G, plus noise of covariance
Sigma / b, so its square has the mean |G|^2 + tr Sigma / b. Two sizes of batch give two equations
for two unknowns. Gradients of P ranks before and after an all-reduce are such a pair.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from dtlib.formulas.formula import formula
from dtlib.formulas.require import require
from dtlib.later import np
from dtlib.scaling_laws.compute_optimal.search import root_between

LEVEL = 0.95


@formula(
    r"Q_B",
    "",
    "McCandlish et al. 2018",
    "the samples of the batch are independent",
)
def batch_gradient_square(gradient_square, gradient_variance, batch):
    """The mean square of a batch's gradient: the true one's, and noise that the batch divides.

    The variance of a mean of independent terms is that of one term, over how many there are.

    >>> batch_gradient_square(gradient_square=2.0, gradient_variance=60.0, batch=10)
    8.0
    """
    return gradient_square + gradient_variance / batch


@formula(
    r"B_\text{simple}",
    "",
    "McCandlish et al. 2018",
    "samples are independent; every direction is as curved as any other",
)
def simple_noise_scale(gradient_square, gradient_variance):
    """The batch at which noise is as large as the gradient, in samples.

    >>> simple_noise_scale(gradient_square=2.0, gradient_variance=60.0)
    30.0
    """
    return gradient_variance / gradient_square


@dataclass(frozen=True)
class NoiseScale:
    """What norms say of a gradient: `signal`, |G|^2, and `noise`, tr Sigma of one sample.

    `value` is their ratio in samples, `low` and `high` its interval at 95 %; `high` is infinite
    where the norms cannot tell the gradient from zero. `signal` and `noise` are unbiased, their
    ratio is not. `measured` says from how many pairs of norms.
    """

    signal: float
    noise: float
    measured: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """tr Sigma / |G|^2; infinite where |G|^2 is estimated as 0 or less."""
        return self.noise / self.signal if self.signal > 0 else math.inf


def noise_scale(
    small_squares: Sequence[float], large_squares: Sequence[float], small: int, large: int
) -> NoiseScale:
    r"""The noise scale from squared norms of gradients at two sizes of batch.

    Equations: |G|^2 = (B Q_B - b Q_b) / (B - b), and tr Sigma = (Q_b - Q_B) / (1/b - 1/B), with Q
    the squares; both are linear in them, so their means over all pairs are unbiased.
    Arguments: squared norms, one pair for each measurement, in the same order: `small_squares` of
    gradients of `small` samples (or a mean over several such gradients), `large_squares` of
    gradients of `large`. The interval is Fieller's for a ratio of two means that are not
    independent of each other; one pair alone has none, and says from 0 to infinity.
    Raises ValueError for lists of unlike length, none at all, squares that are no numbers or
    negative, and for sizes that are not small < large.
    Source: McCandlish et al. 2018, appendix A.1; Fieller 1954.

    >>> scale = noise_scale([8.0, 8.2, 7.8], [2.5, 2.45, 2.55], small=10, large=120)
    >>> round(scale.signal, 6), round(scale.noise, 6), round(scale.value, 6)
    (2.0, 60.0, 30.0)
    """
    _check_sizes(small, large)
    squares_bt = _squares(small_squares, large_squares)
    signal_t = (large * squares_bt[1] - small * squares_bt[0]) / (large - small)
    noise_t = (squares_bt[0] - squares_bt[1]) / (1 / small - 1 / large)
    low, high = _ratio_interval(noise_t, signal_t)
    return NoiseScale(
        float(signal_t.mean()), float(noise_t.mean()), len(signal_t), max(low, 0.0), high
    )


def per_example_noise_scale(gradients_bn) -> NoiseScale:
    """The noise scale from the gradient of every sample: rows of one array.

    Equations: tr Sigma is the sum of the sample variances of all columns, and |G|^2 the square of
    the mean row less tr Sigma / B. It is `noise_scale` at sizes 1 and B, with the mean of the
    samples' squares. The interval leaves out each sample in turn (the jackknife) on the logarithm.
    Raises ValueError for fewer than three samples, and for entries that are no numbers.

    >>> scale = per_example_noise_scale([[3.0, 0.0], [1.0, 2.0], [2.0, 1.0]])
    >>> scale.noise, round(scale.signal, 6)
    (2.0, 4.333333)
    """
    rows = np.asarray(gradients_bn, dtype=float)
    owner = "per_example_noise_scale"
    enough = rows.ndim == 2 and len(rows) >= 3
    require(enough, owner, "shape of gradients", rows.shape, "(samples, parameters), 3 at least")
    allowed = "numbers in every row; a loss that is NaN makes such a gradient"
    require(bool(np.isfinite(rows).all()), owner, "gradients", "NaN or infinite", allowed)
    count, total, squares = len(rows), rows.sum(axis=0), (rows**2).sum(axis=1)
    whole = _moments(count, squares.sum(), total @ total)
    left = total @ total - 2 * rows @ total + squares
    signal_i, noise_i = _moments(count - 1, squares.sum() - squares, left)
    low, high = _jackknifed(*whole, signal_i, noise_i)
    return NoiseScale(float(whole[0]), float(whole[1]), count, low, high)


def _moments(count, squares, total_square):
    """(|G|^2, tr Sigma) from how many samples, the sum of their squares, and their sum's square."""
    noise = (squares - total_square / count) / (count - 1)
    return total_square / count**2 - noise / count, noise


def _jackknifed(signal, noise, signal_i, noise_i) -> tuple[float, float]:
    if signal <= 0 or (signal_i <= 0).any():
        return 0.0, math.inf
    logs, count = np.log(noise_i / signal_i), len(signal_i)
    error = math.sqrt((count - 1) / count * ((logs - logs.mean()) ** 2).sum())
    factor = math.exp(student_quantile(count - 1) * error)
    return float(noise / signal / factor), float(noise / signal * factor)


def _check_sizes(small: int, large: int) -> None:
    whole = isinstance(small, int) and isinstance(large, int) and small >= 1
    allowed = "whole numbers of samples with 1 <= small < large; one size alone has one equation"
    require(whole and small < large, "noise_scale", "(small, large)", (small, large), allowed)


def _squares(small_squares, large_squares):
    owner = "noise_scale"
    counts = len(small_squares), len(large_squares)
    allowed = "as many squares of one size as of the other, one at least"
    require(counts[0] == counts[1] > 0, owner, "squares of (small, large)", counts, allowed)
    squares_bt = np.array([small_squares, large_squares], dtype=float)
    for name, row in zip(("small_squares", "large_squares"), squares_bt, strict=True):
        bad = np.flatnonzero(~(np.isfinite(row) & (row >= 0)))
        for place in bad[:1]:
            allowed = "a finite number of at least 0"
            require(False, owner, f"{name}[{place}]", float(row[place]), allowed)
    return squares_bt


def _ratio_interval(top, bottom) -> tuple[float, float]:
    """Fieller's interval of mean(top) / mean(bottom) for pairs: all r that the pairs allow.

    A ratio r is allowed where the mean of top - r bottom is not further from 0 than t standard
    errors, a quadratic inequality in r. Where `bottom` may be 0, no r is too large.
    """
    count = len(top)
    if count < 2:
        return 0.0, math.inf
    t2 = student_quantile(count - 1) ** 2
    (var_top, cov), (_, var_bottom) = np.cov(np.stack([top, bottom])) / count
    a = bottom.mean() ** 2 - t2 * var_bottom
    b = top.mean() * bottom.mean() - t2 * cov
    c = top.mean() ** 2 - t2 * var_top
    root = math.sqrt(max(b * b - a * c, 0.0))
    if a <= 0:
        return (float((b - root) / a) if a < 0 < c else 0.0), math.inf
    return float((b - root) / a), float((b + root) / a)


def student_quantile(freedom: int, level: float = LEVEL) -> float:
    """The two-sided quantile of Student's t: beyond it, on both sides together, lies 1 - level.

    The chance is a finite sum for a whole number of degrees of freedom; halving inverts it.
    Source: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4.

    >>> [round(student_quantile(freedom), 3) for freedom in (1, 2, 10, 100)]
    [12.706, 4.303, 2.228, 1.984]
    """
    if freedom > 10_000:
        return NormalDist().inv_cdf(0.5 + level / 2)
    return root_between(lambda t: _within(t, freedom) - level, 0.0, 1e3)


def _within(t: float, freedom: int) -> float:
    """The chance that |t| is not exceeded."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    if freedom == 1:
        total = 0.0
    return (2 / math.pi) * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
