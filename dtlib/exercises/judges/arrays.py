"""Judge of arrays: shape, kind and the first entry that differs."""

from collections.abc import Callable
from typing import Any

from dtlib.exercises.verdict import NotYet
from dtlib.later import np


def same_array(
    given: Any,
    right: Any,
    what: str,
    tolerance: float = 0.0,
    place: Callable[..., str] | None = None,
) -> None:
    """Raise `NotYet` unless ``given`` has the shape and the entries of ``right``.

    Arguments: ``what`` names it in the verdict; ``tolerance``, relative to the largest entry;
    ``place(*index, entry)`` words what stands at the first place that differs.

    >>> same_array([[1, 2]], [[1, 3]], "dq")
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: dq differs at (0, 1)
    """
    right = np.asarray(right)
    try:
        given = np.asarray(given)
    except ValueError:
        raise NotYet(f"{what} must be an array of shape {right.shape}") from None
    if given.shape != right.shape:
        raise NotYet(f"{what} has shape {given.shape}, not {right.shape}")
    if given.dtype.kind not in ("b" if right.dtype == bool else "iuf"):
        wanted = "booleans" if right.dtype == bool else "numbers"
        raise NotYet(f"{what}: an array of {wanted}, please, not of {given.dtype}")
    allowed = tolerance * np.abs(right).max(initial=0)
    differing = np.argwhere(~np.isclose(given, right, rtol=0, atol=allowed))
    if not len(differing):
        return
    index = tuple(map(int, differing[0]))
    if place:
        raise NotYet(f"{what}: {place(*index, given[index])}")
    raise NotYet(f"{what} differs at {index}")
