"""What points say of a law's numbers: a direction in which nothing that was measured moves.

A fit returns a number for each unknown whatever the points are. Whether they have seen it is a
question to the Jacobian: along the singular vector of its smallest singular value the law may be
moved and the fit stays as good.
"""

from dtlib.errors import DtlibError
from dtlib.later import np

_MOST = 1.0  # standard error, of a logarithm or a power, above which a direction was not seen
_SINGULAR = 1e-9


class NotIdentified(DtlibError, ValueError):
    """The points do not see a direction of the law; the message names it."""


def blind_direction(moves, names: tuple[str, ...], noise: float) -> tuple[dict[str, float], float]:
    """The direction that the points see least, and its standard error.

    Arguments: `moves` [points, numbers], the Jacobian; `names` of the numbers; `noise`, the
    scatter of what was measured. The error is the noise over the smallest singular value; it is
    infinite where that is zero but for rounding.

    >>> moves = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.001]])
    >>> direction, error = blind_direction(moves, ("a", "b"), noise=0.01)
    >>> {name: round(size, 2) for name, size in direction.items()}, round(error)
    ({'a': -0.71, 'b': 0.71}, 24)
    """
    _, values, directions = np.linalg.svd(moves, full_matrices=False)
    least = directions[-1]
    least = least * np.sign(least[np.abs(least) >= 0.99 * np.abs(least).max()][-1])
    seen = values[-1] > _SINGULAR * values[0]
    error = float(noise / values[-1]) if seen else float("inf")
    return dict(zip(names, map(float, least), strict=True)), error


def require_seen(owner: str, moves, names: tuple[str, ...], noise: float) -> None:
    """Raise NotIdentified where the direction that is seen least has an error above 1.

    >>> require_seen("fit", np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 1e-6]]), ("a", "b"), 0.01)
    Traceback (most recent call last):
    dtlib.scaling_laws.loss_surface.blind.NotIdentified: fit: the runs do not see +1.00 b: \
its standard error is 1.7e+04, allowed 1
    """
    direction, error = blind_direction(moves, names, noise)
    if error > _MOST:
        named = " ".join(
            f"{size:+.2f} {name}" for name, size in direction.items() if abs(size) > 0.1
        )
        raise NotIdentified(
            f"{owner}: the runs do not see {named}: its standard error is {error:.2g}, "
            f"allowed {_MOST:g}"
        )
