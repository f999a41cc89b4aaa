"""How long a step may be when gradients are old: the border of stability, exactly."""

import math

from dtlib.formulas.require import require, require_count


def stability_border(tau: int, momentum: float = 0.0) -> float:
    """The step, times the curvature, from which on descent by gradients of age tau diverges.

    Equation: x[t+1] = x[t] + mu (x[t] - x[t-1]) - a x[t-tau] has the solutions r^t with
    a = -r^(tau-1) (r - 1) (r - mu). At the border one has the modulus 1, r = e^(i theta): the
    right-hand side must be real and above 0, which gives theta, and its size is the border.
    Without momentum theta = pi / (2 tau + 1) and the border is 2 sin(theta / 2).

    Arguments: `tau`, a whole number from 0, the same for each gradient; `momentum` from 0 to below
    1. Returns the border, without unit; for SGD as torch has it, the learning rate times the
    curvature. Raises ValueError for other arguments.

    >>> stability_border(0), round(stability_border(1), 12), round(stability_border(15), 3)
    (2.0, 1.0, 0.101)
    >>> round(stability_border(1, momentum=0.9), 12), stability_border(0, momentum=0.5)
    (0.1, 3.0)
    """
    require_count("stability_border", least=0, tau=tau)
    require(0 <= momentum < 1, "stability_border", "momentum", momentum, "from 0 to below 1")
    if tau == 0:
        return 2.0 * (1 + momentum)
    low, high = 0.0, math.pi
    for _ in range(200):  # the phase grows with theta, from 0 to beyond a quarter turn
        theta = (low + high) / 2
        beside = math.atan2(math.sin(theta), math.cos(theta) - momentum)
        low, high = (theta, high) if (tau - 0.5) * theta + beside < math.pi / 2 else (low, theta)
    x = complex(math.cos(theta), math.sin(theta))
    return abs(x - 1) * abs(x - momentum)


def stale_descent(step: float, delays, updates: int, momentum: float = 0.0) -> list[float]:
    """Distances to the minimum of a parabola; gradients are as many updates old as `delays` say.

    Arguments: `step`, the learning rate times the curvature; `delays`, one whole number, or a list
    of them that is gone through again and again. Weights before the first are 1, as the first is.

    >>> stale_descent(0.5, delays=1, updates=3)
    [1.0, 0.5, 0.0, -0.25]
    """
    cycle = [delays] if isinstance(delays, int) else list(delays)
    x = [1.0]
    for t in range(updates):
        old = x[max(0, t - cycle[t % len(cycle)])]
        before = x[-2] if t else 1.0
        x.append(x[-1] + momentum * (x[-1] - before) - step * old)
    return x
