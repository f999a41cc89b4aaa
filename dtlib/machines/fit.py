"""Fit alpha and beta to measured times.

Times of a sweep over message sizes span many orders of magnitude. Ordinary least squares adds up
squared seconds, so the largest messages decide everything and alpha is lost. Here the *relative*
errors are squared: one microsecond of ten counts as much as one second of ten.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dtlib.formulas import units
from dtlib.formulas.units import format_quantity
from dtlib.machines.alpha_beta import message_time
from dtlib.recordings import Recording

METHODS = ("relative", "ordinary")
BYTES = {"B": 1, **{unit: getattr(units, unit) for unit in ("KB", "MB", "GB", "KiB", "MiB", "GiB")}}


class Interval(NamedTuple):
    """Bootstrap limits, (low, high), of alpha and of beta."""

    alpha: tuple[float, float]
    beta: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Fit:
    """The alpha and beta that fit measured times, with what is left unexplained."""

    alpha: float
    beta: float
    sizes: np.ndarray
    times: np.ndarray
    method: str
    level: float
    draws: int
    seed: int

    def time(self, n):
        """Seconds that the fitted line predicts for `n` bytes."""
        return message_time(n, self.alpha, self.beta)

    @cached_property
    def residuals(self) -> np.ndarray:
        """Relative errors, predicted / measured - 1, one for each sample."""
        return self.time(self.sizes) / self.times - 1

    @property
    def median_error(self) -> float:
        """The median of the relative errors' sizes."""
        return float(np.median(np.abs(self.residuals)))

    @property
    def max_error(self) -> float:
        """The largest relative error."""
        return float(np.max(np.abs(self.residuals)))

    @cached_property
    def interval(self) -> Interval:
        """Where alpha and beta lie in the middle `level` of fits to resampled samples.

        The samples are drawn again with replacement, `draws` times, from generator `seed`. Draws
        of a single size fix no line and are left out. As many samples as there are unknowns, two,
        leave nothing to resample, and the interval is a point.
        """
        rng = np.random.default_rng(self.seed)
        chosen = rng.integers(len(self.sizes), size=(self.draws, len(self.sizes)))
        sizes, times = self.sizes[chosen], self.times[chosen]
        usable = sizes.min(axis=1) < sizes.max(axis=1)
        alpha, beta = _least_squares(sizes[usable], times[usable], self.method)
        tail = (1 - self.level) / 2

        def limits(values) -> tuple[float, float]:
            low, high = np.quantile(values, [tail, 1 - tail], method="inverted_cdf")
            return float(low), float(high)

        return Interval(limits(alpha), limits(beta))

    def __repr__(self) -> str:
        (alpha_low, alpha_high), (beta_low, beta_high) = self.interval
        return (
            f"Fit of {len(self.sizes)} samples ({self.method} errors, {self.level:.0%} intervals)\n"
            f"  alpha = {_seconds(self.alpha)}, {_seconds(alpha_low)} to {_seconds(alpha_high)}\n"
            f"  beta  = {_rate(self.beta)}, {_rate(beta_low)} to {_rate(beta_high)}\n"
            f"  error: median {format_quantity(self.median_error, '%')}, "
            f"largest {format_quantity(self.max_error, '%')}"
        )


def fit_alpha_beta(
    samples: Iterable[tuple[float, float]],
    *,
    method: str = "relative",
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Fit:
    """The alpha >= 0 and beta > 0 whose line comes closest to measured times.

    Equation: minimise the sum over samples of ((alpha + n/beta) / t - 1) squared; with
    ``method="ordinary"`` the sum of (alpha + n/beta - t) squared, to see what that does to alpha.
    Arguments: `samples`, pairs (bytes, seconds) of one-way messages, sizes may repeat; `level`,
    `draws` and `seed` of the bootstrap `interval`.
    Returns a `Fit`. Raises ValueError for fewer than two sizes, for times that are not positive,
    and when larger messages do not take longer, so that no beta fits.
    Source: weighted least squares; the bootstrap is Efron 1979.

    >>> fit = fit_alpha_beta([(n, 5e-6 + n / 10e9) for n in (1, 1_000, 100_000, 10_000_000)])
    >>> f"{fit.alpha:.3g} s, {fit.beta:.3g} B/s"
    '5e-06 s, 1e+10 B/s'
    """
    sizes, times = _checked(samples)
    if method not in METHODS:
        raise ValueError(f"method is {method!r}, but must be one of {', '.join(METHODS)}")
    if not 0 < level < 1:
        raise ValueError(f"level is {level!r}, but must lie between 0 and 1")
    alpha, beta = _least_squares(sizes, times, method)
    if not np.isfinite(beta):
        raise ValueError(
            "samples: larger messages do not take longer, so no bandwidth fits; "
            "add larger sizes or repeat the measurement"
        )
    return Fit(float(alpha), float(beta), sizes, times, method, level, draws, seed)


def ping_pong_fit(recording: Recording, **options) -> Fit:
    """The alpha and beta of a recorded ping-pong: those of its undisturbed messages.

    A disturbance only ever delays a message, so the sample of each size is the 10th percentile of
    its repetitions. Every fit of a recording in this book uses this statistic.
    Arguments: `recording`, whose labels are sizes, "ping-pong 64 KB" or "64 KB" or "64000"; where
    some labels begin with "ping-pong", the others belong to other measurements and are left out.
    `options` are those of `fit_alpha_beta`.
    Returns a `Fit`. Raises ValueError for a label that is no size.
    Source: chapter 4.

    >>> from dtlib import recordings
    >>> fit = ping_pong_fit(recordings.load("ping-pong-2-ranks"))
    >>> len(fit.sizes)
    24
    """
    labels = [str(label) for label in recording.spread]
    pings = [label for label in labels if label.startswith("ping-pong ")] or labels
    samples = [(_label_bytes(label), recording.interval(label)[0]) for label in pings]
    return fit_alpha_beta(samples, **options)


def _label_bytes(label: str) -> float:
    number, _, unit = label.removeprefix("ping-pong ").partition(" ")
    try:
        return float(number) * BYTES[unit or "B"]
    except (KeyError, ValueError):
        raise ValueError(
            f"label {label!r} is no message size; a size is a number of {', '.join(BYTES)}"
        ) from None


def _checked(samples: Iterable[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.array([(float(size), float(time)) for size, time in samples]).reshape(-1, 2)
    sizes, times = pairs.T
    if len(np.unique(sizes)) < 2:
        raise ValueError(
            f"samples: {len(np.unique(sizes))} different message size(s), but a line needs two"
        )
    for name, values, good in (
        ("bytes", sizes, np.isfinite(sizes) & (sizes >= 0)),
        ("seconds", times, np.isfinite(times) & (times > 0)),
    ):
        if not good.all():
            place = int(np.argmin(good))
            allowed = "positive" if name == "seconds" else "at least 0"
            raise ValueError(
                f"samples: sample {place} has {name} = {values[place]}, but must be {allowed}"
            )
    return sizes, times


def _least_squares(sizes, times, method: str):
    """Alpha and beta along the last axis: the weighted line, or the one through 0 when alpha < 0.

    A line that does not rise has beta infinite.
    """
    weights = times**-2.0 if method == "relative" else np.ones_like(times)
    weights = weights / weights.sum(axis=-1, keepdims=True)

    def mean(x):
        return (weights * x).sum(axis=-1, keepdims=True)

    away = sizes - mean(sizes)
    slope = mean(away * (times - mean(times))) / mean(away**2)
    alpha = mean(times) - slope * mean(sizes)
    slope = np.where(alpha < 0, mean(sizes * times) / mean(sizes**2), slope)
    flat = slope <= 0
    alpha = np.where(flat, mean(times), np.maximum(alpha, 0))
    with np.errstate(divide="ignore"):
        beta = np.where(flat, np.inf, 1 / slope)
    return alpha[..., 0], beta[..., 0]


def _seconds(value: float) -> str:
    return format_quantity(value, "s", 3)


def _rate(value: float) -> str:
    return format_quantity(value, "B/s", 3) if np.isfinite(value) else "no limit"
