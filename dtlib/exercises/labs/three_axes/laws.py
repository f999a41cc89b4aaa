"""The laws of the lab: groups, a block, a pipeline and a step, each against one process."""

import math
from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import Any

from dtlib.exercises.judge import call, functions
from dtlib.exercises.judges.tensors import as_tensor, close, normal, same_calls, same_tensor
from dtlib.exercises.labs.tensor_parallel_block.programs import cut as _part
from dtlib.exercises.labs.three_axes import model, programs
from dtlib.exercises.labs.three_axes.world import record_mesh
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.world import TransportError
from dtlib.later import torch

MESHES = (
    {"dp": 2, "pp": 1, "tp": 1}, {"dp": 1, "pp": 2, "tp": 1}, {"dp": 1, "pp": 1, "tp": 2},
    {"dp": 2, "pp": 2, "tp": 2}, {"tp": 2, "pp": 2, "dp": 2},
)  # fmt: skip


def groups_law(answer: Any) -> None:
    places, groups = functions(answer, "coordinates(rank, sizes)", "groups_of(sizes, axes)")
    for sizes in (*MESHES, {"pp": 4, "dp": 3, "tp": 2}, {"tp": 5}):
        every = range(_ranks(sizes))
        for rank in every:
            _same_place(call(places, rank, dict(sizes)), rank, sizes)
        for axes in (set(some) for n in range(len(sizes) + 1) for some in combinations(sizes, n)):
            where = f"{sizes}, groups along {', '.join(sorted(axes)) or 'no axis'}"
            given = call(groups, dict(sizes), set(axes))
            try:
                found = sorted([int(rank) for rank in group] for group in given)
            except (TypeError, ValueError):
                raise NotYet(f"{where}: a list of lists of ranks, please") from None
            if any(group != sorted(group) for group in found):
                raise NotYet(f"{where}: ranks of a group stand in ascending order")
            if sorted(rank for group in found for rank in group) != [*every]:
                raise NotYet(f"{where}: every rank is in exactly one group")
            if found != sorted(programs.groups_of(sizes, axes)):
                raise NotYet(f"{where}: members of a group differ there, and in nothing else")


def _same_place(given: Any, rank: int, sizes: dict[str, int]) -> None:
    right = programs.coordinates(rank, sizes)
    if given == right:
        return
    if given == programs.coordinates(rank, sizes, last=False):
        raise NotYet(f"rank {rank} of {sizes}: the last axis runs fastest")
    raise NotYet(f"rank {rank} of {sizes}: a dict of other coordinates, one for each axis")


def block_law(answer: Callable, P: int) -> None:
    """The block on P ranks of tp, with one key head that all of them need."""
    from dtlib.models.gpt import Block, draw_weights

    alone = Block(model.SPEC, dtype=torch.float64)
    draw_weights(alone, 5)
    x, dy = normal(2, 3, 16, seed=1), normal(2, 3, 16, seed=2)
    whole = x.clone().requires_grad_()
    due = alone(whole)
    (due * dy).sum().backward()
    named = dict(alone.named_parameters())

    def program(comm):
        mine = _leaves(_cut({n: w.detach() for n, w in named.items()}, comm.rank, P))
        here = x.clone().requires_grad_()
        out = as_tensor(answer(comm, here, mine, model.SPEC.head_dim), f"rank {comm.rank}")
        if out.shape != x.shape or not out.requires_grad:
            raise NotYet("the result has another shape than x, or no graph behind it")
        forward = len(comm.calls)
        (out * dy).sum().backward()
        calls = forward, len(comm.calls) - forward
        return out.detach(), here.grad, {n: w.grad for n, w in mine.items()}, calls

    runs = record_mesh(program, P)
    for rank, (out, dx, found, calls) in enumerate(runs):
        same_tensor(out, due.detach(), f"rank {rank}: the output")
        same_tensor(dx, whole.grad, f"rank {rank}: dX")
        right = _cut({n: w.grad for n, w in named.items()}, rank, P)
        for name in named:
            shared = name.split(".")[-2] in ("key", "value")
            given = [run[2][name] for run in runs] if shared or "norm" in name else None
            _same_gradient(name, found[name], right[name], rank, shared, given)
        same_calls(f"rank {rank}", calls, (2, 2))


def _same_gradient(name: str, found: Any, due: Any, rank: int, shared: bool, given: Any) -> None:
    where = f"rank {rank}: the gradient of {name}"
    if given is None or not shared:
        total = None if given is None or None in given else sum(given)
        is_share = total is not None and close(total, due)
        hint = "only this rank's share: is f before the norm, or behind it?"
        return same_tensor(found, due, where, {hint: found if is_share else None})
    if found is not None and close(found, due):
        raise NotYet(
            f"{where} is added up in the backward pass: then it is sent for every micro-batch; "
            "leave each rank its share"
        )
    if None in given:
        return same_tensor(None, due, where)
    return same_tensor(sum(given), due, f"the sum over ranks of the gradients of {name}")


def stage_law(answer: Callable, P: int) -> None:
    """P stages w x x in integers: nothing is rounded, and micro-batches cannot be confused."""
    for m in (1, 2, 4):
        _stages_add_up(answer, P, m)


def _stages_add_up(answer: Callable, P: int, m: int) -> None:
    rows = [torch.tensor([[1.0, 2 + k, 3]], dtype=torch.float64) for k in range(m)]
    weights = {s: torch.full((3,), 2.0 + s, dtype=torch.float64) for s in range(P)}
    alone = _leaves(weights)
    total = sum(_through(alone.values(), x).sum() for x in rows) / m
    total.backward()

    def program(comm):
        w = weights[comm.rank].clone().requires_grad_()
        before = comm.rank - 1 if comm.rank else None
        behind = comm.rank + 1 if comm.rank + 1 < P else None

        def work(k, x):
            out = _through([w], rows[k] if before is None else x)
            return out if behind is not None else out.sum()

        return answer(comm, before, behind, work, m, (1, 3)), w.grad, list(comm.sent)

    for rank, (loss, grad, sent) in enumerate(record_mesh(program, P)):
        where, due = f"m = {m}, stage {rank}", alone[rank].grad
        hints = {"exactly m times what it should be: the loss is a mean": m * due}
        if m > 1:  # whatever else is wrong only with several micro-batches
            hints["do both neighbours take the micro-batches in one order?"] = grad
        same_tensor(grad, due, f"{where}: the gradient", hints, tolerance=0)
        if len(sent) != m * ((rank > 0) + (rank + 1 < P)):
            raise NotYet(f"{where}: one message for each micro-batch, border and direction")
        if rank + 1 == P:
            loss = torch.as_tensor(float("nan") if loss is None else loss).detach()
            same_tensor(loss.double(), total.detach(), f"{where}: the loss it returns")


def step_law(answer: Callable, P: int) -> None:
    """Every weight's gradient on every rank is its part of that of one process."""
    for sizes in (sizes for sizes in MESHES if _ranks(sizes) == P):
        for m in (1, 2):
            try:
                runs = gradients_of(answer, sizes, m)
            except TransportError as wrong:
                raise NotYet(f"{sizes}, m = {m}: {wrong.reason}"[:290]) from None
            _compare(runs, sizes, f"{sizes}, m = {m}")


def _compare(runs: list, sizes: dict, where: str) -> None:
    right = parts_of_one(sizes)
    for rank, found in enumerate(runs):
        if not isinstance(found, dict) or found.keys() != right[rank].keys():
            raise NotYet(f"{where}, rank {rank}: a dict with the names of its weights, please")
    for rank, found in enumerate(runs):
        for name, due in right[rank].items():
            given = found[name]
            slips = {"exactly two times what it should be": 2 * due,
                     "exactly four times what it should be": 4 * due,
                     "exactly half of what it should be": due / 2}  # fmt: skip
            if given is not None:
                as_tensor(given, name)
                slips |= _shares(runs, sizes, rank, name, due)
            same_tensor(given, due, f"{where}, rank {rank}: {name}", slips, tolerance=1e-12)


def _shares(runs: list, sizes: dict, rank: int, name: str, due: Any) -> dict:
    """Is what a rank has a share, whose sum over some axes is what should be there?"""
    wide = [axis for axis in sizes if sizes[axis] > 1]
    for axes in (some for n in range(1, len(wide) + 1) for some in combinations(wide, n)):
        group = next(one for one in programs.groups_of(sizes, axes) if rank in one)
        held = [runs[other].get(name) for other in group]
        alike = all(isinstance(one, torch.Tensor) and one.shape == due.shape for one in held)
        if alike and close(sum(held), due, 1e-12):
            hint = f"a share only: nobody has added along {' and '.join(axes)}"
            return {hint: runs[rank][name]}
    return {}


def gradients_of(program: Callable, sizes: dict, m: int) -> list:
    """What `program(comm, sizes, weights, tokens, targets, m)` returns on every rank of a mesh."""
    whole = {name: w.detach() for name, w in model.dense().named_parameters()}
    tokens, targets = model.batch()

    def one(comm):
        at = programs.coordinates(comm.rank, sizes)
        mine = _leaves(model.part_of(whole, at, sizes))
        return program(comm, dict(sizes), mine, tokens.clone(), targets.clone(), m)

    return record_mesh(one, _ranks(sizes))


def parts_of_one(sizes: dict) -> list[dict]:
    """The gradients of one process, cut as every rank of a mesh has them."""
    due = _gradients_alone()
    places = (programs.coordinates(rank, sizes) for rank in range(_ranks(sizes)))
    return [model.part_of(due, at, sizes) for at in places]


@cache
def _gradients_alone() -> dict:
    from dtlib.models import gradients, next_token_loss

    alone, (tokens, targets) = model.dense(), model.batch()
    next_token_loss(alone(tokens), targets).backward()
    return gradients(alone)


def _through(weights: Any, x: Any) -> Any:
    for w in weights:
        x = w * x * x
    return x


def _cut(tensors: dict, rank: int, P: int) -> dict:
    sides = {name: model.cut_side(name) for name in tensors}
    return {name: _part(tensor, sides[name], rank, P) for name, tensor in tensors.items()}


def _leaves(tensors: dict) -> dict:
    return {name: tensor.clone().requires_grad_() for name, tensor in tensors.items()}


def _ranks(sizes: dict) -> int:
    return math.prod(sizes.values())
