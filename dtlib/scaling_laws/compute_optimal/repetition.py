"""A loss surface when fresh tokens run out: what the second epoch is worth, and the fortieth.

The noun: `RepeatedSurface`, a surface with a number of unique tokens. What is repeated counts less
each time: D tokens of U unique ones are worth D_eff, and N parameters beyond what U can feed N_eff.
"""

import math
from dataclasses import dataclass

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import exp, maximum, minimum
from dtlib.formulas.require import require_positive
from dtlib.scaling_laws.compute_optimal.search import least_between
from dtlib.scaling_laws.loss_surface.surface import LossSurface

TOKENS_DECAY, PARAMS_DECAY = 15.387756, 5.309743  # R_D*, R_N* of Muennighoff et al. 2023


@formula(
    r"D_\text{eff}",
    "",
    "Muennighoff et al. 2023",
    "whole passes over the same tokens; none of them makes the loss worse",
)
def effective_tokens(tokens, unique_tokens, repeat_decay):
    """What tokens of which many are repeated are worth, in fresh ones.

    Each pass is worth a fixed share of the one before: the sum of the passes flattens out, and all
    repetitions together are worth at most `repeat_decay` passes over fresh tokens.

    >>> [round(effective_tokens(n, 1, 15.387756) / n, 2) for n in (1, 2, 4, 16, 40)]
    [1.0, 0.98, 0.93, 0.66, 0.38]
    """
    return minimum(tokens, unique_tokens) + unique_tokens * repeat_decay * (
        1 - exp(-maximum(tokens / unique_tokens - 1, 0) / repeat_decay)
    )


@dataclass(frozen=True)
class RepeatedSurface:
    """L = E + A / N_eff^alpha + B / D_eff^beta with so many `unique` tokens U.

    `surface` is that of fresh tokens. N_eff damps what N has beyond U_N, the size for which U
    tokens are compute-optimal, as D_eff damps what D has beyond U. Below both it is the surface.
    Raises ValueError for numbers that are not positive. Source: Muennighoff et al. 2023.

    >>> scarce = RepeatedSurface.muennighoff(unique=100e9)
    >>> f"{scarce(7e9, 100e9):.3f} after one epoch, {scarce(7e9, 400e9):.3f} after four"
    '2.242 after one epoch, 2.169 after four'
    """

    surface: LossSurface
    unique: float
    tokens_decay: float = TOKENS_DECAY
    params_decay: float = PARAMS_DECAY

    def __post_init__(self):
        values = {name: getattr(self, name) for name in ("unique", "tokens_decay", "params_decay")}
        require_positive("RepeatedSurface", **values)

    @classmethod
    def muennighoff(cls, unique: float) -> "RepeatedSurface":
        """With the constants that they fitted to C4: A 521, B 1488, E 1.87, both powers 0.353."""
        e, a, b, power = 0.6254804, 6.255414, 7.3049974, 0.3526596
        return cls(LossSurface(math.exp(e), math.exp(a), power, math.exp(b), power), unique)

    @property
    def fed(self) -> float:
        """U_N, the parameters for which the unique tokens are compute-optimal."""
        s = self.surface
        return (s.alpha * s.A / (s.beta * s.B) * self.unique**s.beta) ** (1 / s.alpha)

    def __call__(self, N: float, D: float) -> float:
        """The loss in nats per token of N parameters after D tokens, repeated ones included."""
        return float(
            self.surface(
                effective_tokens(N, self.fed, self.params_decay),
                effective_tokens(D, self.unique, self.tokens_decay),
            )
        )

    def optimum(self, C: float) -> tuple[float, float]:
        """N and D of the lowest loss at 6 N D = C, in FLOP, found by the golden section.

        Raises ValueError for a budget that is not positive.
        """
        require_positive("RepeatedSurface.optimum", C=C)
        start = math.log(self.surface.optimum(C).N)
        x = least_between(lambda x: self(math.exp(x), C / 6 / math.exp(x)), start - 10, start + 10)
        return math.exp(x), C / 6 / math.exp(x)
