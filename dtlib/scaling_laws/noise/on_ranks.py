"""The noise scale of a data-parallel run, from gradients that it has anyway.

The noun is `NoiseMeter`. Before the all-reduce each rank has the gradient of its own samples, after
it all have the gradient of everybody's: two sizes of batch in every step. What is sent on top is
two numbers a rank. And `consumed_by_all`, the samples of a step, which a schedule is to count.
"""

import torch
import torch.distributed as dist

from dtlib.formulas.require import require, require_count
from dtlib.runtime.process_group import ranks_of
from dtlib.scaling_laws.noise.estimate import NoiseScale, noise_scale


class NoiseMeter:
    """Squared norms before and after each all-reduce, and what they say.

    Arguments: `batch`, the samples of this rank in one step, the same on all ranks; `group`.
    Each step calls `before(module)` when the backward pass is over, and `after(module)` when the
    gradients are the means of all ranks.
    Raises ValueError for a group of one rank, which has one size of batch; for ranks with batches
    of different sizes, on all ranks alike; and for a gradient that is not finite.
    Source: McCandlish et al. 2018, appendix A.1.
    """

    def __init__(self, batch: int, group):
        require_count("NoiseMeter", batch=batch)
        _, self.ranks = ranks_of(group)
        allowed = "at least 2: one rank alone has gradients of one batch size"
        require(self.ranks > 1, "NoiseMeter", "ranks", self.ranks, allowed)
        self.batch, self.group = batch, group
        self.small: list[float] = []
        self.large: list[float] = []

    def before(self, module: torch.nn.Module) -> None:
        """The mean of the ranks' own squared norms: one all-gather of two numbers a rank."""
        own = torch.tensor([gradient_square(module), self.batch], dtype=torch.float64)
        found = [torch.empty_like(own) for _ in range(self.ranks)]
        dist.all_gather(found, own, group=self.group)
        squares, batches = torch.stack(found).T
        sizes = [int(size) for size in batches]
        allowed = f"the same on every rank; ranks 0 to {self.ranks - 1} have {sizes}"
        require(len(set(sizes)) == 1, "NoiseMeter", "batch", self.batch, allowed)
        bad = [rank for rank, square in enumerate(squares.tolist()) if not square < float("inf")]
        allowed = "finite on every rank; a loss that is NaN makes such a gradient"
        require(not bad, "NoiseMeter", "ranks without a finite gradient", bad, allowed)
        self.small.append(squares.mean().item())

    def after(self, module: torch.nn.Module) -> None:
        """The squared norm of the mean gradient."""
        self.large.append(gradient_square(module))

    def scale(self, last: int = 0) -> NoiseScale:
        """What the last so many steps say, or all for 0. Raises ValueError before the first."""
        return noise_scale(
            self.small[-last:], self.large[-last:], self.batch, self.batch * self.ranks
        )


def gradient_square(module: torch.nn.Module) -> float:
    """The sum of the squares of all gradients of a module, in 64 bits."""
    gradients = (p.grad for p in module.parameters() if p.grad is not None)
    return sum(gradient.double().pow(2).sum().item() for gradient in gradients)


def consumed_by_all(own: int, group) -> int:
    """The samples of all ranks in a step of which this rank had `own`: one all-reduce."""
    require_count("consumed_by_all", 0, own=own)
    ranks_of(group)
    count = torch.tensor(own)
    dist.all_reduce(count, group=group)
    return int(count)
