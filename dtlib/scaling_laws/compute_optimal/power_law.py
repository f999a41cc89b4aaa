"""A power law through the best models of several budgets: N* = coefficient C^exponent."""

from dataclasses import dataclass

from dtlib.later import np


@dataclass(frozen=True)
class PowerLaw:
    """N* = `coefficient` C^`exponent`, in parameters of a budget in FLOP, and how sure that is.

    `interval` holds the exponent with 95 % of the resamples; None where nothing was resampled.

    >>> law = PowerLaw(0.1, 0.5, (0.48, 0.53))
    >>> f"{law(1e20):.2g}", round(law.tokens_per_param(1e20), 2)
    ('1e+09', 16.67)
    """

    coefficient: float
    exponent: float
    interval: tuple[float, float] | None = None

    def __call__(self, budget):
        """The best number of parameters for a budget in FLOP, a number or an array."""
        return self.coefficient * budget**self.exponent

    def tokens_per_param(self, budget):
        """D*/N* = C / (6 N*^2): how many tokens each of those parameters is trained on."""
        return budget / 6 / self(budget) ** 2

    def __str__(self) -> str:
        low, high = self.interval or (self.exponent, self.exponent)
        return f"N* ~ C^{self.exponent:.3f} [{low:.3f}, {high:.3f}]"


def line_through(budgets, params) -> tuple[float, float]:
    """Coefficient and exponent of the least-squares line of log N over log C.

    >>> [round(float(x), 6) for x in line_through([1e10, 1e12, 1e14], [1e5, 1e6, 1e7])]
    [1.0, 0.5]
    """
    x, y = np.log(budgets), np.log(params)
    exponent, height = np.polyfit(x - x.mean(), y, 1)
    return float(np.exp(height - exponent * x.mean())), float(exponent)
