"""The loss of a run as a function of its model and its data, and the best of both for a budget.

`LossSurface` has the letters that papers use; the formulas below it have the book's, because there
alpha and beta are a latency and a bandwidth.
"""

from dataclasses import astuple, dataclass, fields
from typing import NamedTuple

from dtlib.formulas.formula import formula
from dtlib.formulas.require import require
from dtlib.later import np

BESIROGLU = (1.8172, 482.01, 0.3478, 2085.43, 0.3658)  # E, A, alpha, B, beta; see `LossSurface`


@formula(
    r"L_\text{run}",
    "",
    "Hoffmann et al. 2022, after Rosenfeld et al. 2020",
    "one family of models, trained once over one kind of text, each to the end of its schedule",
)
def run_loss(params, tokens, least_loss, size_loss, size_power, data_loss, data_power):
    """The loss that a finished run reaches, in nats per token: three terms that are added.

    What no model of this text goes below; what a model of this size lacks, were its data endless;
    and what a model without limits lacks after so few tokens.

    >>> round(run_loss(70e9, 1.4e12, 1.8172, 482.01, 0.3478, 2085.43, 0.3658), 3)
    1.974
    """
    return least_loss + size_loss / params**size_power + data_loss / tokens**data_power


@formula(
    r"\Delta L",
    "",
    "follows from Hoffmann et al. 2022",
    "runs of one size, above a least loss that is known",
)
def sized_excess(tokens, size_excess, data_loss, data_power):
    """What runs of one size have above the least loss: the size's own share, and the data's.

    >>> round(sized_excess(1.4e12, 0.082, 2085.43, 0.3658), 3)
    0.157
    """
    return size_excess + data_loss / tokens**data_power


@formula(
    r"\Psi^*",
    "",
    "Hoffmann et al. 2022",
    "compute is 6 FLOP per parameter and token; the best is asked of the loss alone",
)
def best_params(run_flops, size_loss, size_power, data_loss, data_power):
    """The size of the model that a budget of compute makes best.

    At the optimum both terms fall equally fast, each per proportional change of its own variable:
    `size_power` times the size's term is `data_power` times the data's.

    >>> round(best_params(5.76e23, 482.01, 0.3478, 2085.43, 0.3658) / 1e9)
    72
    """
    return (size_power * size_loss / (data_power * data_loss)) ** (
        1 / (size_power + data_power)
    ) * (run_flops / 6) ** (data_power / (size_power + data_power))


@formula(
    "D^*",
    "",
    "Hoffmann et al. 2022",
    "compute is 6 FLOP per parameter and token; the best is asked of the loss alone",
)
def best_tokens(run_flops, size_loss, size_power, data_loss, data_power):
    """The tokens of the best run of a budget: what its model leaves of the compute.

    >>> round(best_tokens(5.76e23, 482.01, 0.3478, 2085.43, 0.3658) / 1e12, 2)
    1.33
    """
    return run_flops / (6 * best_params(run_flops, size_loss, size_power, data_loss, data_power))


@formula(
    r"D_\text{opt}",
    "",
    "follows from Hoffmann et al. 2022",
    "compute is 6 FLOP per parameter and token; the best is asked of the loss alone",
)
def optimal_tokens(params, size_loss, size_power, data_loss, data_power):
    """The tokens that make a model of this size the best of its budget.

    Both terms then fall equally fast, each per proportional change of its own variable.

    >>> round(optimal_tokens(30e9, 482.01, 0.3478, 2085.43, 0.3658) / 1e9)
    576
    """
    return (data_power * data_loss / (size_power * size_loss) * params**size_power) ** (
        1 / data_power
    )


@formula(r"\gamma^*", "", "follows from Hoffmann et al. 2022", "along the best runs of all budgets")
def frontier_power(size_power, data_power):
    """The power of compute with which the best run's loss falls toward its least value.

    Half the harmonic mean of the two powers: the budget is shared, so it is smaller than either.

    >>> round(frontier_power(0.3478, 0.3658), 3)
    0.178
    """
    return size_power * data_power / (size_power + data_power)


@formula(
    r"k_\text{half}", "", "follows from Hoffmann et al. 2022", "along the best runs of all budgets"
)
def excess_compute_factor(size_power, data_power):
    """How much more compute halves what the best run has above the least loss.

    >>> round(excess_compute_factor(0.3478, 0.3658))
    49
    """
    return 2 ** (1 / frontier_power(size_power, data_power))


@formula(
    r"D_\text{iso}",
    "",
    "follows from Hoffmann et al. 2022",
    "the model is large enough for the loss: its own term leaves something for the data's",
)
def isoloss_tokens(params, reached_loss, least_loss, size_loss, size_power, data_loss, data_power):
    """The tokens after which a model of this size reaches a loss.

    >>> round(isoloss_tokens(30e9, 1.974, 1.8172, 482.01, 0.3478, 2085.43, 0.3658) / 1e12, 1)
    4.9
    """
    return (data_loss / (reached_loss - least_loss - size_loss / params**size_power)) ** (
        1 / data_power
    )


class Allocation(NamedTuple):
    """How a budget is divided: N parameters, D tokens, the loss that this reaches, C = 6 N D."""

    N: float
    D: float
    loss: float
    C: float

    @property
    def tokens_per_param(self) -> float:
        """D / N."""
        return self.D / self.N


@dataclass(frozen=True)
class LossSurface:
    """L(N, D) = E + A / N^alpha + B / D^beta, in nats per token.

    Arguments: `E`, the least loss; `A`, the excess of a model of one parameter, and `alpha`, the
    power with which it falls; `B` and `beta`, the same for tokens. Numbers, or arrays of one shape
    for many surfaces at once: N and D may then be numbers, or arrays that broadcast against them.
    Raises ValueError for a number that is not finite, for E below 0 and for others not above 0.
    Source: Hoffmann et al. 2022.

    >>> law = LossSurface.besiroglu()
    >>> round(float(law(70e9, 1.4e12)), 3)
    1.974
    """

    E: float
    A: float
    alpha: float
    B: float
    beta: float

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            array = np.asarray(value, dtype=float)
            lowest = array >= 0 if field.name == "E" else array > 0
            allowed = "at least 0" if field.name == "E" else "above 0"
            require(
                bool((np.isfinite(array) & lowest).all()), "LossSurface", field.name, value, allowed
            )

    @classmethod
    def hoffmann(cls, rounded: bool = True) -> "LossSurface":
        """The constants of Hoffmann et al. 2022, as printed, or with the digits of its source.

        The longer digits are those that Besiroglu et al. 2024 use, in the code beside their paper.
        Rounding the two exponents moves the best model by a quarter: see chapter 8.

        >>> round(LossSurface.hoffmann().optimum(5.76e23).tokens_per_param)
        93
        >>> round(LossSurface.hoffmann(rounded=False).optimum(5.76e23).tokens_per_param)
        59
        """
        if rounded:
            return cls(E=1.69, A=406.4, alpha=0.34, B=410.7, beta=0.28)
        return cls(E=1.69337, A=406.4, alpha=0.33917084, B=410.724, beta=0.2849083)

    @classmethod
    def besiroglu(cls) -> "LossSurface":
        """The constants of Besiroglu et al. 2024, fitted to 240 points of Hoffmann's figure.

        >>> round(LossSurface.besiroglu().optimum(5.76e23).tokens_per_param)
        18
        """
        return cls(*BESIROGLU)

    def __call__(self, N, D):
        """The loss of N parameters trained on D tokens, nats per token."""
        return run_loss(N, D, *astuple(self))

    def terms(self, N, D):
        """The three terms of the sum: least loss, the size's and the data's."""
        return self.E, self.A / N**self.alpha, self.B / D**self.beta

    def optimum(self, C) -> Allocation:
        """The best division of a budget of C FLOP: where a line of equal loss touches it.

        Equation: alpha A N^-alpha = beta B D^-beta with 6 N D = C. Raises ValueError for C not
        above 0. Source: Hoffmann et al. 2022.

        >>> best = LossSurface.besiroglu().optimum(1e22)
        >>> f"{best.N:.2e} {best.D:.2e} {best.loss:.3f}"
        '9.05e+09 1.84e+11 2.141'
        """
        require(bool(np.all(np.asarray(C) > 0)), "optimum", "C", C, "above 0")
        constants = (self.A, self.alpha, self.B, self.beta)
        N, D = best_params(C, *constants), best_tokens(C, *constants)
        return Allocation(N, D, self(N, D), C)

    def frontier(self, C):
        """The loss of the best run of C FLOP: E + constant * C^-(alpha beta / (alpha + beta)).

        >>> law = LossSurface.besiroglu()
        >>> gain = (law.frontier(1e22) - law.E) / (law.frontier(1e24) - law.E)
        >>> round(gain, 3) == round(100 ** frontier_power(law.alpha, law.beta), 3)
        True
        """
        return self.optimum(C).loss

    def isoloss(self, N, loss):
        """The tokens after which N parameters reach a loss; infinite where they never do.

        >>> law = LossSurface.besiroglu()
        >>> f"{law.isoloss(30e9, 1.974):.2e}", law.isoloss(7e9, 1.974)
        ('4.95e+12', inf)
        """
        left = np.asarray(loss - self.E - self.A / np.asarray(N, dtype=float) ** self.alpha)
        with np.errstate(divide="ignore", invalid="ignore"):
            D = np.where(left > 0, (self.B / left) ** (1 / self.beta), np.inf)
        return float(D) if D.ndim == 0 else D
