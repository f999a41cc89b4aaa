"""Replicas are alike: they train the same parameters, and begin with rank 0's numbers."""

from collections.abc import Iterable
from itertools import zip_longest

import torch
import torch.distributed as dist
from torch import nn

from dtlib.parallelism.data.flat import by_kind
from dtlib.runtime.process_group import told


@torch.no_grad()
def broadcast_coalesced(tensors: Iterable[torch.Tensor], group) -> None:
    """Give every rank rank 0's values: one broadcast for each dtype and device."""
    source = dist.get_global_rank(group, 0)
    for same in by_kind(tensor.detach() for tensor in tensors):
        flat = torch.cat([tensor.reshape(-1) for tensor in same])
        dist.broadcast(flat, source, group=group)
        for tensor, part in zip(same, flat.split([t.numel() for t in same]), strict=True):
            tensor.copy_(part.view_as(tensor))


class Buffers:
    """A module's buffers, which are rank 0's again whenever they are handed out.

    Autograd refuses a graph whose saved tensors were written to, and a graph may have saved a
    buffer. One that nobody has written to since the last time is everywhere what it was: it gets
    the same numbers, and counts as not written to.
    """

    def __init__(self, module: nn.Module, group):
        self.module, self.group = module, group
        self._versions: dict[torch.Tensor, int] = {}

    def hand_out(self) -> None:
        """Give every rank rank 0's; all ranks call it."""
        buffers = list(self.module.buffers())
        same = tuple(b for b in buffers if self._versions.get(b) == b._version)
        with torch.autograd._unsafe_preserve_version_counter(same):
            broadcast_coalesced(buffers, self.group)
        self._versions = {buffer: buffer._version for buffer in buffers}


def check_replicas(parameters: dict[str, nn.Parameter], group) -> None:
    """Raise ValueError on every rank unless all have parameters of these names, shapes and dtypes.

    One gather of names: ranks that disagree would add up gradients of different parameters.
    """
    own = [f"{name} {tuple(p.shape)} {p.dtype}" for name, p in parameters.items()]
    everybody = told(own, group)
    for rank, other in enumerate(everybody):
        if other != everybody[0]:
            pairs = zip_longest(other, everybody[0], fillvalue="none")
            here, there = next((a, b) for a, b in pairs if a != b)
            raise ValueError(
                f"module: rank {rank} of the group trains other parameters than rank 0: "
                f"{here}, where rank 0 has {there}; replicas must be alike"
            )
