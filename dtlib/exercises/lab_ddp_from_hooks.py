"""Graders of the lab 'Bucketed DDP from hooks'."""

from collections.abc import Callable
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import function, number, real, whole
from dtlib.exercises.replica_tasks import (
    Step,
    Task,
    branches,
    chain,
    frozen,
    loss,
    plan,
    reference_gradients,
    run,
    tied,
)
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds import record_replicas
from dtlib.foundations import TransformerSpec

OTHERS = ("dtlib.parallelism", "torch.nn.parallel", "torch.distributed")
SIZES = (2, 3, 4)
SPEC = TransformerSpec("lab", layers=2, hidden=64, heads=4, vocab=256, norm="rms", bias=False)


@grader("ex-ddp-predict")
def predict(answer: Any) -> str:
    asked = ("naive_calls", "flat_calls", "sent_bytes", "sent_bytes_without_no_sync")
    if not isinstance(answer, dict) or set(answer) != set(asked):
        raise NotYet(f"pass a dict with the keys {', '.join(asked)}")
    n = 4 * SPEC.params()
    naive = 3 + 8 * SPEC.layers
    slips = {naive - 1: "count the tables at both ends and the last norm", SPEC.params(): "tensors"}
    number(whole(answer["naive_calls"], "naive_calls"), naive, "naive_calls", mistakes=slips)
    number(whole(answer["flat_calls"], "flat_calls"), 1, "flat_calls")
    for name, times in (("sent_bytes", 1), ("sent_bytes_without_no_sync", 4)):
        phase = "that is one phase of a ring, and there are two"
        slips = {
            n * times: "a rank sends more than it holds: count the phases of the ring",
            0.75 * n * times: phase,
            1.5 * n / 4 * times: "bytes, please: how large is a float32?",
            6 * n * times: "that is all ranks together",
            1.5 * n * 4 / times: "how many of the four backward passes communicate?",
        }
        number(answer[name], 1.5 * n * times, name, "bytes", mistakes=slips, tolerance=1e-6)
    return "calls and bytes of one rank; the real ranks will be held to them"


@grader("ex-ddp-naive")
def naive(answer: Any) -> str:
    function(answer, "average_each(module, comm)")
    _judge_averaging(answer, lambda sizes: sizes[::-1], lambda sizes: sizes)
    return "on 2 to 4 replicas every gradient is that of the whole batch, one all-reduce for each"


@grader("ex-ddp-flat")
def flat(answer: Any) -> str:
    function(answer, "average_flat(module, comm)")
    _judge_averaging(answer, lambda sizes: [sum(sizes)])
    return "the same gradients, in one all-reduce"


@grader("ex-ddp-buckets")
def buckets(answer: Any) -> str:
    import torch

    function(answer, "make_buckets(parameters, bucket_bytes)")
    for counts in ([3, 40, 5, 6, 7, 8], [100], [10] * 9, [1, 1, 1, 50, 1]):
        for dtype in (torch.float32, torch.float64):
            parameters = [torch.nn.Parameter(torch.zeros(n, dtype=dtype)) for n in counts]
            for cap in (1, 80, 160, 10_000):
                _judge_buckets(answer, parameters, cap)
    return "from the last parameter to the first, filled to the cap and not beyond"


@grader("ex-ddp-hooks")
def hooks(answer: Any) -> str:
    _judge_wrapper(answer, "Overlapped")
    return "every bucket is on its way while backward still runs, and each step starts afresh"


@grader("ex-ddp-no-sync")
def no_sync(answer: Any) -> str:
    _judge_wrapper(answer, "Accumulating")
    task = chain(ranks=3, micro_batches=3)
    for step in run(answer, task, steps=2, quiet=True):
        _judge_gradients(step.gradients, task, reference_gradients(task), f"step {step.number + 1}")
        _judge_events(step, task)
    return "three micro-batches, one average, and the bytes of one step"


@grader("ex-ddp-loss-factor")
def loss_factor(answer: Any) -> str:
    function(answer, "loss_factor(comm, tokens)")
    for counts in ([3, 5], [8, 0, 1], [1016, 8, 500, 12]):
        P, N = len(counts), sum(counts)
        trace = record_replicas(lambda comm, c=counts: answer(comm, c[comm.rank]), P)
        for rank, got in enumerate(trace.results):
            _judge_factor(real(got, "the factor"), counts[rank], P, N, f"{counts} tokens")
    return "each token weighs the same, on whichever rank it is, and a rank may have none"


@grader("ex-ddp-robust")
def robust(answer: Any) -> str:
    _judge_wrapper(answer, "Robust")
    scenes = {
        "a parameter frozen before it is wrapped": frozen(before=True),
        "a parameter frozen after it is wrapped": frozen(before=False),
        "a branch that only rank 0 uses": branches(lambda rank: "ab" if rank == 0 else "a"),
        "a branch that no rank uses": branches(lambda rank: "b"),
        "branches in another order on each rank": branches(lambda rank: "ab" if rank else "ba"),
        "a tied parameter": tied(),
    }
    for name, (task, after) in scenes.items():
        _judge_scene(answer, name, task, after)
    return "frozen, idle and tied parameters, and ranks that disagree about the order"


# ---- what the reader's functions do


def _judge_averaging(answer: Callable, *layouts: Callable) -> None:
    """The gradients are averaged, in all-reduces of the sizes that one of the layouts gives."""
    import copy

    from dtlib.models import gradients

    for P in SIZES:
        task = chain(P)

        def program(comm, task=task):
            module = copy.deepcopy(task.module)
            for x, y in task.batches[comm.rank]:
                loss(module, x, y).backward()
            answer(module, comm)
            return gradients(module)

        trace = record_replicas(program, P)
        _judge_gradients(trace.results, task, reference_gradients(task), f"P = {P}")
        sizes = [p.numel() for p in task.module.parameters()]
        allowed = [layout(sizes) for layout in layouts]
        if trace.numbers() not in allowed:
            found, wanted = len(trace.numbers()), len(allowed[0])
            if found == wanted:
                raise NotYet("right, but what is reduced has another size than the gradients")
            raise NotYet(f"right, but in {_counted(found)} where {wanted} would do{_hint(found)}")


def _hint(found: int) -> str:
    return ": put the gradients behind one another first" if found > 1 else ""


def _counted(calls: int) -> str:
    return f"{calls} all-reduce{'' if calls == 1 else 's'}"


def _judge_buckets(answer: Callable, parameters: list, cap: int) -> None:
    where = f"{[p.numel() for p in parameters]} numbers of {parameters[0].itemsize} B, cap {cap} B"
    try:
        found = [list(bucket) for bucket in answer(iter(parameters), cap)]
    except NotImplementedError:
        raise NotYet("there is nothing here yet: the function raises NotImplementedError") from None
    except Exception as error:
        raise NotYet(f"{where}: {type(error).__name__}: {error}") from None
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


def _judge_wrapper(answer: Any, name: str) -> None:
    function(answer, f"{name}(module, comm, bucket_bytes)")
    if getattr(answer, "__module__", "").startswith(OTHERS):
        raise NotYet(f"that is a class of {answer.__module__}: write your own")
    for P in SIZES:
        task = chain(P)
        for step in run(answer, task, steps=2):
            _judge_gradients(
                step.gradients, task, reference_gradients(task), _where(P, step.number)
            )
            _judge_events(step, task)


def _where(P: int, number: int) -> str:
    return f"P = {P}" if number == 0 else f"P = {P}, second step"


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


def _judge_scene(answer: Any, name: str, task: Task, after: Callable | None) -> None:
    from dtlib.exercises.worlds import TransportError

    reference = reference_gradients(task, after)
    try:
        steps = run(answer, task, steps=2, after=after)
    except TransportError as error:
        raise NotYet(f"{name}: {str(error).splitlines()[0]}") from None
    for step in steps:
        _judge_gradients(step.gradients, task, reference, name)
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
            raise NotYet(f"{where}: rank {rank} has no gradient of {name}")
        if all(_close(value, right) for value in values):
            continue
        if any(value.isnan().any() for value in values):
            raise NotYet(f"{where}: {name} is read before wait() has returned")
        if not all(_close(value, values[0]) for value in values):
            raise NotYet(f"{where}: the ranks hold different gradients of {name}")
        if _close(values[0], P * right):
            raise NotYet(f"{where}: the gradient of {name} is P times too large: a sum is no mean")
        if _close(values[0] * P, right):
            raise NotYet(f"{where}: the gradient of {name} is P times too small: divided twice?")
        raise NotYet(f"{where}: the gradient of {name} is the same on all ranks, but wrong")


def _close(value, right) -> bool:
    return bool((value - right).abs().max() <= 1e-10 * right.abs().max())


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
