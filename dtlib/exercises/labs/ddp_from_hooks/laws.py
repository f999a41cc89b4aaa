"""Gradients of the reader's replicas against one process, and the all-reduces that made them."""

import copy
from collections.abc import Callable
from typing import Any

from dtlib.exercises.judge import call, function, number, real
from dtlib.exercises.judges.tensors import close
from dtlib.exercises.labs.ddp_from_hooks.tasks import (
    Step,
    Task,
    branches,
    chain,
    freeze,
    frozen,
    loss,
    plan,
    reference_gradients,
    run,
    tied,
)
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds.replicas import record_replicas
from dtlib.exercises.worlds.world import TransportError
from dtlib.later import torch


def each_law(answer: Callable, P: int) -> None:
    _averaged(answer, P, lambda sizes: sizes[::-1], lambda sizes: sizes)


def flat_law(answer: Callable, P: int) -> None:
    _averaged(answer, P, lambda sizes: [sum(sizes)])


def buckets_law(answer: Any) -> None:
    function(answer, "make_buckets(parameters, bucket_bytes)")
    for counts in ([3, 40, 5, 6, 7, 8], [100], [10] * 9, [1, 1, 1, 50, 1]):
        for dtype in (torch.float32, torch.float64):
            parameters = [torch.nn.Parameter(torch.zeros(n, dtype=dtype)) for n in counts]
            for cap in (1, 80, 160, 10_000):
                _judge_buckets(answer, parameters, cap)


def overlapped_law(answer: Callable, P: int) -> None:
    task = chain(P)
    for step in run(answer, task, steps=2):
        where = "second step: " if step.number else ""
        _judge_gradients(step.gradients, task, reference_gradients(task), where)
        _judge_events(step, task)


def accumulating_law(answer: Callable, P: int) -> None:
    overlapped_law(answer, P)
    task = chain(P, micro_batches=3)
    for step in run(answer, task, steps=2, quiet=True):
        where = f"step {step.number + 1}: "
        _judge_gradients(step.gradients, task, reference_gradients(task), where)
        _judge_events(step, task)


def robust_law(answer: Callable, P: int) -> None:
    overlapped_law(answer, P)
    if P > 2:
        return
    scenes = {
        "a parameter frozen before it is wrapped": frozen(),
        "a branch that only rank 0 uses": branches(lambda rank: "ab" if rank == 0 else "a"),
        "a branch that no rank uses": branches(lambda rank: "b"),
        "branches in another order on each rank": branches(lambda rank: "ab" if rank else "ba"),
        "a tied parameter": tied(),
    }
    _judge_scene(answer, "a parameter frozen after it is wrapped", chain(ranks=2), freeze)
    for name, task in scenes.items():
        _judge_scene(answer, name, task)


def factor_law(answer: Callable, P: int) -> None:
    counts = {2: [3, 5], 3: [8, 0, 1], 4: [1016, 8, 500, 12]}[P]
    trace = record_replicas(lambda comm: answer(comm, counts[comm.rank]), P)
    for rank, got in enumerate(trace.results):
        _judge_factor(real(got, "the factor"), counts[rank], P, sum(counts), f"{counts} tokens")


def _averaged(answer: Callable, P: int, *layouts: Callable) -> None:
    """The gradients are averaged, in all-reduces of the sizes that one of the layouts gives."""
    from dtlib.models import gradients

    task = chain(P)

    def program(comm):
        module = copy.deepcopy(task.module)
        for x, y in task.batches[comm.rank]:
            loss(module, x, y).backward()
        answer(module, comm)
        return gradients(module)

    trace = record_replicas(program, P)
    _judge_gradients(trace.results, task, reference_gradients(task), "")
    allowed = [layout([p.numel() for p in task.module.parameters()]) for layout in layouts]
    if trace.numbers() not in allowed:
        found, wanted = len(trace.numbers()), len(allowed[0])
        if found == wanted:
            raise NotYet("right, but what is reduced has another size than the gradients")
        hint = ": put the gradients behind one another first" if found > 1 else ""
        raise NotYet(f"right, but in {_counted(found)} where {wanted} would do{hint}")


def _counted(calls: int) -> str:
    return f"{calls} all-reduce{'' if calls == 1 else 's'}"


def _judge_buckets(answer: Callable, parameters: list, cap: int) -> None:
    where = f"{[p.numel() for p in parameters]} numbers of {parameters[0].itemsize} B, cap {cap} B"
    made = call(answer, list(parameters), cap)
    if not isinstance(made, list | tuple):
        raise NotYet(f"{where}: {type(made).__name__} where a list of buckets should be")
    found = [list(bucket) for bucket in made]
    given = [id(p) for bucket in found for p in bucket]
    order = [id(p) for p in reversed(parameters)]
    if sorted(given) != sorted(order):
        raise NotYet(f"{where}: each parameter must be in one bucket, and in one only")
    if given == order[::-1] and len(order) > 1:
        raise NotYet(f"{where}: the first bucket begins with the parameter whose gradient is last")
    if given != order:
        raise NotYet(f"{where}: the buckets must follow the parameters from the last to the first")
    if not all(found):
        raise NotYet(f"{where}: a bucket is empty")
    sizes = [sum(p.nbytes for p in bucket) for bucket in found]
    for i, bucket in enumerate(found):
        if sizes[i] > cap and len(bucket) > 1:
            raise NotYet(f"{where}: bucket {i} holds more than the cap, in several parameters")
        if i and sizes[i - 1] + bucket[0].nbytes <= cap:
            raise NotYet(f"{where}: the first parameter of bucket {i} had room in the one before")


def _judge_events(step: Step, task: Task) -> None:
    """Each bucket starts when its last gradient is there, and is waited for after backward."""
    events, wanted = step.events, plan(task.module)
    texts = [event.text for event in events]
    starts = step.starts
    quiet = max((i for i, text in enumerate(texts) if text == "quiet"), default=-1)
    if starts and starts[0] < quiet:
        raise NotYet(
            "right, but an all-reduce starts inside no_sync: that average is paid for twice"
        )
    numbers = [int(events[i].text.split()[1].replace(",", "")) for i in starts]
    if sorted(numbers) != sorted(wanted):
        raise NotYet(
            f"right, but {_counted(len(starts))} for {len(wanted)} buckets, or of other sizes"
        )
    end = texts.index("backward ends")
    if any(e.what == "is waited for" for e in events[:end]):
        raise NotYet("right, but it waits inside the backward pass: nothing overlaps")
    late = sum(i > end for i in starts)
    if late:
        raise NotYet(f"right, but {late} of {len(starts)} start after the backward pass: too late")
    ready = [sum(text.startswith("has ") for text in texts[quiet + 1 : i]) for i in starts]
    if len(set(ready)) < len(ready):
        raise NotYet("right, but buckets start together: start each when its own last one arrives")


def _judge_scene(answer: Any, name: str, task: Task, after: Callable | None = None) -> None:
    try:
        steps = run(answer, task, steps=2, after=after)
    except TransportError as error:
        raise NotYet(f"{name}: {error.reason}") from None
    for step in steps:
        _judge_gradients(step.gradients, task, reference_gradients(task, after), f"{name}: ")
    found, wanted = len(steps[0].starts), len(plan(task.module))
    if after is None and found != wanted:
        raise NotYet(f"{name}: right, but {_counted(found)} for {wanted} buckets")


def _judge_gradients(found: list[dict], task: Task, reference: dict, where: str) -> None:
    """Every replica holds the gradients of the whole batch; else say how they are wrong."""
    P = len(found)
    for name, right in reference.items():
        values = [gradients.get(name) for gradients in found]
        if any(value is None for value in values):
            rank = next(r for r, value in enumerate(values) if value is None)
            raise NotYet(f"{where}rank {rank} has no gradient of {name}")
        if all(close(value, right) for value in values):
            continue
        if any(value.isnan().any() for value in values):
            raise NotYet(f"{where}{name} is read before wait() has returned")
        if not all(close(value, values[0]) for value in values):
            raise NotYet(f"{where}the ranks hold different gradients of {name}")
        if close(values[0], P * right):
            raise NotYet(f"{where}the gradient of {name} is P times too large: a sum is no mean")
        if close(values[0] * P, right):
            raise NotYet(f"{where}the gradient of {name} is P times too small: divided twice?")
        raise NotYet(f"{where}the gradient of {name} is the same on all ranks, but wrong")


def _judge_factor(value: float, own: int, P: int, N: int, where: str) -> None:
    slips = {
        1 / N: "the averaged gradient is then P times too small: the average divides once more",
        own / N: "that is the weight of a rank's mean, but this loss is a sum",
        P * own / N: "that is right for a rank's mean loss, but this loss is a sum",
        1.0: "then a rank's sum is averaged over ranks, not over tokens",
    }
    if own:
        slips[1 / own] = "that averages the ranks' means: a token among few weighs more"
    slips.pop(P / N, None)
    number(value, P / N, f"{where}: the factor", tolerance=1e-6, mistakes=slips)
