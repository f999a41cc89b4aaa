"""A power law that bends, and what the points have to say about each of its five numbers.

    y = b x^-c0 (1 + (x/d)^(1/f))^(-c1 f)

falls with exponent c0 before the break d and with c0 + c1 after it; f says how wide the bend is.
A fit returns five numbers whatever the points are. Whether the points have seen them is a question
to the Jacobian: a direction in which it is nearly zero moves the law and not the fit.
"""

import math
from dataclasses import astuple, dataclass, fields

from dtlib.formulas.require import require
from dtlib.later import np
from dtlib.scaling_laws.loss_surface.blind import Identified, NotIdentified, identified_by

_STEPS = 200


@dataclass(frozen=True)
class BrokenPowerLaw:
    """b x^-c0 (1 + (x/d)^(1/f))^(-c1 f): one break at d, exponents c0 and c0 + c1.

    Its numbers are kept as they are fitted: `log_b`, `log_d`, `log_f` natural logarithms.
    Source: Caballero et al. 2023, with one break and no floor.

    >>> law = BrokenPowerLaw(log_b=0.0, c0=0.5, c1=1.0, log_d=0.0, log_f=-2.0)
    >>> round(float(law(1e-6)), 3), round(float(law(100.0)), 6)
    (1000.0, 0.001)
    """

    log_b: float
    c0: float
    c1: float
    log_d: float
    log_f: float

    def __call__(self, x):
        """The law at x, a number or an array of positive numbers."""
        return np.exp(self.log_at(x))

    def log_at(self, x):
        """Its logarithm, which is what is fitted."""
        u, f = np.log(x), math.exp(self.log_f)
        return self.log_b - self.c0 * u - self.c1 * f * np.logaddexp(0, (u - self.log_d) / f)

    def jacobian(self, x):
        """How the logarithm at each x moves with each of the five numbers: an array [x, 5]."""
        u, f = np.log(np.asarray(x, dtype=float)), math.exp(self.log_f)
        z = (u - self.log_d) / f
        soft, passed = np.logaddexp(0, z), 0.5 * (1 + np.tanh(z / 2))
        bend = -self.c1 * f * (soft - z * passed)
        columns = [np.ones_like(u), -u, -f * soft, self.c1 * passed, bend]
        return np.stack(columns, axis=1)


def identified(law: BrokenPowerLaw, x, noise: float) -> Identified:
    """Ask the points at x, whose logarithms have that noise, what they know of the law.

    Equation: the covariance is noise^2 (J^T J)^-1, from the singular values of J. Raises ValueError
    for fewer points than numbers. Source: the delta method.

    >>> law = BrokenPowerLaw(0.0, 0.3, 0.5, 0.0, -1.0)
    >>> near, far = (identified(law, np.geomspace(1e-3, top, 12), 0.02) for top in (0.3, 1e3))
    >>> near.errors["c1"] > 50 * far.errors["c1"]
    True
    """
    names = tuple(field.name for field in fields(law))
    require(len(x) >= len(names), "identified", "x", len(x), f"at least {len(names)} points")
    return identified_by(law.jacobian(x), names, noise)


def fit_broken(x, y, start: BrokenPowerLaw, held: tuple[str, ...] = ()) -> BrokenPowerLaw:
    """The law nearest to the points in the logarithm, from a start, by Levenberg and Marquardt.

    Arguments: x and y, positive; `held`, numbers that keep the value of the start. Returns a
    BrokenPowerLaw. Raises ValueError for points that are not positive, or too few of them.

    >>> law = BrokenPowerLaw(0.1, 0.3, 0.5, 0.2, -1.0)
    >>> x = np.geomspace(0.01, 100, 20)
    >>> found = fit_broken(x, law(x), BrokenPowerLaw(0.0, 0.5, 0.3, 0.0, -0.5))
    >>> round(found.c1, 6)
    0.5
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    good = x.shape == y.shape and bool((x > 0).all() and (y > 0).all())
    require(good, "fit_broken", "x and y", (x.shape, y.shape), "as many positive numbers of each")
    free = [i for i, field in enumerate(fields(start)) if field.name not in held]
    require(len(x) >= len(free), "fit_broken", "x", len(x), f"at least {len(free)} points")
    law, damping = start, 1e-2
    for _ in range(_STEPS):
        rest, jacobian = np.log(y) - law.log_at(x), law.jacobian(x)[:, free]
        normal = jacobian.T @ jacobian
        step = np.linalg.solve(
            normal + damping * (np.diag(np.diag(normal)) + 1e-12 * np.eye(len(free))),
            jacobian.T @ rest,
        )
        numbers = np.array(astuple(law))
        numbers[free] += np.clip(step, -1, 1)
        tried = BrokenPowerLaw(*map(float, numbers))
        better = ((np.log(y) - tried.log_at(x)) ** 2).sum() < (rest**2).sum()
        law, damping = (tried, damping / 3) if better else (law, damping * 4)
        if damping > 1e12:
            break
    return law


def require_identified(law: BrokenPowerLaw, x, noise: float, most: float = 1.0) -> Identified:
    """What `identified` says, or an error that names the direction that the points do not see.

    Raises NotIdentified when the standard error along the blind direction is above `most`.

    >>> law = BrokenPowerLaw(0.0, 0.3, 0.5, 0.0, -1.0)
    >>> try:
    ...     require_identified(law, np.geomspace(1e-3, 0.1, 12), 0.02)
    ... except NotIdentified as error:
    ...     print(str(error)[:78])
    points from x = 0.001 to 0.1 do not see the direction +0.80 c1 +0.59 log_d: it
    """
    found = identified(law, x, noise)
    if found.blind_error > most:
        raise NotIdentified(
            f"points from x = {min(x):.3g} to {max(x):.3g} do not see the direction "
            f"{found}: its standard error is {found.blind_error:.2g}, allowed {most:g}"
        )
    return found
