"""Steps in which one sum is left out, all of them, and the law of the test that finds which."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from dtlib.exercises.judge import function, items, perform
from dtlib.exercises.labs.three_axes.laws import gradients_of
from dtlib.exercises.labs.three_axes.model import dense
from dtlib.exercises.labs.three_axes.programs import axes_of, groups_of, step
from dtlib.exercises.verdict import NotYet

SIZES = {"dp": 2, "pp": 2, "tp": 2}
LEFT_OUT = ("blocks.0.attention.value.weight", "tp")


def broken() -> list[dict]:
    """The gradients of all 8 ranks after a step in which one sum over one axis was left out."""
    return [dict(found) for found in added(SIZES, LEFT_OUT)]


def added(sizes: dict, left_out: tuple | None) -> list[dict]:
    """The gradients of a step on a mesh with every sum but one, or with all of them."""
    runs = [dict(found) for found in _shares(tuple(sizes.items()))]
    for name in dict.fromkeys(name for found in runs for name in found):
        for axis in axes_of(name):
            if (name, axis) != left_out:
                _add(runs, name, groups_of(sizes, {axis}))
    return runs


def variants() -> Iterator[tuple[str, str]]:
    """Each weight of the model with each axis along which its gradients are added."""
    for name, _ in dense().named_parameters():
        yield from ((name, axis) for axis in axes_of(name))


def finder_law(answer: Any) -> None:
    finder, found = items(answer, "(missing, found)", 2)
    function(finder, "missing(gradients, sizes)")
    for sizes in (SIZES, {"tp": 2, "pp": 2, "dp": 2}):
        _finds(finder, sizes, None)
        for left_out in variants():
            _finds(finder, sizes, left_out)
    if not isinstance(found, list | tuple) or tuple(found) != LEFT_OUT:
        raise NotYet("your test finds every one; what does it say of the given program?")


def _finds(finder: Callable, sizes: dict, left_out: tuple | None) -> None:
    said = perform(finder, added(sizes, left_out), dict(sizes))
    said = tuple(said) if isinstance(said, list | tuple) else said
    if said == left_out:
        return
    if left_out is None:
        raise NotYet(f"{sizes}: nothing is left out, and the test names {said}"[:250])
    kind = left_out[0].removesuffix(".weight").split(".")[-1]
    if said is None:
        raise NotYet(f"a sum of a weight '{kind}' is left out, and the test finds nothing")
    if not isinstance(said, tuple) or len(said) != 2:
        raise NotYet("a pair (name of the weight, axis), or None")
    what = "another weight" if said[0] != left_out[0] else "another axis"
    raise NotYet(f"a sum of a weight '{kind}' is left out, and the test names {what}")


@cache
def _shares(sizes: tuple) -> list[dict]:
    """What each rank has before anything is added."""

    def alone(*args: Any) -> dict:
        return step(*args, axes_of=lambda name: ())

    return gradients_of(alone, dict(sizes), m=2)


def _add(runs: list[dict], name: str, groups: list[list[int]]) -> None:
    for group in groups:
        held = [rank for rank in group if name in runs[rank]]
        total = sum(runs[rank][name] for rank in held)
        for rank in held:
            runs[rank][name] = total
