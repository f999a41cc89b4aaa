"""What points say of a law's numbers: a direction in which nothing that was measured moves.

A fit returns a number for each unknown whatever the points are. Whether they have seen it is a
question to the Jacobian: along the singular vector of its smallest singular value the law may be
moved and the fit stays as good.
"""

from dataclasses import dataclass

from dtlib.errors import DtlibError
from dtlib.later import np

_MOST = 1.0  # standard error, of a logarithm or a power, above which a direction was not seen
_SINGULAR = 1e-9


class NotIdentified(DtlibError, ValueError):
    """The points do not see a direction of the law; the message names it."""


@dataclass(frozen=True)
class Identified:
    """What points say of a law: standard errors, the condition number, the unseen direction.

    `errors` are in the units of the numbers, for the given noise; `condition` is the largest
    singular value of the Jacobian over the smallest, `blind` the direction of the smallest, and
    `blind_error` its standard error, which is infinite where it is zero but for rounding.
    """

    errors: dict[str, float]
    condition: float
    blind: dict[str, float]
    blind_error: float

    def __str__(self) -> str:
        """The unseen direction in words."""
        return " ".join(
            f"{size:+.2f} {name}" for name, size in self.blind.items() if abs(size) > 0.1
        )


def identified_by(moves, names: tuple[str, ...], noise: float) -> Identified:
    """What points know of a law's numbers, from how they would move with each of them.

    Equation: the covariance is noise^2 (J^T J)^-1, from the singular values of J.
    Arguments: `moves` [points, numbers], the Jacobian; `names` of the numbers; `noise`, the
    scatter of what was measured. Source: the delta method.

    >>> moves = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.001]])
    >>> found = identified_by(moves, ("a", "b"), noise=0.01)
    >>> {name: round(size, 2) for name, size in found.blind.items()}, round(found.blind_error)
    ({'a': -0.71, 'b': 0.71}, 24)
    """
    _, values, directions = np.linalg.svd(moves, full_matrices=False)
    spread = noise / np.maximum(values, np.finfo(float).tiny)
    errors = np.sqrt(((directions * spread[:, None]) ** 2).sum(axis=0))
    least = directions[-1]
    least = least * np.sign(least[np.abs(least) >= 0.99 * np.abs(least).max()][-1])
    return Identified(
        dict(zip(names, map(float, errors), strict=True)),
        float(values[0] / max(values[-1], np.finfo(float).tiny)),
        dict(zip(names, map(float, least), strict=True)),
        float(spread[-1]) if values[-1] > _SINGULAR * values[0] else float("inf"),
    )


def require_seen(owner: str, moves, names: tuple[str, ...], noise: float) -> None:
    """Raise NotIdentified where the direction that is seen least has an error above 1.

    >>> require_seen("fit", np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 1e-6]]), ("a", "b"), 0.01)
    Traceback (most recent call last):
    dtlib.scaling_laws.loss_surface.blind.NotIdentified: fit: the runs do not see +1.00 b: \
its standard error is 1.7e+04, allowed 1
    """
    found = identified_by(moves, names, noise)
    if found.blind_error > _MOST:
        raise NotIdentified(
            f"{owner}: the runs do not see {found}: its standard error is {found.blind_error:.2g}, "
            f"allowed {_MOST:g}"
        )
