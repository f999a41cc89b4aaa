"""A tensor laid otherwise, on real ranks: each change of a way is one collective of one group.

A collective wants equal parts, and what `torch.chunk` cuts may end in shorter ones: they are padded
before they travel and cut afterwards.
"""

import torch
import torch.distributed as dist

from dtlib.composition.placement import Change, Placed, Way, cheapest_way
from dtlib.formulas.require import require
from dtlib.parallelism.operators import messages


def redistribute(
    x: torch.Tensor, groups: dict, source: Placed, target: Placed, way: Way | None = None
) -> torch.Tensor:
    """This rank's piece of a tensor, placed otherwise. All ranks of the mesh call it.

    Arguments: ``x``, this rank's piece, or its summand; ``groups`` of its mesh
    (`dtlib.mesh.make_groups`); ``source``, how the tensor lies, and ``target``, how it should;
    ``way``, the changes (None: `cheapest_way` by bytes).
    Returns the piece; it is x itself where nothing is to be done.
    Raises ValueError for a piece of another shape than the placement gives this rank.
    """
    rank = dist.get_rank()
    own = _lengths(source, rank)
    require(tuple(x.shape) == own, "redistribute", "x.shape", tuple(x.shape), f"{own}, its part")
    for change in (way or cheapest_way(source, target)).changes:
        x = _CARRIED[change.collective](x, groups[change.axis], change, rank)
    return x


def _gathered(x, group, change: Change, rank: int):
    dim = change.before[change.axis].dim
    longest = _longest(change.after, dim, group, rank)
    return _cut(messages.all_gather(_padded(x, dim, longest), group, dim), change.after, rank)


def _scattered(x, group, change: Change, rank: int):
    dim, q = change.after[change.axis].dim, dist.get_world_size(group)
    even = _padded(x, dim, q * _longest(change.before, dim, group, rank))
    return _cut(messages.reduce_scatter(even, group, dim), change.after, rank)


def _summed(x, group, change: Change, rank: int):
    return messages.all_reduce(x, group)


def _turned(x, group, change: Change, rank: int):
    old, new = change.before[change.axis].dim, change.after[change.axis].dim
    q, rows = dist.get_world_size(group), _longest(change.after, old, group, rank)
    columns = _longest(change.before, new, group, rank)
    even = _padded(_padded(x, old, rows), new, q * columns)
    came = messages.all_to_all(even.unflatten(new, (q, columns)).movedim(new, 0), group)
    return _cut(torch.cat(tuple(came), old), change.after, rank)


def _sliced(x, group, change: Change, rank: int):
    return x[_inside(change.after, change.before, rank)].clone()


def _kept_by_one(x, group, change: Change, rank: int):
    return x if dist.get_rank(group) == 0 else torch.zeros_like(x)


def _spread(x, group, change: Change, rank: int):
    summand = x.new_zeros(_lengths(change.after, rank))
    summand[_inside(change.before, change.after, rank)] = x
    return summand


_CARRIED = {
    "all-gather": _gathered,
    "reduce-scatter": _scattered,
    "all-reduce": _summed,
    "all-to-all": _turned,
    "slice": _sliced,
    "keep one": _kept_by_one,
    "pad with zeros": _spread,
}


def _lengths(placed: Placed, rank: int) -> tuple[int, ...]:
    return tuple(part.stop - part.start for part in placed.part(rank))


def _longest(whole: Placed, dim: int, group, rank: int) -> int:
    """The longest part that a group has of a dimension, of which its ranks have all in `whole`."""
    return -(-_lengths(whole, rank)[dim] // dist.get_world_size(group))


def _inside(part: Placed, whole: Placed, rank: int) -> tuple[slice, ...]:
    """Where a rank's part lies within the larger one that it has elsewhere."""
    pairs = zip(part.part(rank), whole.part(rank), strict=True)
    return tuple(slice(own.start - all.start, own.stop - all.start) for own, all in pairs)


def _padded(x: torch.Tensor, dim: int, length: int) -> torch.Tensor:
    shape = list(x.shape)
    shape[dim] = length - shape[dim]
    return torch.cat((x, x.new_zeros(shape)), dim) if shape[dim] else x


def _cut(x: torch.Tensor, placed: Placed, rank: int) -> torch.Tensor:
    """Without what was padded: only the last parts are short, so it stands at the end."""
    return x[tuple(map(slice, _lengths(placed, rank)))].contiguous()
