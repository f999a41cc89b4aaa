"""A process group of some ranks of another one, made by these ranks alone."""

from collections.abc import Iterable

from dtlib.formulas.require import require
from dtlib.runtime.process_group import told


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
    number = max(told(max(len(names), _NUMBERS["next"]), group))
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
