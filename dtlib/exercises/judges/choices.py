"""Laws of what a search finds: ways, a size, a border, and the layouts that may be the fastest."""

import math
from itertools import product
from typing import Any

from dtlib.exercises.judge import call, function, whole
from dtlib.exercises.verdict import NotYet


def _listed(given: Any, what: str) -> list:
    if isinstance(given, str | dict) or not hasattr(given, "__iter__"):
        raise NotYet(f"{what} must be a list, got {given!r}")
    return list(given)


def _pairs(given: Any, what: str) -> list[tuple]:
    found = _listed(given, what)
    for one in found:
        if isinstance(one, str) or not hasattr(one, "__iter__"):
            raise NotYet(f"{what} must be tuples, got {one!r}")
    return [tuple(one) for one in found]


def same_ways(given: Any, right: list, *args: Any) -> None:
    """The same tuples in any order, each once."""
    found = _pairs(given, "the ways")
    for way in found:
        if way not in right:
            raise NotYet(f"{way} is no way to write {args[0]} with {args[1]} factors")
    if len(set(found)) < len(found):
        raise NotYet("a way is listed twice")
    if missing := len(right) - len(found):
        raise NotYet(f"{missing} of the ways are missing")


def same_border(given: Any, right: list, points: list) -> None:
    """The same points, the least time first."""
    found = _pairs(given, "the border")
    for point in found:
        if point not in points:
            raise NotYet(f"{point} is none of the points")
        if point not in right:
            raise NotYet(f"{point} is beaten by a point that is better in one and as good in both")
    if len(found) != len(right):
        raise NotYet(f"{len(found)} points, but {len(right)} are beaten by none")
    if found != right:
        raise NotYet("the border begins with the least time")


def same_places(given: Any, right: list, times: list, e: float) -> None:
    """The same places, in any order."""
    found = [whole(place, "a place") for place in _listed(given, "the places")]
    for place in found:
        if place not in right:
            raise NotYet(f"place {place} cannot be the fastest, even if its error is in its favour")
    if missing := [place for place in right if place not in found]:
        raise NotYet(f"place {missing[0]} is missing, which may be the fastest")


def halving(answer: Any) -> None:
    """The largest size that fits, found with as few trials as halving needs."""
    function(answer, "largest(fits, sizes)")
    for count, limit in product((1, 2, 5, 16, 33), (0, 1, 3, 7, 33, 100)):
        sizes, tried = [3 * i + 1 for i in range(count)], []

        def fits(size, limit=limit, tried=tried):
            tried.append(size)
            return size <= limit

        where = f"{count} sizes, of which those up to {limit} fit"
        found = call(answer, fits, sizes)
        right = max((size for size in sizes if size <= limit), default=0)
        if found != right:
            said = "no size fits" if right == 0 else "another size is the largest that fits"
            raise NotYet(f"{where}: {said}")
        if strange := [size for size in tried if size not in sizes]:
            raise NotYet(f"{where}: {strange[0]} is none of the sizes")
        most = math.ceil(math.log2(count + 1))
        if len(tried) > most:
            raise NotYet(f"{where}: {len(tried)} trials, where {most} are enough")
