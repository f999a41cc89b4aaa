"""Judges of typed programs: they type, they compute what is asked, and what ranks hold means it.

Values are whole numbers, so that what is equal is equal to the last digit; and numpy's, so that a
page can run them.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dtlib.composition.types import SENT, PlacementError, Types, check_step
from dtlib.exercises.judge import call, function
from dtlib.exercises.verdict import NotYet
from dtlib.later import np

Placements = Mapping[str, Mapping[str, Any]]


class Whole:
    """The interpreter of one process with numpy's arrays; nothing is sent.

    A function that a program names is one of whole numbers: "square" is x², and any other, along a
    dimension, each element times the sum of its stretch.
    """

    def einsum(self, spec: str, *arrays):
        return np.einsum(spec, *arrays)

    def add(self, *arrays):
        return sum(arrays[1:], arrays[0])

    def pointwise(self, f, x):
        return f(x) if callable(f) else x * x

    def along(self, f, x, dim: int):
        return f(x, dim) if callable(f) else x * x.sum(dim, keepdims=True)

    def send(self, name: str, x, axis: str, dim: int = 0, to: int | None = None):
        return x


class Task(NamedTuple):
    """A typed program that is to be written, on a mesh of one axis.

    ``signature``, as the page names it; ``right``, what it computes in one process; ``axis``;
    ``weights`` and ``inputs``, their placements; ``shapes``, of each value by its name.
    """

    signature: str
    right: Callable
    axis: str
    weights: Placements
    inputs: Placements
    shapes: Mapping[str, tuple[int, ...]]


def sent_by(program: Callable, task: Task) -> Counter:
    """How often a program sends each line of `SENT`, which types and computes what it should.

    Raises `NotYet` with the line that does not type, as `check_step` does, and where it computes
    something else.
    """
    function(program, task.signature)

    def typed(program):
        return check_step(program, [task.axis], task.weights, task.inputs)

    try:
        do = call(typed, program, passing=(PlacementError,))
    except PlacementError as refused:
        raise NotYet(str(refused)) from None
    same_in_one_process(program, task.right, task.shapes)
    return _sent(do)


def _sent(do: Types) -> Counter:
    names = [line.partition(" of ")[0] for line, _ in do.lines]
    return Counter(name for name in names if name in SENT)


def same_in_one_process(
    program: Callable, right: Callable, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise `NotYet` unless a program computes in one process what ``right`` does.

    Arguments: both take an interpreter and values; ``shapes``, one for each value by its name.

    >>> same_in_one_process(lambda do, x: do.add(x, x), lambda do, x: 3 * x, {"x": (2,)})
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: it types, but in one process it computes something else
    """
    draw = np.random.default_rng(23)
    values = {name: draw.integers(-3, 4, shape) for name, shape in shapes.items()}

    def in_one_process(program):
        return program(Whole(), **{name: value.copy() for name, value in values.items()})

    given = call(in_one_process, program)
    if not np.array_equal(given, in_one_process(right)):
        raise NotYet("it types, but in one process it computes something else")


def lies_as(given: Any, right: str, spec: str, placements: tuple[str, ...]) -> None:
    """The law of a rule for einsums: raise `NotYet` unless it says how two ranks' results lie.

    Arguments: ``given`` and ``right``, "refused" or one of `meanings`, whose arguments follow.
    """
    if given == right:
        return
    possible = ["C", "P", "refused", *(f"S{dim}" for dim in range(len(spec.split("->")[1])))]
    if given not in possible:
        raise NotYet(f"must be one of {', '.join(possible)}, got {given!r}")
    found = meanings(spec, placements)
    if given == "refused" and found:
        raise NotYet("refused, though two ranks' results mean what one process computes")
    if not found:
        raise NotYet("two ranks' results mean nothing, however they are joined")
    raise NotYet("on two ranks, with whole numbers, the results do not lie like that")


def meanings(spec: str, placements: tuple[str, ...], ranks: int = 2) -> list[str]:
    """How the results of an einsum lie that every rank computes from its pieces; none: []

    Arguments: ``spec``, in which every letter has a length that ``ranks`` divides; for each operand
    "C", copies, "P", summands, or "S0", "S1", ..., pieces along that dimension.

    >>> meanings("ab,bc->ac", ("S1", "S0")), meanings("ab,bc->ac", ("P", "P"))
    (['P'], [])
    """
    operands, out = spec.split("->")
    each = operands.split(",")
    draw = np.random.default_rng(7)
    length = {letter: ranks * (2 + n) for n, letter in enumerate(sorted(set("".join(each))))}
    whole = [draw.integers(1, 9, [length[one] for one in letters]) for letters in each]
    held = [_held(*one, ranks, draw) for one in zip(whole, placements, strict=True)]
    try:
        made = [np.einsum(spec, *pieces) for pieces in zip(*held, strict=True)]
    except ValueError:
        return []
    kinds = ["C", "P", *(f"S{dim}" for dim in range(len(out)))]
    return [kind for kind in kinds if _mean(made, kind, np.einsum(spec, *whole))]


def _held(whole, placed: str, ranks: int, draw) -> list:
    """What each rank holds of an array."""
    if placed == "C":
        return [whole] * ranks
    if placed == "P":
        summands = [draw.integers(1, 9, whole.shape) for _ in range(ranks - 1)]
        return [*summands, whole - sum(summands)]
    return np.split(whole, ranks, int(placed[1:]))


def _mean(made: list, kind: str, whole) -> bool:
    if kind == "C":
        return all(np.array_equal(one, whole) for one in made)
    if kind == "P":
        return np.array_equal(sum(made), whole)
    try:
        return np.array_equal(np.concatenate(made, int(kind[1:])), whole)
    except ValueError:
        return False
