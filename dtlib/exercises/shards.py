"""Tasks for sharded training: chains of units, their rows, and what an object of a rank holds.

A `Chain` is small enough that one process can train it too. `train` gives each rank its rows and a
trainer around its copy, and notes what the trainer does in the backward pass and in the step.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from dtlib.exercises.judge import function
from dtlib.exercises.own_work import own_work
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds import Team, raised, record_team

LIBRARY = ("dtlib.memory", "dtlib.parallelism", "torch.distributed")
WIDTHS = (5, 9, 4, 6, 1)
SIZES = (2, 3, 4)
TEAMS_OWN = ("rank", "size", "device", "group", "calls", "_gathered", "_group")


def held_bytes(*things: Any) -> int:
    """Bytes of all tensors that can be reached from some objects; each storage counts once.

    Modules, optimizers, containers, arrays, attributes (of the reader's classes too) and what a
    function has around it are searched, gradients too; what autograd keeps for a backward pass is
    not, nor counters such as an optimizer's ``step``.

    >>> import torch
    >>> layer = torch.nn.Linear(4, 8, bias=False)
    >>> held_bytes(layer), held_bytes(layer, [layer.weight[0], torch.zeros(3)])
    (128, 140)
    """
    import numpy as np
    import torch

    storages, seen, waiting = {}, {}, list(things)
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type | str | torch.Size):
            continue
        seen[id(thing)] = thing  # kept, so that no other object gets its id
        if isinstance(thing, torch.Tensor):
            if thing.dim():
                storage = thing.untyped_storage()
                storages[storage._cdata] = storage.nbytes()
            waiting.append(thing.grad if thing.is_leaf else None)
        elif isinstance(thing, np.ndarray):
            if thing.base is None:
                storages[id(thing)] = thing.nbytes
            waiting.append(thing.base)
        elif isinstance(thing, dict):
            waiting += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            waiting += thing
        elif isinstance(thing, Team):
            waiting += [value for name, value in vars(thing).items() if name not in TEAMS_OWN]
        elif callable(thing) and not isinstance(thing, torch.nn.Module):
            waiting += _around(thing)
        else:
            waiting += getattr(thing, "__dict__", {}).values()
            for kind in type(thing).__mro__:
                if kind.__module__.split(".")[0] not in ("builtins", "dtlib", "torch"):
                    waiting += vars(kind).values()
    return sum(storages.values())


def _around(function: Any) -> list:
    """What a function holds on to: its closure, its defaults, its object, its first arguments."""
    found = [getattr(function, name, None) for name in ("__defaults__", "__self__", "__dict__")]
    if isinstance(function, partial):
        found += [function.func, function.args, function.keywords]
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # an empty cell
            found.append(cell.cell_contents)
    return found


class Chain(NamedTuple):
    """Units that follow one another, and for each step and rank its micro-batches of (x, y)."""

    model: Any
    rows: list

    def copy(self) -> Any:
        import copy

        return copy.deepcopy(self.model)


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
        parameter.data.copy_(random(*parameter.shape, seed=seed) / 2)

    def batch(seed):
        return random(3, a, seed=seed), random(3, e, seed=seed + 500)

    each = [
        [[batch(1000 + 100 * s + 10 * r + m) for m in range(micro_batches)] for r in range(ranks)]
        for s in range(steps)
    ]
    return Chain(model, each)


def loss(model: Any, x: Any, y: Any) -> Any:
    return (model(x) - y).square().mean()


def adamw(parameters: Any) -> Any:
    import torch

    return torch.optim.AdamW(parameters, lr=0.05, weight_decay=0.1)


def random(*shape: int, seed: int) -> Any:
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def trained_alone(task: Chain) -> list:
    """The weights of one process that has all rows, after each step."""
    model, found = task.copy(), []
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
    later unit were still whole, or before a collective for them.
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
        model, optimizers, since, late = task.copy(), [], [0], []

        def make_optimizer(parameters):
            optimizers.append(adamw(parameters))
            return optimizers[-1]

        for i, unit in enumerate(model):
            later = list(model)[i + 1 :]

            def note(_, later=later):
                whole = any(p.grad is not None for unit in later for p in unit.parameters())
                late.append(whole or len(comm.calls) - since[0] < len(later))

            for parameter in unit.parameters():
                parameter.register_post_accumulate_grad_hook(note)
        with own_work(LIBRARY):
            made = trainer(list(model), comm, make_optimizer)
            everything = (model, made, optimizers)
            return [_one_step(everything, comm, rows[comm.rank], since, late) for rows in task.rows]

    return record_team(program, len(task.rows[0]))


def _one_step(everything, comm, batches, since, late) -> Step:
    model, made, _ = everything
    start, late[:] = len(comm.calls), []
    for x, y in batches:
        since[0] = len(comm.calls)
        (loss(model, x, y) / len(batches)).backward()
    middle, held = len(comm.calls), held_bytes(*everything)
    left = [name for name, p in model.named_parameters() if p.grad is not None]
    try:
        made.step()
    except Exception as error:
        raise raised(comm.rank, error) from error
    backward, step = comm.calls[start:middle], comm.calls[middle:]
    return Step(backward, step, held, left, any(late), weights(model))


def close(found: Any, right: Any, tolerance: float = 1e-9) -> bool:
    """Equal but for rounding; another shape, or NaN, is not."""
    if found.shape != right.shape:
        return False
    return bool((found - right).abs().max() <= tolerance * right.abs().max().clamp_min(1e-30))


def tensor(found: Any, what: str) -> Any:
    import torch

    if not isinstance(found, torch.Tensor):
        raise NotYet(f"{what} is a {type(found).__name__}, not a tensor")
    return found.detach()


def own_class(answer: Any, name: str, signature: str) -> None:
    function(answer, signature)
    if getattr(answer, "__module__", "").startswith(LIBRARY):
        raise NotYet(f"that is a class of {answer.__module__}: write your own")


def judge_calls(found: list, wanted: list, where: str) -> None:
    if found == wanted:
        return
    if "all-reduce" in found:
        raise NotYet(f"{where}: an all-reduce is both halves; a part needs only the first")
    if sorted(found) == sorted(wanted):
        raise NotYet(f"{where}: right, but the calls come in another order")
    raise NotYet(f"{where}: {_listed(found)}, where {_listed(wanted)} would do")


def judge_bytes(calls: list, wanted: float, where: str) -> None:
    """The calls, `Collective`s that are as they should be, send no more than they must."""
    sent = sum(call.sent_bytes for call in calls)
    if sent > wanted:
        raise NotYet(
            f"{where}: right, but these calls send {sent:,.0f} B, where {wanted:,.0f} B would do: "
            "what is given to them?"
        )


def phase_bytes(units: list, P: int) -> float:
    """What a rank sends when all units are gathered, or reduced and scattered, once."""
    padded = [P * -(-sum(p.numel() for p in unit.parameters()) // P) for unit in units]
    return 8 * sum(padded) * (P - 1) / P


def _listed(calls: list) -> str:
    counted = [f"{calls.count(name)} {name}" for name in sorted(set(calls))]
    return " and ".join(counted) or "no call"
