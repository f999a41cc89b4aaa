"""Data parallelism: each rank has the whole model and a share of the batch; gradients are averaged.

The nouns, beside the **Bucket** of `flat.py` and the **Pass** of `backward.py`:

- **Replica**: a rank's copy of the model. All are equal before a step, so all are equal after it.

Three ways to average, the plain ones first: `average_each`, `average_flat`, `DataParallel`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn

from dtlib.formulas.units import MiB
from dtlib.parallelism.data.alike import Buffers, broadcast_coalesced, check_replicas
from dtlib.parallelism.data.backward import BackwardPass, with_graph
from dtlib.parallelism.data.flat import Flat, buckets_of, by_kind, kind_of
from dtlib.parallelism.operators.keeper import KeepsHooks
from dtlib.runtime.process_group import ranks_of


def average_each(module: nn.Module, group) -> None:
    """Replace every gradient by its mean over the ranks: one all-reduce for each parameter.

    A parameter without a gradient counts as a gradient of zero, so that every rank takes part.
    """
    _, P = ranks_of(group)
    for parameter in _trainable(module):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad.div_(P)


def average_flat(module: nn.Module, group) -> None:
    """The same in one all-reduce of one flat tensor: fewer starts, but nothing can begin early."""
    _, P = ranks_of(group)
    for bucket in map(Bucket, by_kind(_trainable(module))):
        bucket.collect(1 / P)
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
    _, P = ranks_of(group)
    counted = torch.tensor(float(tokens), dtype=torch.float64, device=loss_sum.device)
    dist.all_reduce(counted, group=group)
    if not counted.item():
        raise ValueError("tokens = 0 on every rank; a mean needs at least one")
    return loss_sum * (P / counted.item())


class Bucket(Flat):
    """A flat tensor in which gradients travel; `work` is the all-reduce that is under way."""

    def __init__(self, parameters: Sequence[nn.Parameter]):
        super().__init__(parameters)
        self.flat = parameters[0].detach().new_zeros(self.length)
        self.views = self.cut(self.flat)
        self.work = None

    def collect(self, factor: float) -> None:
        """Put each gradient, times ``factor``, in its place; in place if it lives there already.

        Raises TypeError for a sparse gradient, RuntimeError for one that has a graph of its own.
        """
        if any(g is not None and g.requires_grad for g in self.gradients()):
            raise RuntimeError(
                "a gradient has a graph of its own (backward(create_graph=True)), which is lost in "
                "a bucket; take derivatives of gradients with torch.autograd.grad"
            )
        self.lay_out(self.gradients(), factor, into=self.flat)

    def give(self) -> None:
        """The flat tensor's parts become the gradients; nothing is copied."""
        for parameter, view in zip(self.parameters, self.views, strict=True):
            parameter.grad = view
        self.work = None

    def drop(self) -> None:
        """No gradient lives in the flat tensor any more."""
        for parameter, view in zip(self.parameters, self.views, strict=True):
            if parameter.grad is view:
                parameter.grad = None


class DataParallel(KeepsHooks):
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
    the next one would add P times (under `no_sync` or `synced_once` they may collect);
    `find_unused` spends one more all-reduce to leave alone what got no gradient on any rank, which
    else gets one of zero; `broadcast_buffers=False` leaves each rank its own buffers throughout.
    The module inside is `module`, so that names in `state_dict()` begin with "module.", as torch's.
    A forward pass takes up what was frozen, unfrozen, cast or replaced in it, on every rank alike.
    After a step a gradient is a view of its bucket: clone what must outlive the next backward pass.
    Raises ValueError for an order of another name, sizes that are not positive, a module without a
    parameter to train or other than rank 0's, and a group without this rank; TypeError for no
    group, a sparse gradient, and a copy; RuntimeError in `backward` where torch's reentrant
    checkpoint adds to a gradient that was sent already. Source: Li et al. 2020.
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
        broadcast_buffers: bool = True,
    ):
        super().__init__()
        if order not in ("reverse", "observed"):
            raise ValueError(f"order = {order!r}; allowed are 'reverse' and 'observed'")
        _, P = ranks_of(group)
        self.module, self.group, self.order, self.overlap = module, group, order, overlap
        self.find_unused, self.broadcast_buffers = find_unused, broadcast_buffers
        self._factor = 1 / P if average else 1.0
        self._sizes = bucket_bytes, first_bucket_bytes
        self._sync, self._pass = True, None
        self._kinds, self._hooks = None, {}
        self._follow()
        broadcast_coalesced(module.parameters(), group)
        self._buffers_of_all = Buffers(module, group)
        if broadcast_buffers:
            self._buffers_of_all.hand_out()

    def forward(self, *args, **kwargs):
        """The module's own; in training, rank 0's buffers are handed to all ranks before."""
        recomputes = self._running
        if not recomputes:
            self._settle()
            self._follow()
            self._hand_out_buffers()
        output = self.module(*args, **kwargs)
        for tensor in with_graph(output) if not recomputes else ():
            tensor.register_hook(self._on_output)
        return output

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in here add to the rank's own gradients and communicate nothing."""
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before

    @contextmanager
    def synced_once(self) -> Iterator[None]:
        """Backward passes in here are reduced together, when the block ends.

        Buffers are handed out when it begins. Inside `no_sync`, nothing is sent.
        """
        self._settle()
        self._hand_out_buffers()
        with self.no_sync():
            yield
        if self._sync:
            for bucket in self.buckets:
                self._send(bucket)
            self._give()

    def launch(self, bucket: Bucket) -> None:
        """Start the all-reduce of a bucket, and do not wait for it."""
        bucket.work = dist.all_reduce(bucket.flat, group=self.group, async_op=True)

    @property
    def _running(self) -> bool:
        return self._pass is not None and self._pass.running

    def _on_output(self, gradient: torch.Tensor) -> None:
        if self._sync and not self._running:
            self._begin()

    def _on_ready(self, parameter: nn.Parameter) -> None:
        if not self._sync:
            return
        if not self._running:
            self._begin()
        self._pass.strike_off(parameter)
        if self.overlap:
            self._pass.launch_complete()

    def _begin(self) -> None:
        self._settle()
        self._pass = BackwardPass(self._finish, self.buckets, self._send)

    def _send(self, bucket: Bucket) -> None:
        bucket.collect(self._factor)
        self.launch(bucket)

    def _finish(self) -> None:
        """When the pass is over: reduce what is left, if it came to the parameters at all."""
        over, self._pass = self._pass, None
        if over.ready:
            over.launch_rest()
            self._give()
            if self._learning:
                self._learn_order(over.ready)
        if over.late:
            names = {p: name for name, p in self.module.named_parameters()}
            raise RuntimeError(
                f"module: {names[over.late[0]]!r} got more of its gradient after that was sent, "
                "which torch's checkpoint(use_reentrant=True) may do to a weight that is used in "
                "several places; take use_reentrant=False, or DataParallel(..., overlap=False)"
            )

    def _give(self) -> None:
        """Wait for all that is launched; what got no gradient on any rank is left alone."""
        idle = self._unused_everywhere() if self.find_unused else []
        for bucket in self.buckets:
            bucket.work.wait()
            bucket.give()
        for parameter in idle:
            parameter.grad = None

    def _settle(self) -> None:
        """After a pass that failed: send what other ranks, which came further, may wait for.

        That is NaN, which none of them can take for a gradient, and here nothing becomes of it.
        """
        failed, self._pass = self._pass, None
        if failed is None:
            return
        for bucket in failed.waiting:
            bucket.flat = torch.full_like(bucket.flat, torch.nan)
            self.launch(bucket)
        if self.find_unused:
            self._unused_everywhere()
        for bucket in self.buckets:
            bucket.work.wait()
            if bucket not in failed.waiting:
                bucket.drop()
        if self._learning:
            self._learn_order(failed.ready)
        else:
            self._arrange(self._arranged)

    def _follow(self) -> None:
        """The buckets hold what the module trains now; where that is nothing, they stay."""
        trained = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        kinds = {parameter: kind_of(parameter) for parameter in trained.values()}
        if kinds == self._kinds or (self._kinds and not kinds):
            return
        check_replicas(trained, self.group)
        self._arrange(_trainable(self.module)[::-1])
        self._kinds, self._learning = kinds, self.order == "observed"
        for parameter in self._hooks.keys() - kinds.keys():
            self._hooks.pop(parameter).remove()
        new = [parameter for parameter in kinds if parameter not in self._hooks]
        broadcast_coalesced(new, self.group)
        for parameter in new:
            hook = parameter.register_post_accumulate_grad_hook(self._on_ready)
            self._hooks[parameter] = hook

    def _hand_out_buffers(self) -> None:
        if self.training and self._sync and self.broadcast_buffers:
            self._buffers_of_all.hand_out()

    def _arrange(self, parameters: Sequence[nn.Parameter]) -> None:
        self.buckets = [Bucket(together) for together in buckets_of(parameters, *self._sizes)]

    @property
    def _arranged(self) -> list[nn.Parameter]:
        return [parameter for bucket in self.buckets for parameter in bucket.parameters]

    def _unused_everywhere(self) -> list[nn.Parameter]:
        listed = self._arranged
        used = [float(p.grad is not None) for p in listed]
        flags = torch.tensor(used, device=self.buckets[0].flat.device)
        dist.all_reduce(flags, group=self.group)
        return [p for p, f in zip(listed, flags.tolist(), strict=True) if not f]

    def _learn_order(self, ready: Iterable[nn.Parameter]) -> None:
        """Arrange the buckets anew, in the order in which rank 0's gradients got ready."""
        listed = self._arranged
        places = {parameter: i for i, parameter in enumerate(listed)}
        ready = dict.fromkeys([*ready, *listed])
        order = torch.tensor([places[parameter] for parameter in ready])
        order = order.to(self.buckets[0].flat.device)
        dist.broadcast(order, dist.get_global_rank(self.group, 0), group=self.group)
        self._learning = False
        self._arrange([listed[i] for i in order.tolist()])

    def __getattr__(self, name: str):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name != "module" and hasattr(self.module, name):
                message = f"DataParallel has no {name!r}, but the module inside has: .module.{name}"
                raise AttributeError(message) from None
            raise


def _trainable(module: nn.Module) -> list[nn.Parameter]:
    found = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not found:
        raise ValueError("module: no parameter requires a gradient, so there is nothing to average")
    return found
