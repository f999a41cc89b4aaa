"""Data parallelism: each rank has the whole model and a share of the batch; gradients are averaged.

The nouns:

- **Replica**: a rank's copy of the model. All are equal before a step, so all are equal after it.
- **Bucket**: neighbouring parameters whose gradients travel together, in one flat tensor.
- **Ready**: autograd has added the last contribution to a parameter's gradient.

Three ways to average, the plain ones first: `average_each`, `average_flat`, `DataParallel`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn

from dtlib.foundations.units import MiB


def average_each(module: nn.Module, group) -> None:
    """Replace every gradient by its mean over the ranks: one all-reduce for each parameter.

    A parameter without a gradient counts as a gradient of zero, so that every rank takes part.
    """
    P = _size(group)
    for parameter in _trainable(module):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad.div_(P)


def average_flat(module: nn.Module, group) -> None:
    """The same in one all-reduce of one flat tensor: fewer starts, but nothing can begin early."""
    for bucket in map(Bucket, _of_one_kind(_trainable(module))):
        for parameter in bucket.parameters:
            bucket.take(parameter, 1 / _size(group))
        dist.all_reduce(bucket.flat, group=group)
        bucket.give()


def token_mean_loss(loss_sum: torch.Tensor, tokens: int, group) -> torch.Tensor:
    """This rank's loss, such that the mean of all ranks' gradients is that of the whole batch.

    Equation: P / N times the sum over this rank's tokens, with N the tokens of all ranks. The mean
    over P ranks is then the sum over all tokens, divided by N.
    Arguments: `loss_sum`, the summed loss of this rank's valid tokens; `tokens`, how many those
    are, which may be 0; `group`. Returns a scalar to call `backward` on; the mean of its values
    over the ranks is the mean loss. One all-reduce of one number.
    Raises ValueError when no rank has a token.
    """
    counted = torch.tensor(float(tokens), dtype=torch.float64, device=loss_sum.device)
    dist.all_reduce(counted, group=group)
    if not counted.item():
        raise ValueError("tokens = 0 on every rank; a mean needs at least one")
    return loss_sum * (_size(group) / counted.item())


class Bucket:
    """Parameters of one dtype and device, and one flat tensor in which their gradients travel."""

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

    def take(self, parameter: nn.Parameter, factor: float) -> None:
        """Put this gradient, times ``factor``, in its place; in place if it lives there already."""
        view = self.views[parameter]
        if parameter.grad is None:
            view.zero_()
        else:
            torch.mul(parameter.grad, factor, out=view)
        self.missing.discard(parameter)

    def give(self) -> None:
        """The flat tensor's parts become the gradients; nothing is copied."""
        for parameter, view in self.views.items():
            parameter.grad = view
        self.missing, self.work = set(self.parameters), None


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
        if not groups or filled + size > limit or not _alike(parameter, groups[-1][0]):
            groups.append([])
            filled = 0
        groups[-1].append(parameter)
        filled += size
    return [Bucket(group) for group in groups]


class DataParallel(nn.Module):
    """A replica whose `backward` ends with the mean of all ranks' gradients.

    Equation: the gradient of the mean of P losses is the mean of their P gradients.
    As soon as the gradients of a bucket are ready, its all-reduce starts, while autograd goes on
    with the layers before. What is left is awaited when `backward` ends.
    Arguments: `module`, whose parameters and buffers become those of rank 0; `group`;
    `bucket_bytes`, of a bucket, and `first_bucket_bytes`, of the one that is ready first; `order`,
    of the parameters in the buckets: "reverse" of how the module lists them, or "observed", the
    order in which rank 0's gradients got ready in the first step; `overlap=False` starts every
    all-reduce when `backward` is over; `average=False` adds gradients and does not divide by P,
    for a loss that is already a part of the whole: clear the gradients after each such sum, which
    the next one would add P times (under `no_sync` they may collect); `find_unused` spends one more
    all-reduce to leave alone what got no gradient on any rank, which else gets one of zero.
    After a step a gradient is a view of its bucket: clone what must outlive the next backward pass.
    Raises ValueError for an order of another name, sizes that are not positive, and a module
    without a parameter to train; TypeError for no group. Source: Li et al. 2020.
    """

    def __init__(
        self,
        module: nn.Module,
        group,
        *,
        bucket_bytes: int = 25 * MiB,
        first_bucket_bytes: int = MiB,
        order: str = "reverse",
        overlap: bool = True,
        average: bool = True,
        find_unused: bool = False,
    ):
        super().__init__()
        if order not in ("reverse", "observed"):
            raise ValueError(f"order = {order!r}; allowed are 'reverse' and 'observed'")
        self.module, self.group, self.order, self.overlap = module, group, order, overlap
        self.find_unused = find_unused
        self._factor = 1 / _size(group) if average else 1.0
        self._sizes = bucket_bytes, first_bucket_bytes
        self._sync, self._running = True, False
        self._seen: list[nn.Parameter] = []
        self._parameters_listed = _trainable(module)
        self._arrange(self._parameters_listed[::-1])
        self._learning = order == "observed"
        broadcast_coalesced([*module.parameters(), *module.buffers()], group)
        for parameter in self._parameters_listed:
            parameter.register_post_accumulate_grad_hook(self._on_ready)

    def forward(self, *args, **kwargs):
        """The module's own; in training, rank 0's buffers are handed to all ranks before."""
        self._running = False
        if self.training and self._sync:
            broadcast_coalesced(self.module.buffers(), self.group)
        return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in here add to the rank's own gradients and communicate nothing."""
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before

    def launch(self, bucket: Bucket) -> None:
        """Start the all-reduce of a bucket, and do not wait for it."""
        bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)

    def _arrange(self, parameters: Sequence[nn.Parameter]) -> None:
        self.buckets = buckets_of(parameters, *self._sizes)
        self._bucket_of = {p: bucket for bucket in self.buckets for p in bucket.parameters}

    def _on_ready(self, parameter: nn.Parameter) -> None:
        if not self._sync:
            return
        if not self._running:
            self._begin()
        self._seen.append(parameter)
        self._bucket_of[parameter].take(parameter, self._factor)
        if self.overlap:
            self._launch_ready()

    def _begin(self) -> None:
        self._running, self._launched, self._seen = True, 0, []
        for bucket in self.buckets:
            bucket.missing = set(bucket.parameters)
        torch.autograd.Variable._execution_engine.queue_callback(self._finish)

    def _launch_ready(self) -> None:
        """Buckets start in their order on every rank, or two ranks would add different ones."""
        while self._launched < len(self.buckets) and not self.buckets[self._launched].missing:
            self.launch(self.buckets[self._launched])
            self._launched += 1

    def _finish(self) -> None:
        """When the backward pass is over: what is missing, then wait for all."""
        seen, idle = set(self._seen), []
        for bucket in self.buckets:
            for parameter in list(bucket.missing):
                bucket.take(parameter, self._factor)
        self._launch_ready()
        if self.find_unused:
            idle = self._unused_everywhere(seen)
        for bucket in self.buckets:
            bucket.work.wait()
            bucket.give()
        for parameter in idle:
            parameter.grad = None
        self._running = False
        if self._learning:
            self._learn_order(seen)

    def _unused_everywhere(self, seen: set[nn.Parameter]) -> list[nn.Parameter]:
        used = [float(p in seen or p.grad is not None) for p in self._parameters_listed]
        flags = torch.tensor(used, device=self.buckets[0].flat.device)
        dist.all_reduce(flags, group=self.group)
        return [p for p, f in zip(self._parameters_listed, flags.tolist(), strict=True) if not f]

    def _learn_order(self, seen: set[nn.Parameter]) -> None:
        """Arrange the buckets anew, in the order in which rank 0's gradients got ready."""
        late = [p for p in self._parameters_listed[::-1] if p not in seen]
        numbers = {p: i for i, p in enumerate(self._parameters_listed)}
        order = torch.tensor([numbers[p] for p in self._seen + late])
        order = order.to(self.buckets[0].flat.device)
        dist.broadcast(order, dist.get_global_rank(self.group, 0), group=self.group)
        self._learning = False
        kept = {p: p.grad for p in self._parameters_listed}
        self._arrange([self._parameters_listed[i] for i in order.tolist()])
        for parameter, gradient in kept.items():
            parameter.grad = gradient


@torch.no_grad()
def broadcast_coalesced(tensors: Iterable[torch.Tensor], group) -> None:
    """Give every rank rank 0's values: one broadcast for each dtype and device."""
    source = dist.get_global_rank(group, 0)
    for same in _of_one_kind(list(tensors)):
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in same])
        dist.broadcast(flat, source, group=group)
        for tensor, part in zip(same, flat.split([t.numel() for t in same]), strict=True):
            tensor.detach().copy_(part.view_as(tensor))


def _trainable(module: nn.Module) -> list[nn.Parameter]:
    found = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not found:
        raise ValueError("module: no parameter requires a gradient, so there is nothing to average")
    return found


def _of_one_kind(tensors: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    kinds: dict[tuple, list[torch.Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    return list(kinds.values())


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a.dtype, a.device) == (b.dtype, b.device)


def _size(group) -> int:
    if group is None:
        raise TypeError("group = None; a process group is explicit, such as dist.group.WORLD")
    return dist.get_world_size(group)
