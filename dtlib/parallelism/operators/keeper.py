"""Modules that keep process groups: how they are copied, and how they are saved.

A group exists in its processes only. A copy of a module can use the same group, so that an average
of a model's weights or its best state is one `copy.deepcopy`; a file cannot hold it, and holds the
parameters instead.
"""

from copy import deepcopy

import torch.distributed as dist
from torch import nn


class KeepsGroups(nn.Module):
    """A module with process groups among its attributes: its copies use the same groups.

    To be derived from. `copy.deepcopy` copies parameters, buffers and all else, and shares the
    groups; all ranks copy alike, because the copies send as well. Raises TypeError when it is
    pickled, as `torch.save` does with a whole module, and says to save its `state_dict()`.

    >>> KeepsGroups().__reduce_ex__(2)
    Traceback (most recent call last):
    TypeError: KeepsGroups keeps a process group, which exists in this process only and cannot be \
saved: save its state_dict(), and load that into one that is made anew
    """

    def __deepcopy__(self, memo: dict):
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        memo |= {id(kept): kept for kept in vars(self).values() if _is_group(kept)}
        vars(copied).update((name, deepcopy(value, memo)) for name, value in vars(self).items())
        return copied

    def __reduce_ex__(self, protocol):
        raise TypeError(
            f"{type(self).__name__} keeps a process group, which exists in this process only and "
            "cannot be saved: save its state_dict(), and load that into one that is made anew"
        )


class KeepsHooks(KeepsGroups):
    """A module that has put hooks on the parameters of another, which no copy of those would have.

    To be derived from. `instead` says what to copy. Raises TypeError when it is copied.
    """

    instead = "copy the module inside, and wrap the copy"

    def __deepcopy__(self, memo: dict):
        raise TypeError(
            f"{type(self).__name__} has hooks on its parameters, which a copy would not have: "
            f"{self.instead}"
        )


def _is_group(value) -> bool:
    return isinstance(value, dist.ProcessGroup)
