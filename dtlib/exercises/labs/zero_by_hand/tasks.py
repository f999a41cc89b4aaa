"""Chains of units for sharded training, their rows, and what a rank's object does and holds."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from dtlib.exercises.judges.tensors import normal
from dtlib.exercises.worlds.team import Team, record_team
from dtlib.later import torch

WIDTHS = (5, 9, 4, 6, 1)


def held_bytes(*things: Any) -> int:
    """Bytes of all tensors that can be reached from some objects; each storage counts once.

    Modules, optimizers, containers and attributes are searched, gradients too; what autograd keeps
    for a backward pass is not, nor counters such as an optimizer's ``step``.

    >>> import torch
    >>> layer = torch.nn.Linear(4, 8, bias=False)
    >>> held_bytes(layer), held_bytes(layer, [layer.weight[0], torch.zeros(3)])
    (128, 140)
    """
    storages, seen, waiting = {}, {}, list(things)
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type | str | Team):
            continue
        seen[id(thing)] = thing  # kept, so that no other object gets its id
        if isinstance(thing, torch.Tensor):
            if thing.dim():
                storage = thing.untyped_storage()
                storages[storage._cdata] = storage.nbytes()
            waiting.append(thing.grad if thing.is_leaf else None)
        elif isinstance(thing, dict):
            waiting += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            waiting += thing
        else:
            waiting += getattr(thing, "__dict__", {}).values()
    return sum(storages.values())


class Chain(NamedTuple):
    """Units that follow one another, and for each step and rank its micro-batches of (x, y)."""

    model: Any
    rows: list

    @property
    def sizes(self) -> list[int]:
        """Numbers of each unit."""
        return [sum(p.numel() for p in unit.parameters()) for unit in self.model]

    def padded_bytes(self, P: int) -> list[int]:
        """Bytes of each unit, filled up to P equal parts."""
        return [8 * P * -(-n // P) for n in self.sizes]


def chain(ranks: int, steps: int = 3, micro_batches: int = 1) -> Chain:
    """Three units of several layers; the numbers of none of them divide by 2, 3 or 4."""
    from torch import nn

    a, b, c, d, e = WIDTHS
    units = [
        nn.Sequential(nn.Linear(a, b), nn.Tanh()),
        nn.Sequential(nn.Linear(b, c), nn.Tanh(), nn.Linear(c, d)),
        nn.Sequential(nn.Tanh(), nn.Linear(d, e)),
    ]
    model = nn.Sequential(*units).double()
    for seed, parameter in enumerate(model.parameters()):
        parameter.data.copy_(normal(*parameter.shape, seed=seed) / 2)

    def batch(seed):
        return normal(3, a, seed=seed), normal(3, e, seed=seed + 500)

    each = [
        [[batch(1000 + 100 * s + 10 * r + m) for m in range(micro_batches)] for r in range(ranks)]
        for s in range(steps)
    ]
    return Chain(model, each)


def loss(model: Any, x: Any, y: Any) -> Any:
    return (model(x) - y).square().mean()


def adamw(parameters: Any) -> Any:
    return torch.optim.AdamW(parameters, lr=0.05, weight_decay=0.1)


def trained_alone(task: Chain) -> list:
    """The weights of one process that has all rows, after each step."""
    model, found = copy.deepcopy(task.model), []
    optimizer = adamw(model.parameters())
    for rows in task.rows:
        optimizer.zero_grad()
        for x, y in (batch for batches in rows for batch in batches):
            (loss(model, x, y) / sum(map(len, rows))).backward()
        optimizer.step()
        found.append(weights(model))
    return found


def weights(model: Any) -> dict:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


class Step(NamedTuple):
    """What a trainer did in one step: its calls in backward and in step, and what was there.

    `held` and `left` are bytes and names after the backward passes: all that is reachable, and the
    parameters that still have a whole gradient. `late`: a unit's gradients came while those of a
    later unit were still whole.
    """

    backward: list
    step: list
    held: int
    left: list
    late: bool
    weights: dict


def train(trainer: Callable, task: Chain) -> list:
    """For every rank the `Step`s of the reader's trainer, which gets (units, comm, optimizer)."""

    def program(comm):
        model, optimizers, late = copy.deepcopy(task.model), [], []

        def make_optimizer(parameters):
            optimizers.append(adamw(parameters))
            return optimizers[-1]

        for i, unit in enumerate(model):
            later = [p for unit in list(model)[i + 1 :] for p in unit.parameters()]
            for parameter in unit.parameters():
                parameter.register_post_accumulate_grad_hook(
                    lambda _, later=later: late.append(any(p.grad is not None for p in later))
                )
        made = trainer(list(model), comm, make_optimizer)
        everything = (model, made, optimizers)
        return [_one_step(everything, comm, rows[comm.rank], late) for rows in task.rows]

    return record_team(program, len(task.rows[0]))


def _one_step(everything: tuple, comm: Team, batches: list, late: list) -> Step:
    model, made, _ = everything
    start, late[:] = len(comm.calls), []
    for x, y in batches:
        (loss(model, x, y) / len(batches)).backward()
    middle, held = len(comm.calls), held_bytes(*everything)
    left = [name for name, p in model.named_parameters() if p.grad is not None]
    made.step()
    backward, step = comm.calls[start:middle], comm.calls[middle:]
    return Step(backward, step, held, left, any(late), weights(model))
