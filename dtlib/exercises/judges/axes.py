"""Judges of axes: over which gradients are added, which groups that makes, which is innermost."""

from collections.abc import Mapping
from typing import Any

from dtlib.exercises.judge import items, whole
from dtlib.exercises.verdict import NotYet


def adds_over(given: Any, right: set, spec: str, cuts: dict) -> None:
    """Raise `NotYet` unless these are the axes over which a weight's gradient is added.

    >>> adds_over({"dp"}, {"dp", "cp"}, "bsh,h->bsh", {"dp": "b", "cp": "s"})
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: cp is missing: its ranks have different terms of the sum
    """
    named = _named(given)
    if strange := sorted(named - set(cuts), key=str):
        raise NotYet(f"{strange[0]!r} is no axis of these cuts")
    if missing := sorted(right - named):
        raise NotYet(f"{missing[0]} is missing: its ranks have different terms of the sum")
    if more := sorted(named - right):
        raise NotYet(f"{more[0]} is too much: what do its ranks have of the gradient?")


def names_the_missing(given: Any, right: set, gradients) -> None:
    """Raise `NotYet` unless these are the axes along which gradients were not added."""
    if _named(given) != right:
        raise NotYet("along which axes do ranks differ that should hold one number?")


def groups_of_13(answer: Any, right: Mapping[str, list[int]]) -> None:
    """Raise `NotYet` unless these are the groups of rank 13 on a mesh with four ranks of tp."""
    if not isinstance(answer, dict) or set(answer) != set(right):
        raise NotYet(f"pass a dict with the keys {', '.join(right)}")
    for name, group in right.items():
        given = [whole(rank, name) for rank in items(answer[name], name, len(group))]
        if 13 not in given:
            raise NotYet(f"{name}: rank 13 is in its own group")
        if any(rank % 4 != 1 for rank in given):
            raise NotYet(f"{name}: ranks with another place along tp hold other columns")
        if sorted(given) != group:
            raise NotYet(f"{name}: eight ranks in a row of dp and cp, cut into stretches of four")


def same_groups(given: Any, right: dict[str, list[int]], rank: int, sizes: dict[str, int]) -> None:
    """Raise `NotYet` unless these are the groups of a rank along each axis.

    >>> same_groups({"pp": [0, 1], "tp": [0, 2]}, {"pp": [0, 2], "tp": [0, 1]}, 0, {})
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: pp: who differs from it along pp, and along nothing else?
    """
    if not isinstance(given, dict) or set(given) != set(right):
        raise NotYet(f"return a dict with the keys {', '.join(right)}")
    for axis, group in right.items():
        found = [whole(one, f"a rank of {axis}") for one in items(given[axis], axis, len(group))]
        if rank not in found:
            raise NotYet(f"{axis}: a rank is in its own group")
        if sorted(found) != group:
            raise NotYet(f"{axis}: who differs from it along {axis}, and along nothing else?")
        if found != group:
            raise NotYet(f"{axis}: the right ranks, but not in the order of the axis")


def most_first(answer: Any, sent: Mapping[str, float]) -> None:
    """Raise `NotYet` unless the axes stand in the order of what they send, the most first."""
    given = [str(one) for one in items(answer, "the order", len(sent))]
    if sorted(given) != sorted(sent):
        raise NotYet(f"each of {', '.join(sorted(sent))}, once")
    for now, due in zip(given, sorted(sent, key=sent.__getitem__, reverse=True), strict=True):
        if now != due:
            raise NotYet(
                f"{now} stands where a rank has more to send for another: count bytes of one step, "
                "times layers and micro-batches"
            )


def _named(given: Any) -> set:
    if not isinstance(given, set | frozenset | list | tuple):
        raise NotYet("return a set of names of axes")
    return set(given)
