"""Groups of ranks: a grid with one axis for each strategy, and the group of a rank along each.

`axis_groups` says who talks to whom, and needs no torch; process groups are made of it.
"""

from collections.abc import Iterable
from math import prod

from dtlib.formulas.require import require, require_count


def axis_groups(**sizes: int) -> dict[str, list[list[int]]]:
    """For each axis of a grid of ranks, the groups that differ in that coordinate only.

    Arguments: the size of each axis by name, the outermost first: neighbouring ranks differ in the
    last. Returns for each name all its groups, each a list of ranks: every rank makes every group,
    in this order, because torch's `new_group` is a call of all ranks.
    Raises ValueError for a size that is not a whole number of at least 1. Source: count.

    >>> axis_groups(dp=2, tp=2)
    {'dp': [[0, 2], [1, 3]], 'tp': [[0, 1], [2, 3]]}
    """
    require_count("axis_groups", **sizes)
    names, ranks = list(sizes), range(prod(sizes.values()))
    strides = {name: prod(list(sizes.values())[i + 1 :]) for i, name in enumerate(names)}
    groups = {}
    for name, stride in strides.items():
        size = sizes[name]
        firsts = [rank for rank in ranks if rank // stride % size == 0]
        groups[name] = [[first + i * stride for i in range(size)] for first in firsts]
    return groups


def groups_of(rank: int, **sizes: int) -> dict[str, list[int]]:
    """The group of one rank along each axis. Raises ValueError for a rank outside of the grid.

    >>> groups_of(13, dp=2, ep=8, tp=4)
    {'dp': [13, 45], 'ep': [1, 5, 9, 13, 17, 21, 25, 29], 'tp': [12, 13, 14, 15]}
    """
    world = prod(sizes.values())
    require(0 <= rank < world, "groups_of", "rank", rank, f"from 0 to {world - 1}")
    return {
        name: next(group for group in groups if rank in group)
        for name, groups in axis_groups(**sizes).items()
    }


def make_groups(**sizes: int) -> dict:
    """On real ranks: this rank's process group along each axis. Every rank makes all groups.

    Raises ValueError when the sizes do not multiply to the number of ranks.
    """
    import torch.distributed as dist

    world, ranks = dist.get_world_size(), prod(sizes.values())
    require(ranks == world, "make_groups", "the number of ranks", ranks, f"{world}, the world size")
    own = {}
    for name, groups in axis_groups(**sizes).items():
        for members in groups:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[name] = group
    return own


def group_within(group, places: Iterable[int]):
    """A process group of some ranks of a group, made by the ranks of that group alone.

    Torch's plain `new_group` is a call of all ranks of the world. Its form for members only names a
    group by its ranks and by how many groups this process has a name for, so ranks with different
    numbers would wait for each other under different names. Here the ranks first agree on a number
    that none has used, and each fills up to it with groups of itself alone, which it gives back.
    Arguments: `group`, all of whose ranks call this; `places` in it of the ranks of the new group,
    among them this rank's: the ranks' lists are the same, or have no rank in common.
    Raises ValueError when this rank is not among its places.
    """
    import torch.distributed as dist

    places = sorted(places)
    rank = dist.get_rank(group)
    require(rank in places, "group_within", "places", places, f"some with this rank's, {rank}")
    names = dist.distributed_c10d._world.pg_names
    used: list = [None] * dist.get_world_size(group)
    dist.all_gather_object(used, max(len(names), _NUMBERS["next"]), group=group)
    number = max(used)
    _NUMBERS["next"] = number + 1
    alone = [_of_members([dist.get_rank()]) for _ in range(number - len(names))]
    made = _of_members([dist.get_global_rank(group, place) for place in places])
    for filler in alone:
        dist.destroy_process_group(filler)
    return made


_NUMBERS = {"next": 0}  # of the groups that this process has made within others


def _of_members(ranks: list[int]):
    import torch.distributed as dist

    return dist.new_group(ranks, use_local_synchronization=True)
