"""What each stage of ZeRO must compute, call and hold, against one process."""

import copy
from collections.abc import Callable
from typing import Any

from dtlib.exercises.judge import call, items, number
from dtlib.exercises.judges.tensors import as_tensor, close, normal, same_tensor
from dtlib.exercises.labs.zero_by_hand.tasks import (
    Chain,
    adamw,
    chain,
    held_bytes,
    loss,
    train,
    trained_alone,
)
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.team import record_team
from dtlib.later import torch


def flat_law(answer: tuple, P: int) -> None:
    lay_out, cut = answer
    for shapes in ([(3, 4)], [(2, 3), (5,), (), (1, 4, 2)], [(7,)], [(2, 2), (4,)]):
        tensors = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
        given = [t.clone() for t in tensors]
        whole = as_tensor(call(lay_out, given, P), "what lay_out returns")
        _laid_out(whole, tensors, given, f"shapes {shapes}", P)
        whole = whole.clone()
        sizes = [torch.Size(shape) for shape in shapes]
        pieces = items(call(cut, whole, sizes), "what cut returns", len(shapes))
        for i, (piece, t) in enumerate(zip(pieces, tensors, strict=True)):
            same_tensor(piece, t, f"shapes {shapes}: piece {i}")
        whole.zero_()
        if any(piece.any() for piece in pieces):
            raise NotYet("the pieces are copies; who fills flat must have filled them")


def _laid_out(whole: Any, tensors: list, given: list, where: str, P: int) -> None:
    length = sum(t.numel() for t in tensors)
    if whole.dim() != 1 or whole.dtype != torch.float64:
        raise NotYet(
            f"{where}: flat has shape {list(whole.shape)} of {whole.dtype}; asked is one flat "
            "tensor of the kind that was given"
        )
    if len(whole) != -(-length // P) * P:
        rule = "a multiple of P" if len(whole) % P else "no longer than it must be"
        raise NotYet(f"{where}: flat has {len(whole)} numbers; it must be {rule}")
    if not torch.equal(whole[:length], torch.cat([t.reshape(-1) for t in tensors])):
        raise NotYet(f"{where}: the numbers are not those of the tensors, one after another")
    if whole[length:].any():
        raise NotYet(f"{where}: what only fills up must be zero")
    memory = whole.untyped_storage().data_ptr()
    if any(t.untyped_storage().data_ptr() == memory for t in given):
        raise NotYet(f"{where}: flat lies in the memory of a tensor that was given: make a new one")


def shard_law(answer: Callable, P: int) -> None:
    for unit in chain(P).model:
        _judge_shard(answer, unit, P)


def _judge_shard(answer: Callable, unit: Any, P: int) -> None:
    parameters = list(unit.parameters())
    gradients = [
        [normal(*p.shape, seed=50 * r + i) for i, p in enumerate(parameters)] for r in range(P)
    ]
    length = sum(p.numel() for p in parameters)
    size = -(-length // P)

    def program(comm):
        own = list(copy.deepcopy(unit).parameters())
        made = answer(own, comm)
        for _ in range(2):
            for p, gradient in zip(own, gradients[comm.rank], strict=True):
                p.grad = gradient.clone()
            made.reduce()
        reduced, kept, part = len(comm.calls), [p.grad for p in own], made.part
        grad = None if part.grad is None else part.grad.clone()
        with torch.no_grad():
            part.data.fill_(float(comm.rank + 1))
        made.gather()
        memory = made.whole.untyped_storage().data_ptr()
        lying = [p.untyped_storage().data_ptr() == memory for p in (*own, made.part)]
        return own, kept, grad, comm.calls[:reduced], comm.calls[reduced:], all(lying)

    mean = torch.cat([sum(of).reshape(-1) / P for of in zip(*gradients, strict=True)])
    means = torch.cat([mean, mean.new_zeros(P * size - length)]).chunk(P)
    values = torch.arange(1.0, P + 1, dtype=torch.float64).repeat_interleave(size)
    for rank, (own, kept, grad, reducing, gathering, lying) in enumerate(record_team(program, P)):
        where = f"rank {rank}"
        _judge_sum(grad, means[rank], P, where)
        if any(g is not None for g in kept):
            raise NotYet(f"{where}: after reduce() a parameter still has its whole gradient")
        pieces = values[:length].split([p.numel() for p in parameters])
        for (name, p), mine, piece in zip(unit.named_parameters(), own, pieces, strict=True):
            if mine.shape != p.shape or not torch.equal(mine.detach(), piece.view(p.shape)):
                raise NotYet(f"{where}: after gather() {name} is not what the ranks' parts say")
        if not lying:
            raise NotYet(f"{where}: after gather() parameters and part no longer lie in one whole")
        _calls(reducing, ["reduce-scatter"] * 2, f"{where}: two calls of reduce()")
        _calls(gathering, ["all-gather"], f"{where}: gather()")
        sent = 3 * 8 * size * (P - 1)
        _bytes(reducing + gathering, sent, f"{where}: two calls of reduce() and a gather()")


def _judge_sum(grad: Any, mean: Any, P: int, where: str) -> None:
    """Two reductions of the same gradients have added up in the part."""
    what = f"{where}: after two calls of reduce() the gradient of the part"
    same_tensor(grad, 2 * mean, what, {
        "P times too large: a sum is no mean": 2 * P * mean,
        "that of the last reduce() only: two of them add up, as in any .grad": mean,
        "that of the last reduce() only, and a sum, not a mean": P * mean,
        "P times too small: divided twice?": 2 * mean / P,
    })  # fmt: skip


def stage1_law(answer: Callable, P: int) -> None:
    for m in (1, 2):
        task = chain(P, micro_batches=m)
        phase = sum(task.padded_bytes(P)) * (P - 1) / P
        wanted = ["all-gather"] * 3 + ["reduce-scatter"] * 3
        for rank, steps in enumerate(_trained(answer, task, f"{m} micro-batches")):
            where = f"rank {rank}, {m} micro-batches"
            for step in steps:
                if step.backward:
                    raise NotYet(
                        f"{where}: right, but {len(step.backward)} collectives in the backward "
                        "passes; stage 1 adds up whole gradients and reduces once, in step()"
                    )
                _calls(sorted(step.step), wanted, f"{where}: step()")
                _bytes(step.step, 2 * phase, f"{where}: step()")
            _held(steps, task, P, 1, where)


def stage2_law(answer: Callable, P: int) -> None:
    for m in (1, 2):
        task = chain(P, micro_batches=m)
        phase = sum(task.padded_bytes(P)) * (P - 1) / P
        for rank, steps in enumerate(_trained(answer, task, f"{m} micro-batches")):
            where = f"rank {rank}, {m} micro-batches"
            for step in steps:
                if step.left:
                    what = f"a whole gradient of {step.left[0]} is there"
                    raise NotYet(f"{where}: right, but after the backward pass {what}")
                _calls(step.backward, ["reduce-scatter"] * 3 * m, f"{where}: the backward passes")
                if step.late:
                    raise NotYet(
                        f"{where}: right, but gradients of more than one unit are whole at a "
                        "time: reduce a unit as soon as its last gradient is there"
                    )
                _calls(step.step, ["all-gather"] * 3, f"{where}: step()")
                both = step.backward + step.step
                _bytes(both, (m + 1) * phase, f"{where}: backward passes and step()")
            _held(steps, task, P, 2, where)


def _trained(answer: Callable, task: Chain, where: str) -> list:
    """The steps of every rank, whose weights after each are those of one process."""
    results = train(answer, task)
    for i, right in enumerate(trained_alone(task)):
        for name, value in right.items():
            at, found = f"{where}, step {i + 1}: ", [steps[i].weights[name] for steps in results]
            if all(close(w, value, 1e-9) for w in found):
                continue
            if not all(torch.equal(w, found[0]) for w in found):
                raise NotYet(f"{at}the ranks hold different weights in {name}")
            if i and torch.equal(found[0], results[0][0].weights[name]):
                raise NotYet(f"{at}{name} has not changed since step 1")
            raise NotYet(f"{at}{name} is the same on all ranks, but not that of one process")
    return results


def _held(steps: list, task: Chain, P: int, stage: int, where: str) -> None:
    """Between backward and step a rank holds what the stage says, and what fills up."""
    whole, parts = {1: (2, 2), 2: (1, 3)}[stage]  # weights, gradients, two moments
    right = (whole + parts / P) * sum(task.padded_bytes(P))
    if steps[-1].held > right:
        raise NotYet(
            f"{where}: right, but {steps[-1].held:,} B can be reached from the model and your "
            f"object before step(); stage {stage} needs {right:,.0f} B: is an old copy, or an old "
            "gradient, kept?"
        )


def gather_law(answer: Callable, P: int) -> None:
    parts = [normal(5, seed=r) for r in range(P)]
    weights = [normal(5 * P, seed=100 + r) for r in range(P)]

    def program(comm):
        leaf = parts[comm.rank].clone().requires_grad_()
        whole = as_tensor(answer(comm, leaf.clone()), "what gather_whole returns")
        if not torch.equal(whole, torch.cat(parts)):
            raise NotYet("forwards it is not all ranks' parts, one after another")
        if not whole.requires_grad:
            raise NotYet("the result has no graph behind it, so nothing is learned")
        forward = len(comm.calls)
        (whole * weights[comm.rank]).sum().backward()
        return leaf.grad, comm.calls[:forward], comm.calls[forward:]

    for rank, (grad, forward, backward) in enumerate(record_team(program, P)):
        total, own = (w.chunk(P)[rank] for w in (sum(weights), weights[rank]))
        same_tensor(grad, total / P, f"rank {rank}: the gradient of the part", {
            "P times too large: each rank's loss is a mean over its own rows": total,
            "this rank's own only: the others have used this part as well": own,
            "this rank's own only, divided": own / P,
        })  # fmt: skip
        _calls(forward, ["all-gather"], f"rank {rank}: forward")
        _calls(backward, ["reduce-scatter"], f"rank {rank}: backward")
        _bytes(forward + backward, 2 * 8 * 5 * (P - 1), f"rank {rank}: forward and backward")


def stage3_law(answer: Callable, P: int) -> None:
    for m in (1, 2):
        task = chain(P, micro_batches=m)
        results = record_team(_sharded_steps, P, answer, task)
        for step, right in enumerate(trained_alone(task)):
            wanted = [_parts(unit, right, i, P) for i, unit in enumerate(task.model)]
            for rank, steps in enumerate(results):
                where = f"rank {rank}" + (f", step {step + 1}" if step else "")
                _judge_unit_step(steps[step], [w[rank] for w in wanted], task, P, where)


def _sharded_steps(comm: Any, answer: Callable, task: Chain) -> list:
    model = torch.nn.Sequential(*(answer(unit, comm) for unit in copy.deepcopy(task.model)))
    optimizer, steps = adamw(model.parameters()), []
    for rows in task.rows:
        optimizer.zero_grad()
        start, between = len(comm.calls), []
        for x, y in rows[comm.rank]:
            value = loss(model, x.clone().requires_grad_(), y) / len(rows[comm.rank])
            between.append(comm.gathered_bytes)
            value.backward()
        calls, after, kept = comm.calls[start:], comm.gathered_bytes, held_bytes(model)
        optimizer.step()
        parts = [p.detach().clone() for p in model.parameters()]
        steps.append((calls, max(between), after, comm.most_gathered_bytes, kept, parts))
    return steps


def _judge_unit_step(step: tuple, wanted: list, task: Chain, P: int, where: str) -> None:
    calls, between, after, most, kept, parts = step
    units, m = task.padded_bytes(P), len(task.rows[0][0])
    if [p.shape for p in parts] != [w.shape for w in wanted]:
        raise NotYet(f"{where}: parameters() of a unit must be its part, and nothing else")
    for i, (part, right) in enumerate(zip(parts, wanted, strict=True)):
        same_tensor(part, right, f"{where}: the part of unit {i}", tolerance=1e-9)
    if between > 0:
        raise NotYet(
            f"{where}: right, but {between:,} B of whole weights are still there between the "
            "forward and the backward pass: who keeps them?"
        )
    if after > 0:
        raise NotYet(f"{where}: right, but after the backward pass {after:,} B are whole")
    if most > max(units):
        raise NotYet(f"{where}: right, but more than one unit was whole at a time")
    right = ["all-gather"] * 6 * m + ["reduce-scatter"] * 3 * m
    _calls(sorted(calls), right, f"{where}: a step")
    _bytes(calls, 3 * m * sum(units) * (P - 1) / P, f"{where}: a step")
    if kept > 2 * sum(units) // P:
        raise NotYet(
            f"{where}: right, but {kept:,} B can be reached from the model, which should be its "
            "part and the part's gradient: is a whole tensor behind one of them?"
        )


def _parts(unit: Any, right: dict, i: int, P: int) -> list:
    flat = torch.cat([right[f"{i}.{name}"].reshape(-1) for name, _ in unit.named_parameters()])
    size = -(-len(flat) // P)
    return list(torch.cat([flat, flat.new_zeros(P * size - len(flat))]).chunk(P))


def clip_law(answer: Callable, P: int) -> None:
    for largest, scale in ((0.5, 1), (1e6, 1), (0.5, 0)):
        gradients = [[scale * normal(n, seed=10 * r + n) * 10**r for n in (4, 7)] for r in range(P)]

        def program(comm, gradients=gradients, largest=largest):
            parts = [torch.nn.Parameter(torch.zeros_like(g)) for g in gradients[comm.rank]]
            for part, g in zip(parts, gradients[comm.rank], strict=True):
                part.grad = g.clone()
            norm = answer(parts, largest, comm)
            if norm is None:
                raise NotYet("the function returns nothing yet")
            return float(norm), [p.grad for p in parts], comm.calls

        for rank, (found, scaled, calls) in enumerate(record_team(program, P)):
            norm = _judge_norm(found, gradients, rank, P)
            factor = min(1.0, largest / norm) if norm else 1.0
            for g, now in zip(gradients[rank], scaled, strict=True):
                if now is None or not close(now, factor * g, 1e-4):
                    what = "scaled to the norm asked for" if factor < 1 else "left as they are"
                    raise NotYet(
                        f"rank {rank}: the gradients must be {what}: norm {norm:.3g}, "
                        f"largest {largest:g}"
                    )
            if sum(c.numbers for c in calls) > 2:
                numbers = sum(c.numbers for c in calls)
                raise NotYet(f"rank {rank}: right, but {numbers} numbers travel, one would do")


def _judge_norm(found: float, gradients: list, rank: int, P: int) -> float:
    own = [sum(float((g * g).sum()) for g in of_rank) ** 0.5 for of_rank in gradients]
    norm = sum(n * n for n in own) ** 0.5
    if norm:
        number(found, norm, f"rank {rank}: the norm", tolerance=1e-6, mistakes={
            own[rank]: "that is the norm of this rank's parts alone",
            sum(own): "norms do not add up; their squares do",
            norm**2: "that is the square of the norm",
            max(own): "that is the largest of the ranks' norms",
            norm / P**0.5: "the squares are added, not averaged",
        })  # fmt: skip
    elif found != 0:
        raise NotYet(f"rank {rank}: the norm of a gradient of zeros is not {found}")
    return norm


def _calls(calls: list, wanted: list, where: str) -> None:
    """The calls are those ``wanted``, in order."""
    found = [made.operation for made in calls]
    if found == wanted:
        return
    if "all-reduce" in found:
        raise NotYet(f"{where}: an all-reduce is both halves; a part needs only the first")
    if sorted(found) == sorted(wanted):
        raise NotYet(f"{where}: right, but the calls come in another order")
    raise NotYet(f"{where}: {_listed(found)}, where {_listed(wanted)} would do")


def _listed(calls: list) -> str:
    counted = [f"{calls.count(name)} {name}" for name in sorted(set(calls))]
    return " and ".join(counted) or "no call"


def _bytes(calls: list, wanted: float, where: str) -> None:
    """The calls, which are as they should be, send no more than they must."""
    sent = sum(made.sent_bytes for made in calls)
    if sent > wanted:
        raise NotYet(
            f"{where}: right, but these calls send {sent:,.0f} B, where {wanted:,.0f} B would do: "
            "what is given to them?"
        )
