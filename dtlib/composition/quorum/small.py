"""A small task for replicas: a GPT in double precision, with Adam, on tokens drawn by number."""

import functools
from typing import Any

import torch

from dtlib.composition.quorum.task import ReplicaTask
from dtlib.foundations import TransformerSpec
from dtlib.models import GPT, next_token_loss


def small_task(shares: int, steps: int) -> ReplicaTask:
    """A task of so many steps, each on the mean gradient of so many sequences.

    >>> small_task(shares=12, steps=20).shares
    12
    """
    spec = TransformerSpec("small", layers=2, hidden=16, heads=4, vocab=32, norm="rms", bias=False)
    return ReplicaTask(functools.partial(_make, spec), _loss, shares, steps)


def _make(spec: TransformerSpec) -> tuple[Any, Any]:
    model = GPT(spec, seed=0, dtype=torch.float64)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def _loss(model: Any, number: int) -> Any:
    draw = torch.Generator().manual_seed(number)
    tokens = torch.randint(32, (1, 9), generator=draw)
    return next_token_loss(model(tokens[:, :-1]), tokens[:, 1:])
