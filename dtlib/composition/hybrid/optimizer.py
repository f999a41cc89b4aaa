"""An optimizer that is sharded among the replicas of each weight, as a stage of ZeRO says."""

from collections.abc import Callable, Mapping

import torch
from torch import nn

from dtlib.composition.hybrid.pieces import Pieces
from dtlib.composition.hybrid.sums import by_group
from dtlib.memory.zero.optimizer import ShardedOptimizer


class ShardedParts(torch.optim.Optimizer):
    """ZeRO stages 1 and 2 where weights have different replicas: one `ShardedOptimizer` for each.

    Arguments: `replicas`, the group of each trained parameter; `pieces`; `late`, parameters whose
    gradient the pipeline adds when all backward passes are over, so that they wait for it, as in
    stage 1; `optimizer_class` with its `defaults`; `zero`, 1 or 2.
    Its flat tensors hold weights of which equally many ranks have the same piece, so that a norm
    over all ranks counts every number once. `param_groups` and `state` are those of all parts, so
    that schedules of the learning rate work.
    """

    def __init__(
        self, replicas: Mapping, pieces: Pieces, late: set, optimizer_class, zero, **defaults
    ):
        self.pieces, self.optimizers = pieces, []
        for group, parameters, waits in by_group(replicas, late):
            counts = sorted({pieces.copies(p) for p in parameters})
            groups = [{"params": [p for p in parameters if pieces.copies(p) == n]} for n in counts]
            self.optimizers.append(
                ShardedOptimizer(groups, optimizer_class, group, average=False,
                                 zero=1 if waits else zero, **defaults)
            )  # fmt: skip
        super().__init__([flat.own for flat in self.flats], self.optimizers[0].defaults)
        self.param_groups = [group for one in self.optimizers for group in one.param_groups]

    @property
    def state(self) -> dict:
        """What the optimizers keep of their flat tensors; a copy, so change what stands in it."""
        return {q: kept for one in self.optimizers for q, kept in one.state.items()}

    @state.setter
    def state(self, made: dict) -> None:
        """torch's constructor makes one; each optimizer has its own."""

    @property
    def flats(self) -> list:
        """The flat tensors of all optimizers."""
        return [flat for one in self.optimizers for flat in one.flats]

    def copies(self) -> dict[nn.Parameter, float]:
        """On how many ranks the numbers of each flat part lie."""
        return {flat.own: self.pieces.copies(flat.parameters[0]) / flat.P for flat in self.flats}

    def step(self, closure: Callable | None = None):
        """Reduce what is left, update the own parts, gather the weights."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for one in self.optimizers:
            one.step()
        return loss

    def reduce_gradients(self) -> None:
        """From whole gradients of this rank to its part of their sum."""
        for one in self.optimizers:
            one.reduce_gradients()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        for one in self.optimizers:
            one.zero_grad(set_to_none)

    def gradients(self) -> dict[nn.Parameter, torch.Tensor]:
        """The summed gradient of each parameter of this rank, made whole among its replicas."""
        self.reduce_gradients()
        found = {}
        for flat in self.flats:
            found.update(zip(flat.parameters, flat.gathered(flat.own.grad), strict=True))
        return found
