"""Steps against samples: the hyperbola on which all batch sizes lie, and the rates that go with it.

The noun is `Hyperbola`. On a quadratic loss a step with noise of covariance Sigma / B removes the
share 1 / (1 + B_noise / B) of what a step without noise would. So a run needs so many more steps;
and with B samples a step, what it saves in steps it pays in samples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import sqrt
from dtlib.formulas.require import require
from dtlib.later import np
from dtlib.scaling_laws.compute_optimal.search import least_between
from dtlib.scaling_laws.noise.estimate import student_quantile

_SOURCE = "McCandlish et al. 2018"
_QUADRATIC = "the loss is quadratic, each rate is the best, and the noise scale stays as it is"


@formula(r"\eta^*", "", _SOURCE, "one step of SGD on a quadratic loss")
def best_rate(most_rate, noise_batch, batch):
    """The learning rate that lowers the loss most in one step of a batch of that size.

    Small batches want a rate in proportion to the batch, large ones the rate of no noise.

    >>> best_rate(most_rate=0.75, noise_batch=100, batch=50)
    0.25
    """
    return most_rate / (1 + noise_batch / batch)


@formula(r"S_\text{loss}", "", _SOURCE, _QUADRATIC)
def steps_to_loss(fewest_steps, noise_batch, batch):
    """The steps to a loss at a batch size: the fewest, and again as many at the noise scale.

    >>> steps_to_loss(fewest_steps=1000, noise_batch=100, batch=50)
    3000.0
    """
    return fewest_steps * (1 + noise_batch / batch)


@formula(r"D_\text{loss}", "", _SOURCE, _QUADRATIC)
def samples_to_loss(fewest_steps, noise_batch, batch):
    """The samples to a loss at a batch size: those of an arbitrarily small batch, and B a step.

    >>> samples_to_loss(fewest_steps=1000, noise_batch=100, batch=50)
    150000
    """
    return fewest_steps * (noise_batch + batch)


@formula(r"e_\text{samples}", "", _SOURCE, _QUADRATIC)
def sample_efficiency(noise_batch, batch):
    """What a sample achieves in a batch of that size, over what it would in the smallest.

    >>> sample_efficiency(noise_batch=100, batch=100)
    0.5
    """
    return 1 / (1 + batch / noise_batch)


@formula(
    r"\eta_\text{SGD}", "", "Polyak 1964", "the rate is small: weights move little in a memory"
)
def momentum_rate(learning_rate, momentum):
    """The rate of plain SGD that does what this rate does with momentum.

    A gradient acts in this step, in the next with the share m, then m^2, ...: 1 / (1 - m) in all.

    >>> round(momentum_rate(learning_rate=0.01, momentum=0.9), 6)
    0.1
    """
    return learning_rate / (1 - momentum)


@formula(
    r"T_\text{loss}",
    "s",
    "counting",
    "ranks share a batch evenly; nothing that stays the same hides behind what shrinks",
)
def loss_time(fewest_steps, noise_batch, batch, sample_time, P, fixed_time):
    """How long a run takes to a loss: its steps, times the time of one.

    >>> loss_time(1000, noise_batch=100, batch=50, sample_time=0.2, P=5, fixed_time=3)
    15000.0
    """
    return steps_to_loss(fewest_steps, noise_batch, batch) * (batch * sample_time / P + fixed_time)


@formula(r"C_\text{loss}", "USD", "counting", "every rank is paid for as long as the run lasts")
def loss_cost(fewest_steps, noise_batch, batch, sample_time, P, fixed_time, price):
    """What a run costs to a loss.

    >>> loss_cost(1000, 100, batch=100, sample_time=0.1, P=10, fixed_time=1, price=0.001)
    40.0
    """
    return price * P * loss_time(fewest_steps, noise_batch, batch, sample_time, P, fixed_time)


@formula(r"B^*", "", "the slope of the time, set to zero", "as for the time; P does not bind")
def fastest_batch(noise_batch, sample_time, P, fixed_time):
    """The batch with which P ranks are soonest at a loss, and cheapest.

    The geometric mean of the noise scale and of the batch whose work takes as long as what is
    fixed.

    >>> round(fastest_batch(noise_batch=100, sample_time=0.1, P=20, fixed_time=2), 6)
    200.0
    """
    return sqrt(noise_batch * P * fixed_time / sample_time)


@dataclass(frozen=True)
class Hyperbola:
    """Steps S and samples D of runs to one loss: (S / S_min - 1)(D / D_min - 1) = 1.

    `fewest_steps` S_min, `noise_batch` = D_min / S_min in samples; `low` and `high`, the interval
    of the noise batch at 95 %; `residual`, the root mean square of log S.
    """

    fewest_steps: float
    noise_batch: float
    low: float
    high: float
    residual: float

    def steps(self, batch):
        """S at a batch size, a number or an array."""
        return steps_to_loss(self.fewest_steps, self.noise_batch, batch)

    def samples(self, batch):
        """D at a batch size."""
        return samples_to_loss(self.fewest_steps, self.noise_batch, batch)


def fit_hyperbola(batches: Sequence[float], steps: Sequence[float]) -> Hyperbola:
    """The hyperbola through runs at several batch sizes, each at its best rate, to one loss.

    Least squares on log S: the best S_min for a noise batch is a mean, and the noise batch is
    found by halving a bracket of its logarithm. The interval holds every noise batch whose squares
    exceed the least by no more than t^2 times their mean over n - 2 (the profile of the squares).
    Raises ValueError for lists of unlike length, for fewer than three batch sizes (two numbers are
    fitted, and one point must be able to disagree), and for what is not positive.

    >>> curve = fit_hyperbola([10, 100, 1000], [11000, 2000, 1100])
    >>> round(curve.fewest_steps, 3), round(curve.noise_batch, 3)
    (1000.0, 100.0)
    """
    log_b, log_s = np.log(_checked(batches, steps))

    def squares(log_noise):
        misfit = log_s - np.logaddexp(0, log_noise - log_b)
        return float(((misfit - misfit.mean()) ** 2).sum())

    ends = float(log_b.min()) - 12, float(log_b.max()) + 12
    best = _least(squares, *ends)
    free = len(log_b) - 2
    allowed = squares(best) * (1 + student_quantile(free) ** 2 / free)
    low, high = (_border(squares, allowed, best, end) for end in ends)
    fewest = math.exp(float((log_s - np.logaddexp(0, best - log_b)).mean()))
    residual = math.sqrt(squares(best) / len(log_b))
    return Hyperbola(fewest, math.exp(best), low, high, residual)


def _checked(batches, steps):
    owner, counts = "fit_hyperbola", (len(batches), len(steps))
    allowed = "as many batch sizes as numbers of steps"
    require(counts[0] == counts[1], owner, "points (batches, steps)", counts, allowed)
    pairs = np.array([batches, steps], dtype=float)
    for name, row in zip(("batches", "steps"), pairs, strict=True):
        for place in np.flatnonzero(~(np.isfinite(row) & (row > 0)))[:1]:
            require(False, owner, f"{name}[{place}]", float(row[place]), "a positive number")
    different = len(set(pairs[0].tolist()))
    allowed = "at least 3: the steps to one loss, at batch sizes that differ"
    require(different >= 3, owner, "batch sizes", different, allowed)
    return pairs


def _least(function, low: float, high: float) -> float:
    """Where a function of one valley is least: a grid, then the golden section."""
    grid = np.linspace(low, high, 200)
    place = int(np.argmin([function(x) for x in grid]))
    return least_between(function, float(grid[max(place - 1, 0)]), float(grid[min(place + 1, 199)]))


def _border(function, level: float, inside: float, outside: float) -> float:
    """exp of where the function passes the level; 0 or infinity where it does not."""
    if function(outside) <= level:
        return 0.0 if outside < inside else math.inf
    for _ in range(80):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if function(middle) <= level else (inside, middle)
    return math.exp(inside)
