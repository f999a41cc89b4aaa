"""The property that ZeRO rests on: an elementwise update commutes with cutting into parts.

    update . all-reduce  =  all-gather . update . reduce-scatter

Here in one process, with a list in place of ranks: what is asked is a property of the optimizer.
"""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from dtlib.formulas.require import require_count, require_type


def whole_update(make_optimizer: Callable, weight: torch.Tensor, gradients: Sequence):
    """Update . all-reduce: every rank adds all ranks' gradients and updates the whole weight.

    Arguments: `make_optimizer`, from a list of parameters to an optimizer of them; `weight`, of any
    shape; `gradients`, for each step a list with the gradient of each rank.
    Returns the weight after all steps, the same on every rank.
    """
    parameter = nn.Parameter(weight.clone())
    optimizer = make_optimizer([parameter])
    for of_ranks in gradients:
        parameter.grad = sum(of_ranks)
        optimizer.step()
    return parameter.detach()


def parts_update(make_optimizer: Callable, weight: torch.Tensor, gradients: Sequence):
    """All-gather . update . reduce-scatter: every rank adds and updates its own part only.

    Arguments and result as for `whole_update`; the numbers of `weight` are a multiple of the ranks.
    """
    P = len(gradients[0])
    parts = [nn.Parameter(part.clone()) for part in weight.reshape(-1).chunk(P)]
    optimizers = [make_optimizer([part]) for part in parts]
    for of_ranks in gradients:
        scattered = sum(of_ranks).reshape(-1).chunk(P)
        for part, optimizer, gradient in zip(parts, optimizers, scattered, strict=True):
            part.grad = gradient.clone()
            optimizer.step()
    return torch.cat([part.detach() for part in parts]).view_as(weight)


def square_gap(make_optimizer: Callable, P: int = 2, steps: int = 3, seed: int = 0) -> float:
    """How far the two ways around the square end from each other, for one random matrix.

    Equation: max |u(AR g) - AG u(RS g)|, over the largest change that the updates make.
    Arguments: `make_optimizer`, from a list of parameters to an optimizer of them; `P` ranks;
    `steps`; `seed` of the random numbers. Returns 0 but for rounding if the update is elementwise.
    Raises ValueError for no rank or step. Source: Xu et al. 2020.

    >>> square_gap(lambda weights: torch.optim.AdamW(weights, lr=0.1), P=4) < 1e-14
    True
    >>> square_gap(lambda weights: NormalisedSGD(weights, lr=0.1), P=4) > 0.1
    True
    """
    require_type("square_gap", Callable, make_optimizer=make_optimizer)
    require_type("square_gap", int, seed=seed)
    require_count("square_gap", P=P, steps=steps)
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(steps * P + 1, 3, 4 * P, generator=generator, dtype=torch.float64)
    # rows of different sizes: else the norm of a part would say almost the same as of the whole
    numbers = numbers * torch.tensor([0.1, 1.0, 10.0], dtype=torch.float64)[:, None]
    weight, gradients = numbers[0], numbers[1:].view(steps, P, 3, 4 * P)
    gradients = [list(of_ranks) for of_ranks in gradients]
    whole = whole_update(make_optimizer, weight, gradients)
    parts = parts_update(make_optimizer, weight, gradients)
    largest = (whole - weight).abs().max()
    return float((whole - parts).abs().max() / largest) if largest else 0.0


def check_elementwise(make_optimizer: Callable) -> None:
    """Raise ValueError unless the optimizer updates every number by itself.

    Equation: u . AG = AG . u, to a relative 1e-9, for random matrices in 2 and in 3 flat parts.
    Passing is evidence, not a proof: an update may look sideways in another way.

    >>> check_elementwise(torch.optim.Adam)
    >>> check_elementwise(torch.optim.Adafactor)
    Traceback (most recent call last):
    ValueError: optimizer Adafactor is not elementwise: ...
    """
    for P in (2, 3):
        try:
            gap = square_gap(make_optimizer, P)
        except Exception as error:
            raise ValueError(f"the optimizer cannot update a part by itself: {error}") from error
        if gap > 1e-9:
            name = type(make_optimizer([nn.Parameter(torch.zeros(1))])).__name__
            raise ValueError(
                f"optimizer {name} is not elementwise: updated in {P} parts, a weight ends "
                f"{gap:.3g} of the largest change away from where it ends updated whole. It looks "
                "beyond a part; give such an optimizer whole parameters"
            )


class NormalisedSGD(torch.optim.Optimizer):
    """A step of length `lr` times the weight's norm, against the gradient: not elementwise.

    Equation: w - lr |w| g / |g|, with the norms of the whole tensor, as LARS and LAMB use them. Of
    a part it takes the part's norms: another update.
    """

    def __init__(self, params, lr: float = 0.1):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None and p.grad.norm() > 0:
                    p.sub_(group["lr"] * p.norm() * p.grad / p.grad.norm())
