"""The price of a smaller model, and the best size of a model that will also be used.

A loss is reached by many models: by the compute-optimal one with the fewest FLOPs of training, and
by smaller ones with more tokens. Each token that a model later reads or writes costs 2 N.
"""

import math
from dataclasses import dataclass

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum
from dtlib.formulas.require import require, require_not_negative
from dtlib.scaling_laws.compute_optimal.search import root_between
from dtlib.scaling_laws.loss_surface.surface import LossSurface


@formula(
    r"C_\text{over}",
    "",
    "de Vries 2023, after Hoffmann et al. 2022",
    "the same loss; a surface of two powers; the model is not below the least size for the loss",
)
def over_training_factor(shrink, size_power, data_power):
    """FLOPs of training a smaller model to the same loss, over those of the compute-optimal one.

    There the term of the size is data_power / (size_power + data_power) of what is above the least
    loss. What it grows by, the data's must shrink: neither the budget nor the constants matter.
    Raises ZeroDivisionError at the least size and below it.

    >>> round(over_training_factor(0.5, 0.3478, 0.3658), 2)
    1.26
    """
    return shrink / maximum(1 - data_power / size_power * (1 / shrink**size_power - 1), 0) ** (
        1 / data_power
    )


@formula(
    r"k_\text{least}",
    "",
    "follows from Hoffmann et al. 2022",
    "the same loss; a surface of two powers",
)
def least_shrink(size_power, data_power):
    """The size below which a model never reaches the loss, over that of the compute-optimal one.

    Its own term alone is then all that the optimal model has above the least loss.

    >>> round(least_shrink(0.3478, 0.3658), 3)
    0.146
    """
    return (data_power / (size_power + data_power)) ** (1 / size_power)


@formula(
    r"C_\text{life}",
    "FLOP",
    "Sardana et al. 2024",
    "6 FLOP for a parameter and a token in training, 2 in use; attention is not counted",
)
def lifetime_flops(params, tokens, served):
    """FLOPs of a model's whole life: of its training, and of what it reads and writes in use.

    >>> f"{lifetime_flops(params=30e9, tokens=4e12, served=1e13):.2e}"
    '1.32e+24'
    """
    return 6 * params * tokens + 2 * params * served


@dataclass(frozen=True)
class ServedModel:
    """A model of `N` parameters that is trained on `D` tokens and then serves `served` tokens."""

    N: float
    D: float
    served: float

    @property
    def flops(self) -> float:
        """6 N D + 2 N D_serve, in FLOP."""
        return lifetime_flops(self.N, self.D, self.served)

    @property
    def training(self) -> float:
        """6 N D, in FLOP."""
        return lifetime_flops(self.N, self.D, 0)

    @property
    def tokens_per_param(self) -> float:
        """D / N of the training."""
        return self.D / self.N


def least_params(surface: LossSurface, loss: float) -> float:
    """The size below which no number of tokens reaches a loss: (A / (loss - E))^(1 / alpha).

    Raises ValueError for a loss that is not above E.

    >>> f"{least_params(LossSurface.besiroglu(), 1.974) / 1e9:.1f} billion"
    '10.7 billion'
    """
    require(loss > surface.E, "least_params", "loss", loss, f"above E, {surface.E} nats")
    return (surface.A / (loss - surface.E)) ** (1 / surface.alpha)


def lifetime_optimum(surface: LossSurface, loss: float, served: float = 0.0) -> ServedModel:
    """The model that reaches a loss with the fewest FLOPs of training and serving together.

    Equation: minimise 6 N D + 2 N D_serve under L(N, D) = loss. Its slope along the curve of the
    loss is zero where alpha A N^-alpha / (beta B D^-beta) = 1 + D_serve / (3 D).
    Arguments: `loss` in nats per token, `served` tokens. Raises ValueError for a loss that is not
    above E, and for a negative number of tokens. Source: Sardana et al. 2024.

    >>> best = lifetime_optimum(LossSurface.besiroglu(), 1.974, served=10e12)
    >>> f"{best.N / 1e9:.0f} billion, {best.tokens_per_param:.0f} tokens for each"
    '34 billion, 109 tokens for each'
    """
    require_not_negative("lifetime_optimum", served=served)
    least = least_params(surface, loss)

    def slope(above: float) -> float:
        N = least * (1 + math.exp(above))
        D = surface.isoloss(N, loss)
        if math.isinf(D):
            return math.inf
        _, size, data = surface.terms(N, D)
        return math.log(surface.alpha * size / (surface.beta * data)) - math.log1p(served / (3 * D))

    N = least * (1 + math.exp(root_between(slope, -30.0, 30.0)))
    return ServedModel(N, surface.isoloss(N, loss), served)
