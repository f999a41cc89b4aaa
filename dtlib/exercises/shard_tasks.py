"""Graders of the lab 'ZeRO by hand' that train: the three stages, and the operator of the last.

Weights are held against one process, every collective is counted, and so is what a rank's own
object still holds.
"""

from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function
from dtlib.exercises.own_work import own_work
from dtlib.exercises.shards import (
    LIBRARY,
    SIZES,
    Chain,
    adamw,
    chain,
    close,
    held_bytes,
    judge_bytes,
    judge_calls,
    loss,
    own_class,
    phase_bytes,
    random,
    tensor,
    train,
    trained_alone,
)
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds import record_team


@grader("ex-lab-zero-stage1")
def stage1(answer: Any) -> str:
    own_class(answer, "Stage1", "Stage1(units, comm, make_optimizer)")
    for P in SIZES:
        for m in (1, 2):
            steps = _judge_weights(answer, chain(P, micro_batches=m), f"P = {P}")
            units = list(chain(P).model)
            n, phase = len(units), phase_bytes(units, P)
            for rank, of_rank in enumerate(steps):
                where = f"P = {P}, rank {rank}, {m} micro-batches"
                for step in of_rank:
                    if step.backward:
                        raise NotYet(
                            f"{where}: right, but {len(step.backward)} collectives in the backward "
                            "passes; stage 1 adds up whole gradients and reduces once, in step()"
                        )
                    calls = sorted(c.operation for c in step.step)
                    wanted = ["all-gather"] * n + ["reduce-scatter"] * n
                    judge_calls(calls, wanted, f"{where}: step()")
                    judge_bytes(step.step, 2 * phase, f"{where}: step()")
                _judge_held(of_rank, chain(P), P, 1, where)
    return "AdamW's weights on 2 to 4 ranks, with 1/P of its moments and no byte more than DDP"


@grader("ex-lab-zero-stage2")
def stage2(answer: Any) -> str:
    own_class(answer, "Stage2", "Stage2(units, comm, make_optimizer)")
    for P in SIZES:
        for m in (1, 2):
            task = chain(P, micro_batches=m)
            steps = _judge_weights(answer, task, f"P = {P}, {m} micro-batches")
            units = list(task.model)
            n, phase = len(units), phase_bytes(units, P)
            for rank, of_rank in enumerate(steps):
                where = f"P = {P}, rank {rank}, {m} micro-batches"
                for step in of_rank:
                    if step.left:
                        what = f"a whole gradient of {step.left[0]} is there"
                        raise NotYet(f"{where}: right, but after the backward pass {what}")
                    calls = [c.operation for c in step.backward]
                    judge_calls(calls, ["reduce-scatter"] * n * m, f"{where}: the backward passes")
                    if step.late:
                        raise NotYet(
                            f"{where}: right, but gradients of more than one unit are whole at a "
                            "time: reduce a unit as soon as its last gradient is there"
                        )
                    calls = [c.operation for c in step.step]
                    judge_calls(calls, ["all-gather"] * n, f"{where}: step()")
                    both = step.backward + step.step
                    judge_bytes(both, (m + 1) * phase, f"{where}: backward passes and step()")
                _judge_held(of_rank, task, P, 2, where)
    return "the same weights; no gradient is whole after its unit's backward pass"


@grader("ex-lab-zero-gather")
def gather(answer: Any) -> str:
    import torch

    function(answer, "gather_whole(comm, part)")
    for P in SIZES:
        parts = [random(5, seed=r) for r in range(P)]
        weights = [random(5 * P, seed=100 + r) for r in range(P)]

        right = torch.cat(parts)

        def program(comm, parts=parts, weights=weights, right=right):
            leaf = parts[comm.rank].clone().requires_grad_()
            with own_work(LIBRARY):
                part = leaf.clone()  # it has a graph behind it: a derivative goes on
                whole = _with_graph(call(answer, comm, part), comm.rank)
                if whole.shape != right.shape or not torch.equal(whole.detach(), right):
                    raise NotYet(
                        f"P = {comm.size}, rank {comm.rank}: forwards it is not all ranks' parts, "
                        "one after another"
                    )
                forward = [c.operation for c in comm.calls]
                (whole * weights[comm.rank]).sum().backward()
            backward = [c.operation for c in comm.calls[len(forward) :]]
            return leaf.grad, forward, backward, comm.calls

        for rank, (grad, forward, backward, calls) in enumerate(record_team(program, P)):
            where = f"P = {P}, rank {rank}"
            if grad is None:
                raise NotYet(f"{where}: no gradient arrives at the part")
            total = sum(weights).chunk(P)[rank]
            own = weights[rank].chunk(P)[rank]
            for slip, what in (
                (total, "P times too large: each rank's loss is a mean over its own rows"),
                (own, "this rank's own only: the others have used this part as well"),
                (own / P, "this rank's own only: the others have used this part as well"),
            ):
                if close(grad, slip):
                    raise NotYet(f"{where}: the gradient of the part is {what}")
            if not close(grad, total / P):
                raise NotYet(f"{where}: the gradient is not the part of the ranks' mean")
            judge_calls(forward, ["all-gather"], f"{where}: forward")
            judge_calls(backward, ["reduce-scatter"], f"{where}: backward")
            judge_bytes(calls, 2 * 8 * 5 * (P - 1), f"{where}: forward and backward")
    return "forwards an all-gather, and backwards what autograd needs of it: a reduce-scatter"


def _with_graph(found: Any, rank: int) -> Any:
    tensor(found, f"rank {rank}: what gather_whole returns")
    if not found.requires_grad:
        raise NotYet(f"rank {rank}: the result has no graph behind it, so nothing is learned")
    return found


@grader("ex-lab-zero-stage3")
def stage3(answer: Any) -> str:
    own_class(answer, "Sharded", "Sharded(module, comm)")
    for P in SIZES:
        for m in (1, 2):
            _judge_stage3(answer, chain(P, micro_batches=m), P, m)
        _judge_fetched(answer, P)
    return "the same weights from 1/P of everything; no whole weight outlives its unit's turn"


def _judge_stage3(answer: Any, task: Chain, P: int, m: int) -> None:
    from torch import nn

    units = list(task.model)
    bytes_of = [8 * P * -(-sum(p.numel() for p in unit.parameters()) // P) for unit in units]

    def program(comm):
        with own_work(LIBRARY):
            model = nn.Sequential(*(answer(unit, comm) for unit in task.copy()))
            optimizer, steps = adamw(model.parameters()), []
            for rows in task.rows:
                optimizer.zero_grad()
                start = len(comm.calls)
                between, inputs = [], []
                for x, y in rows[comm.rank]:
                    x = x.clone().requires_grad_()
                    value = loss(model, x, y) / m
                    between.append(comm.gathered_bytes)
                    value.backward()
                    inputs.append(x.grad)
                calls = comm.calls[start:]
                after, most = comm.gathered_bytes, comm.most_gathered_bytes
                kept = held_bytes(model)
                optimizer.step()
                parts = [p.detach().clone() for p in model.parameters()]
                steps.append((calls, between, after, most, kept, parts, inputs))
            return steps

    alone = trained_alone(task)
    results = record_team(program, P)
    for number_, right in enumerate(alone):
        flat_parts = [_parts_of(unit, right, i, P) for i, unit in enumerate(units)]
        for rank, steps in enumerate(results):
            where = f"P = {P}, rank {rank}" + (f", step {number_ + 1}" if number_ else "")
            calls, between, after, most, kept, parts, inputs = steps[number_]
            wanted = [flat[rank] for flat in flat_parts]
            if [tuple(p.shape) for p in parts] != [tuple(w.shape) for w in wanted]:
                raise NotYet(f"{where}: parameters() of a unit must be its part, and nothing else")
            for i, (part, w) in enumerate(zip(parts, wanted, strict=True)):
                if not close(part, w):
                    raise NotYet(f"{where}: the part of unit {i} is not what one process has")
            if any(g is None for g in inputs):
                raise NotYet(f"{where}: no gradient arrives at the input")
            if max(between) > 0:
                raise NotYet(
                    f"{where}: right, but {max(between):,} B of whole weights are still there "
                    "between the forward and the backward pass: who keeps them?"
                )
            if after > 0:
                raise NotYet(f"{where}: right, but after the backward pass {after:,} B are whole")
            if most > max(bytes_of):
                raise NotYet(f"{where}: right, but more than one unit was whole at a time")
            whole = sorted(
                ["all-gather"] * 2 * len(units) * m + ["reduce-scatter"] * len(units) * m
            )
            judge_calls(sorted(c.operation for c in calls), whole, f"{where}: a step")
            judge_bytes(calls, 3 * m * phase_bytes(units, P), f"{where}: a step")
            expected = 2 * sum(bytes_of) // P
            if kept > expected:
                raise NotYet(
                    f"{where}: right, but {kept:,} B can be reached from the model, which should "
                    "be its part and the part's gradient: is a whole tensor behind one of them?"
                )


def _judge_fetched(answer: Any, P: int) -> None:
    """The parts change between the passes: only weights that were kept do not know of it."""
    from torch import nn

    layer = nn.Linear(4, 3).double()
    layer.weight.data.copy_(random(3, 4, seed=0))

    def program(comm):
        import copy

        with own_work(LIBRARY):
            unit = answer(copy.deepcopy(layer), comm)
            x = random(2, 4, seed=comm.rank).requires_grad_()
            value = unit(x).sum()
            for part in unit.parameters():
                part.data.mul_(2)
            value.backward()
        return x.grad

    for rank, found in enumerate(record_team(program, P)):
        if not close(found, 2 * layer.weight.detach().sum(0).expand(2, 4)):
            raise NotYet(
                f"P = {P}, rank {rank}: right, but when the parts change after the forward pass, "
                "the backward pass still has the weights of before: a copy of them was kept, and "
                "what was fetched is not used"
            )


def _parts_of(unit, right: dict, i: int, P: int) -> list:
    import torch

    flat = torch.cat([right[f"{i}.{name}"].reshape(-1) for name, _ in unit.named_parameters()])
    size = -(-len(flat) // P)
    return list(torch.cat([flat, flat.new_zeros(P * size - len(flat))]).chunk(P))


def _judge_weights(answer: Any, task: Chain, where: str) -> list:
    """The steps of every rank, whose weights after each are those of one process."""
    import torch

    results = train(answer, task)
    for i, right in enumerate(trained_alone(task)):
        at = f"{where}, step {i + 1}"
        for name, value in right.items():
            found = [steps[i].weights[name] for steps in results]
            if all(close(w, value) for w in found):
                continue
            if not all(torch.equal(w, found[0]) for w in found):
                raise NotYet(f"{at}: the ranks hold different weights in {name}")
            if all(torch.equal(w, steps[0].weights[name]) for w, steps in
                   zip(found, results, strict=True)) and i:  # fmt: skip
                raise NotYet(f"{at}: {name} has not changed since step 1")
            raise NotYet(f"{at}: {name} is the same on all ranks, but not that of one process")
    return results


def _judge_held(steps: list, task: Chain, P: int, stage: int, where: str) -> None:
    """Between backward and step a rank holds what the stage says, but for what fills up."""
    sizes = [sum(p.numel() for p in unit.parameters()) for unit in task.model]
    padded = sum(P * -(-n // P) for n in sizes)
    whole, parts = {1: (2, 2), 2: (1, 3)}[stage]  # weights, gradients, two moments
    least, right = (8 * (whole * n + parts * n // P) for n in (sum(sizes), padded))
    if steps[-1].held < least:
        raise NotYet(
            f"{where}: right, but only {steps[-1].held:,} B can be reached from the model and your "
            f"object before step(), where stage {stage} needs {right:,} B: does make_optimizer's "
            "optimizer make the update?"
        )
    if steps[-1].held > right:
        raise NotYet(
            f"{where}: right, but {steps[-1].held:,} B can be reached from the model and your "
            "object before step(); stage "
            f"{stage} needs {right:,} B: is an old copy, or an old gradient, kept?"
        )
