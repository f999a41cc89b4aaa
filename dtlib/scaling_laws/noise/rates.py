"""Which rate a batch wants when only the sign of a gradient counts: what Adam does, nearly.

Adam divides each entry of a gradient by its own size, so that every entry moves by about the rate,
however small the gradient. In a batch that is mostly noise the sign is nearly a coin's, and leans
to the right side by the square root of the batch; in a large one it is right.
"""

import math

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import sqrt
from dtlib.formulas.require import require, require_positive
from dtlib.later import np


@formula(
    r"\eta_B",
    "",
    "Malladi et al. 2022",
    "Adam; the batch is mostly noise; from one to many samples",
)
def square_root_rate(learning_rate, batch):
    """The rate of Adam at a batch, when it was found at a batch of one: noise of a step is kept.

    >>> square_root_rate(learning_rate=0.001, batch=16)
    0.004
    """
    return learning_rate * sqrt(batch)


def sign_agreement(gradient, deviation, batch: float):
    r"""The mean sign of each entry of a batch's gradient: erf(sqrt(B / 2) g / sigma).

    Arguments: `gradient`, the true one; `deviation` of one sample's entries, Gaussian; `batch`.
    It lies between -1 and 1: at sqrt(2 B / pi) g / sigma where noise prevails, at the true sign
    where the gradient does. Raises ValueError for a batch or a deviation that is not positive.
    Source: Li et al. 2024, equation 10.

    >>> [round(float(sign_agreement(0.1, 1.0, batch)), 3) for batch in (1, 4, 100, 10000)]
    [0.08, 0.159, 0.683, 1.0]
    """
    require_positive("sign_agreement", batch=batch)
    deviation = np.asarray(deviation, float)
    require(bool((deviation > 0).all()), "sign_agreement", "deviation", deviation, "positive")
    return np.vectorize(math.erf)(math.sqrt(batch / 2) * np.asarray(gradient) / deviation)


def best_sign_rate(gradient, deviation, curvature, batch: float) -> float:
    r"""The rate with which one step of signs lowers a quadratic loss most.

    Equation: G . s / (sum_i H_ii + sum over i != j of H_ij s_i s_j), with s = `sign_agreement`: a
    sign's square is always 1, and signs of two entries are independent.
    Arguments: as for `sign_agreement`, and `curvature`, the matrix H. Raises ValueError where the
    steps of no rate have a least loss. Source: Li et al. 2024.

    >>> import numpy as np
    >>> rates = [best_sign_rate([0.1, 0.2], [1, 1], np.eye(2), batch) for batch in (1, 4, 1e6)]
    >>> [round(rate, 4) for rate in rates]
    [0.0198, 0.039, 0.15]
    """
    s, H = sign_agreement(gradient, deviation, batch), np.asarray(curvature, float)
    bend = np.trace(H) + s @ (H - np.diag(np.diag(H))) @ s
    require(bend > 0, "best_sign_rate", "s'Hs", float(bend), "positive: the loss curves upwards")
    return float(np.asarray(gradient) @ s / bend)
