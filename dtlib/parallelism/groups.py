"""Groups of ranks: a grid with one axis for each strategy, and the group of a rank along each.

Nothing here needs torch; `axis_groups` says who talks to whom, and a process group is made of it.
"""

from math import prod

from dtlib.foundations.require import require, require_count


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
