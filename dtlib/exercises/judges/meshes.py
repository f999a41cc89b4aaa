"""Judges of meshes: who makes which groups, and what changes lead from one placement to another."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from dtlib.composition.placement import Change, Placed, changes, cheapest_way
from dtlib.exercises.judge import items, whole
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.grouping import record_groups
from dtlib.later import np
from dtlib.mesh import Partial, Replicate, Shard


def each_has_its_groups(program: Callable, grid: "np.ndarray") -> None:
    """Raise unless ``program(new_group, rank, grid)`` gives each rank its group along each axis.

    Raises `NotYet` for another group and for one that is made twice, and what `record_groups`
    raises where ranks would wait for ever.
    """
    name = "a mesh of " + " × ".join(map(str, grid.shape))
    for rank, (own, calls) in enumerate(record_groups(program, grid.size, grid)):
        place = [int(at[0]) for at in np.nonzero(grid == rank)]
        for axis, group in enumerate(items(own, "the result", grid.ndim)):
            along = grid[(*place[:axis], slice(None), *place[axis + 1 :])]
            if not isinstance(group, tuple) or [*group] != sorted(along.tolist()):
                raise NotYet(f"{name}, rank {rank}: not its group of axis {axis}")
        if len(calls) > sum(grid.size // size for size in grid.shape):
            raise NotYet(f"{name}: some group is made more than once")


def _listed(some: Any) -> list:
    return list(some) if hasattr(some, "__iter__") else []


def stretch(some: Any, name: str, ranks: range, hint: str) -> None:
    """Raise `NotYet` with a hint unless these are the ranks, in any order."""
    given = [whole(rank, f"a rank of the {name}") for rank in _listed(some)]
    if len(given) != len(ranks):
        raise NotYet(f"the {name} must have {len(ranks)} ranks")
    if {*given} != {*ranks}:
        raise NotYet(f"{name}: {hint}")


def rows_in_nodes(grid: Any, nodes: int, gpus: int) -> None:
    """Raise `NotYet` unless each row of a grid of all ranks holds the ranks of one node."""
    rows = [_listed(row) for row in _listed(grid)]
    if [len(row) for row in rows] != [gpus] * nodes:
        raise NotYet(f"the grid must have {nodes} rows of {gpus} ranks")
    rows = [[whole(rank, "a rank") for rank in row] for row in rows]
    if sorted(chain(*rows)) != [*range(nodes * gpus)]:
        raise NotYet(f"the grid must hold each rank from 0 to {nodes * gpus - 1} once")
    if any(len({rank // gpus for rank in row}) > 1 for row in rows):
        raise NotYet("a row of the grid spans several nodes")


KINDS = {"R": Replicate(), "P": Partial(), "S0": Shard(0), "S1": Shard(1)}


def arrives(answer: Any, begin: Placed, target: Placed) -> None:
    """Raise `NotYet` unless changes lead from one placement to another, at the least bytes sent.

    Argument: ``answer``, pairs of an axis and one of `KINDS`, in order.
    """
    if not isinstance(answer, list | tuple) or not answer:
        raise NotYet("pass a list of changes, such as [('tp', 'R'), ...]")
    here, sent = begin, 0.0
    for number, pair in enumerate(answer, 1):
        here, more = _changed(here, pair, target, f"change {number}")
        sent += more
    if here != target:
        raise NotYet("these changes end in another placement")
    if sent > cheapest_way(begin, target).sent_bytes(1):
        raise NotYet("it arrives, but a rank sends more than it must: when does it hold least?")


def _changed(here: Placed, pair: Sequence, target: Placed, where: str) -> tuple[Placed, float]:
    """The placement after a change, and the bytes that a rank sends for it."""
    axis, kind = items(pair, where, 2)
    if axis not in here.mesh.axes or kind not in [*KINDS]:
        axes = " or ".join(here.mesh.axes)
        raise NotYet(f"{where}: an axis, {axes}, and one of {', '.join(KINDS)}")
    after = here.but(**{axis: KINDS[kind]})
    change = Change(axis, here, after)
    if after == here:
        raise NotYet(f"{where}: it lies like that already")
    if not (here.cut_last(axis) and after.cut_last(axis)):
        raise NotYet(f"{where}: an axis within {axis} cuts the same dimension, so the groups of "
                     f"{axis} hold stretches with holes")  # fmt: skip
    if change not in changes(here, target):
        raise NotYet(f"{where}: nobody wants summands here")
    return after, change.sent_bytes(1)
