"""What travels together: gradients in buckets, and rank 0's parameters and buffers in one message.

The nouns:

- **Bucket**: neighbouring parameters whose gradients travel together, in one flat tensor.
- **Kind**: dtype and device; one flat tensor holds tensors of one kind.
"""

from collections.abc import Iterable, Sequence

import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    """Parameters of one dtype and device, and one flat tensor in which their gradients travel.

    `missing` are those whose gradient is not ready; `work` is the all-reduce that is under way.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]):
        self.parameters = list(parameters)
        sizes = [parameter.numel() for parameter in self.parameters]
        self.flat = self.parameters[0].detach().new_zeros(sum(sizes))
        parts = zip(self.parameters, self.flat.split(sizes), strict=True)
        self.views = {parameter: part.view_as(parameter) for parameter, part in parts}
        self.missing = set(self.parameters)
        self.work = None

    @property
    def bytes(self) -> int:
        """What one all-reduce of this bucket reduces."""
        return self.flat.numel() * self.flat.element_size()

    def collect(self, factor: float) -> None:
        """Put each gradient, times ``factor``, in its place; in place if it lives there already.

        Raises TypeError for a sparse gradient, RuntimeError for one that has a graph of its own.
        """
        for parameter, view in self.views.items():
            if parameter.grad is None:
                view.zero_()
            else:
                _check_plain(parameter.grad)
                torch.mul(parameter.grad, factor, out=view)

    def give(self) -> None:
        """The flat tensor's parts become the gradients; nothing is copied."""
        for parameter, view in self.views.items():
            parameter.grad = view
        self.work = None

    def drop(self) -> None:
        """No gradient lives in the flat tensor any more."""
        for parameter, view in self.views.items():
            if parameter.grad is view:
                parameter.grad = None


def buckets_of(
    parameters: Iterable[nn.Parameter], bucket_bytes: int, first_bucket_bytes: int
) -> list[Bucket]:
    """Parameters in this order, in buckets of at most so many bytes; a large one has its own.

    The first bucket may be smaller, so that its all-reduce begins early. A bucket ends where the
    dtype or the device changes. Raises ValueError for a size that is not positive.
    """
    for name, size in (("bucket_bytes", bucket_bytes), ("first_bucket_bytes", first_bucket_bytes)):
        if size <= 0:
            raise ValueError(f"{name} = {size}; a bucket needs a positive number of bytes")
    groups: list[list[nn.Parameter]] = []
    filled = 0
    for parameter in parameters:
        size = parameter.numel() * parameter.element_size()
        limit = first_bucket_bytes if len(groups) == 1 else bucket_bytes
        if not groups or filled + size > limit or kind_of(parameter) != kind_of(groups[-1][0]):
            groups.append([])
            filled = 0
        groups[-1].append(parameter)
        filled += size
    return [Bucket(group) for group in groups]


def of_one_kind(tensors: Iterable[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Tensors in lists of one dtype and device each."""
    kinds: dict[tuple, list[torch.Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault(kind_of(tensor), []).append(tensor)
    return list(kinds.values())


def kind_of(tensor: torch.Tensor) -> tuple[torch.dtype, torch.device]:
    """What the tensors of one flat tensor have in common."""
    return tensor.dtype, tensor.device


@torch.no_grad()
def broadcast_coalesced(tensors: Iterable[torch.Tensor], group) -> None:
    """Give every rank rank 0's values: one broadcast for each dtype and device."""
    source = dist.get_global_rank(group, 0)
    for same in of_one_kind(tensors):
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in same])
        dist.broadcast(flat, source, group=group)
        for tensor, part in zip(same, flat.split([t.numel() for t in same]), strict=True):
            tensor.detach().copy_(part.view_as(tensor))


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
    everybody: list[list[str]] = [[] for _ in range(dist.get_world_size(group))]
    dist.all_gather_object(everybody, own, group=group)
    for rank, other in enumerate(everybody):
        if other != everybody[0]:
            here, there = _first_difference(other, everybody[0])
            raise ValueError(
                f"module: rank {rank} of the group trains other parameters than rank 0: "
                f"{here}, where rank 0 has {there}; replicas must be alike"
            )


def _first_difference(one: list[str], other: list[str]) -> tuple[str, str]:
    longest = max(len(one), len(other))
    pairs = zip(*(names + ["none"] * (longest - len(names)) for names in (one, other)), strict=True)
    return next((a, b) for a, b in pairs if a != b)


def _check_plain(gradient: torch.Tensor) -> None:
    if gradient.is_sparse:
        raise TypeError(
            f"a gradient of shape {tuple(gradient.shape)} is sparse, and a bucket is dense; the "
            "module must give dense ones (sparse=False)"
        )
    if gradient.requires_grad:
        raise RuntimeError(
            "a gradient has a graph of its own (backward(create_graph=True)), which is lost in a "
            "bucket; take derivatives of gradients with torch.autograd.grad"
        )
