"""Stairs at the borders of epochs: what a loss shows when a batch is seen for the nth time.

A linear model, as many weights as it likes, learns labels that are coin tosses, one sample at a
time. The samples are nearly orthogonal, so a step for one leaves the others alone: a sample's error
depends on nothing but how often the sample was seen.
"""

from typing import NamedTuple

from dtlib.formulas.formula import formula
from dtlib.formulas.require import require, require_count
from dtlib.later import np


class Stairs(NamedTuple):
    """Losses at every step: of the sample before its update, of all samples, of fresh ones."""

    shown: list[float]
    all_samples: list[float]
    fresh: list[float]


@formula(
    r"\ell_v",
    "",
    "one step of gradient descent, repeated",
    "samples are orthogonal and of length 1; the loss before the first step is 1",
)
def visited_loss(rate, visits):
    """The squared error of a sample that was seen so many times.

    Every visit takes the share `rate` off its error.

    >>> visited_loss(rate=0.5, visits=2)
    0.0625
    """
    return (1 - rate) ** (2 * visits)


def train_in_epochs(
    samples: int = 64,
    weights: int = 4096,
    epochs: int = 4,
    rate: float = 0.25,
    order: str = "epochs",
    seed: int = 0,
) -> Stairs:
    """Train one sample a step, and look at the loss in three ways before each.

    Arguments: `samples` of `weights` Gaussian features, of length about 1, with labels +1 or -1 at
    random; `order`, "epochs" (each once in every epoch, in a new order) or "drawn" (with
    replacement). Returns the losses, each `samples * epochs` long. Raises ValueError for another
    order or a rate outside 0 to 1.

    >>> run = train_in_epochs(samples=8, epochs=2)
    >>> [round(sum(run.shown[i:i + 8]) / 8, 1) for i in (0, 8)]
    [1.0, 0.6]
    """
    require_count("train_in_epochs", samples=samples, weights=weights, epochs=epochs)
    require(order in ("epochs", "drawn"), "train_in_epochs", "order", order, "epochs or drawn")
    require(0 < rate < 1, "train_in_epochs", "rate", rate, "between 0 and 1")
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((2 * samples, weights)) / weights**0.5
    y = draw.choice([-1.0, 1.0], 2 * samples)
    if order == "epochs":
        visits = np.concatenate([draw.permutation(samples) for _ in range(epochs)])
    else:
        visits = draw.integers(samples, size=samples * epochs)
    w, run = np.zeros(weights), Stairs([], [], [])
    for i in visits:
        errors = x @ w - y
        run.shown.append(float(errors[i] ** 2))
        run.all_samples.append(float((errors[:samples] ** 2).mean()))
        run.fresh.append(float((errors[samples:] ** 2).mean()))
        w -= rate * errors[i] * x[i]
    return run
