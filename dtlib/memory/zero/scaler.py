"""Scaling the loss for gradients in 16 bits, where every rank sees a part of them only."""

import torch.distributed as dist
from torch.distributed.fsdp import sharded_grad_scaler


class ShardedGradScaler(sharded_grad_scaler.ShardedGradScaler):
    """torch's GradScaler for optimizers of parts: all ranks skip a step, or none does.

    Equation: a step is skipped if a gradient is not finite on any rank: one all-reduce of a flag.
    Arguments and methods: as of ``torch.amp.GradScaler``, and `process_group`, the optimizer's (by
    default all ranks, those of now: torch's own takes those that were there when it was imported);
    for a `ShardedOptimizer`, and for optimizers of a `FullySharded`'s parts.
    Source: Micikevicius et al. 2018; torch's ``ShardedGradScaler``.
    """

    def __init__(self, *arguments, process_group=None, **named):
        super().__init__(*arguments, process_group=process_group or dist.group.WORLD, **named)

    def unscale_(self, optimizer) -> None:
        """Reduce what is not reduced yet, and divide by the scale what this rank has of it."""
        if hasattr(optimizer, "reduce_gradients"):
            optimizer.reduce_gradients()
        super().unscale_(optimizer)

    def step(self, optimizer, *arguments, **named):
        """The optimizer's step, unless a gradient of some rank is not finite."""
        optimizer.scaled_alike = True
        return super().step(optimizer, *arguments, **named)
