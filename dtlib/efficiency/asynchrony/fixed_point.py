"""Where local steps end when the ranks' data differ: a fixed point that is not the minimum."""

from collections.abc import Sequence

from dtlib.formulas.require import require


def local_fixed_point(
    curvatures: Sequence[float], minima: Sequence[float], *, lr: float, H: int
) -> float:
    """Where the mean of the ranks stays after rounds of H steps, on quadratics of one number.

    Equation: rank w, with the loss a_w (x - b_w)^2 / 2, keeps (1 - lr a_w)^H of its distance to
    b_w in a round, so it weighs omega_w = 1 - (1 - lr a_w)^H, and the mean stays where the sum of
    omega_w (x - b_w) is 0. For H = 1 this is the minimum of the
    mean loss; for large H all ranks weigh alike, however flat their losses are.
    Arguments: the ranks' curvatures a and minima b; `lr`, below 2 over each curvature; `H`, steps.
    Raises ValueError for a rate at which a rank diverges. Source: a geometric sum.

    >>> [round(local_fixed_point((1, 0.1), (1, -1), lr=0.1, H=H), 3) for H in (1, 4, 10_000)]
    [0.818, 0.794, 0.0]
    """
    for a in curvatures:
        require(0 < lr * a < 2, "local_fixed_point", "lr times a curvature", lr * a, "in (0, 2)")
    require(H >= 1, "local_fixed_point", "H", H, "at least 1")
    weights = [1 - (1 - lr * a) ** H for a in curvatures]
    return sum(w * b for w, b in zip(weights, minima, strict=True)) / sum(weights)
