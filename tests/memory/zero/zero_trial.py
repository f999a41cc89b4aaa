"""Small models and their twins in one process: ShardedOptimizer beside a plain optimizer."""

import torch
import torch.distributed as dist
from torch import nn

from dtlib.memory import ShardedOptimizer

ROWS = 8


def net(dtype=torch.float64, seed=0):
    """A model of odd sizes."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1), nn.Tanh()).to(dtype)


def rows(step, dtype=torch.float64):
    draw = torch.Generator().manual_seed(step)
    return torch.randn(ROWS, 3, generator=draw, dtype=torch.float64).to(dtype)


def own(tensor, group=None):
    """This rank's share."""
    return tensor.chunk(dist.get_world_size(group))[dist.get_rank(group)]


def sharded(parameters, kind=torch.optim.AdamW, **options):
    return ShardedOptimizer(parameters, kind, dist.group.WORLD, **{"lr": 0.1} | options)


def gap(model, other):
    """The largest difference of two models' weights."""
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return max((a.detach().double() - b.detach().double()).abs().max().item() for a, b in pairs)


def train(model, optimizer, steps, alone=False, dtype=torch.float64, between=lambda step: None):
    """So many steps, on all rows or on this rank's share."""
    for step in steps:
        optimizer.zero_grad()
        x = rows(step, dtype)
        model(x if alone else own(x)).mean().backward()
        optimizer.step()
        between(step)
