"""Graders of the lab 'Write 1F1B, then zero bubble'."""

from collections.abc import Callable, Iterator
from typing import Any

from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, real, unaided, whole
from dtlib.exercises.own_work import own_work
from dtlib.exercises.pipelines import built
from dtlib.exercises.verdict import NotYet
from dtlib.parallelism.pipeline import PipelineSchedule, simulate

SIZES = ((1, 1), (1, 3), (2, 1), (2, 5), (3, 4), (4, 2), (4, 8), (5, 11))
TIMES = ((1, 1, 1), (1, 2, 1), (3, 1, 2))
BUILDERS = tuple(f"dtlib.parallelism.pipeline.{name}" for name in ("builders", "v_shaped"))


@grader("ex-lab-pp-predict")
def predict(answer: Any) -> str:
    asked = ("idle", "gpipe_holds", "one_f_one_b_holds", "messages")
    if not isinstance(answer, dict) or set(answer) != set(asked):
        raise NotYet(f"pass a dict with the keys {', '.join(asked)}")
    mistakes = {
        3 / 8: "that is on top of the work; asked is the share of the whole step",
        300 / 11: "as a share, please, not in percent",
        3 / 4: "that is one micro-batch; eight are under way",
        4 / 11: "count the turns in which a rank does nothing, not the ranks",
        6 / 11: "the way there and the way back are both in the whole",
    }
    number(real(answer["idle"], "idle"), 3 / 11, "idle", mistakes=mistakes)
    for name, right in (("gpipe_holds", [8] * 4), ("one_f_one_b_holds", [4, 3, 2, 1])):
        held = [whole(x, name) for x in items(answer[name], name, 4)]
        if held == right[::-1] and held != right:
            raise NotYet(f"{name}: upside down; which rank waits longest for its first gradient?")
        if held == [x - 1 for x in right]:
            raise NotYet(f"{name}: one more forward pass follows before the first gradient")
        for rank, (given, count) in enumerate(zip(held, right, strict=True)):
            if given != count:
                much = "many" if given > count else "few"
                raise NotYet(f"{name}: rank {rank}: too {much} at once")
    mistakes = {
        24: "activations travel down; what travels up?",
        64: "count the borders between ranks, not the ranks",
        12: "that is one rank of several",
        16: "that is one rank of several, or one border",
    }
    number(whole(answer["messages"], "messages"), 48, "messages", mistakes=mistakes)
    return "idle time, micro-batches held and messages; the real ranks will be held to them"


@grader("ex-lab-pp-gpipe")
def gpipe(answer: Any) -> str:
    for where, schedule in _schedules(answer, "gpipe(p, m)", SIZES):
        _as_fast_as_gpipe(schedule, where)
        for rank in range(schedule.p):
            kinds = [action.kind for action in schedule.actions(rank)]
            if "F" in kinds[schedule.m :]:
                raise NotYet(
                    f"{where}: legal, and as fast, but rank {rank} goes back before it has done "
                    "all its forward passes: that is not GPipe yet"
                )
    return f"on {_sizes(SIZES)}: legal, and no rank waits longer than it must"


@grader("ex-lab-pp-one-f-one-b")
def one_f_one_b(answer: Any) -> str:
    for where, schedule in _schedules(answer, "one_f_one_b(p, m)", SIZES):
        _as_fast_as_gpipe(schedule, where)
        for rank, held in enumerate(schedule.peak_activations):
            if held > min(schedule.m, schedule.p - rank):
                raise NotYet(
                    f"{where}: legal and as fast as GPipe, but rank {rank} holds {_brief(held)} "
                    "micro-batches at once: how many must it take in before its first gradient?"
                )
    return f"on {_sizes(SIZES)}: as fast as GPipe, and no rank holds one micro-batch too many"


@grader("ex-lab-pp-weights")
def weights(answer: Any) -> str:
    import torch

    function(answer, "micro_batch_weights(targets)")
    draw = torch.Generator().manual_seed(4)
    for ignored in ([1, 5, 12], [0, 20, 3], [20, 20, 1], [0, 0, 0]):
        targets = [torch.randint(0, 9, (4, 5), generator=draw) for _ in ignored]
        for part, count in zip(targets, ignored, strict=True):
            part.view(-1)[:count] = -100
        counts = [20 - count for count in ignored]
        got = [
            real(x, "a weight") for x in items(call(answer, targets), "the weights", len(counts))
        ]
        _judge_weights(got, [count / sum(counts) for count in counts])
    return "every target counts once, in whichever micro-batch it is"


def _judge_weights(got: list[float], right: list[float]) -> None:
    if all(abs(x - y) < 1e-9 for x, y in zip(got, right, strict=True)):
        return
    if all(abs(x - y) < 1e-6 for x, y in zip(got, right, strict=True)):
        raise NotYet(
            "the right shares, but to seven digits only, as 32-bit tensors have them: gradients "
            "would differ from those of one process; return Python's numbers, or 64 bits"
        )
    if len(set(got)) == 1:
        raise NotYet(
            "all weights are equal, so a target in a micro-batch with few of them counts for more "
            "than one elsewhere: a mean of means is another loss"
        )
    if abs(sum(got) - 1) > 1e-9:
        raise NotYet("the weights do not add up to one: what is one target's share of the batch?")
    raise NotYet("the weights are not the micro-batches' shares of the targets that count")


@grader("ex-lab-pp-halves")
def halves(answer: Any) -> str:
    import torch

    input_gradient, weight_gradient = items(answer, "(input_gradient, weight_gradient)", 2)
    function(input_gradient, "input_gradient(dy, weight)")
    function(weight_gradient, "weight_gradient(dy, x)")
    draw = torch.Generator().manual_seed(3)
    for shape, out in (((4, 3), 5), ((2, 3, 4), 6), ((1, 2, 3, 7), 1)):
        x = torch.randn(shape, generator=draw, dtype=torch.float64, requires_grad=True)
        weight = torch.randn(out, shape[-1], generator=draw, dtype=torch.float64).requires_grad_()
        y = x @ weight.T
        dy = torch.randn(y.shape, generator=draw, dtype=torch.float64)
        y.backward(dy)
        x_alone, weight_alone = x.detach(), weight.detach()
        for name, given, right in (
            ("input_gradient", (input_gradient, dy, weight_alone), x.grad),
            ("weight_gradient", (weight_gradient, dy, x_alone), weight.grad),
        ):
            of = f"{name}, for x with {len(shape)} dimensions"
            try:
                with own_work():
                    found = call(*given, passing=(RuntimeError, IndexError))
            except (RuntimeError, IndexError) as error:
                raise NotYet(f"{of}: {str(error).splitlines()[0]}"[:280]) from None
            _judge_gradient(name, of, found, right)
    return "two products, and neither needs the other"


def _judge_gradient(name: str, of: str, given: Any, right: Any) -> None:
    import torch

    if not isinstance(given, torch.Tensor):
        raise NotYet(f"{name} returns {type(given).__name__}, not a tensor")
    if given.shape != right.shape:
        raise NotYet(f"{of}: a gradient has the shape of what it is the gradient of")
    if not torch.allclose(given, right, rtol=1e-10, atol=1e-10):
        raise NotYet(f"{of}: the right shape, but not the gradient")


@grader("ex-lab-pp-zb-h1")
def zb_h1(answer: Any) -> str:
    sizes = tuple((p, m) for p in (1, 2, 3, 4, 6) for m in (p, p + 1, 2 * p, 3 * p + 1))
    for where, schedule in _schedules(answer, "zb_h1(p, m)", (*sizes, (4, 2))):
        p, m = schedule.p, schedule.m
        _splits(schedule, where)
        if m < p:
            continue
        for rank, held in enumerate(schedule.peak_activations):
            if held > p:
                raise NotYet(
                    f"{where}: legal, but rank {rank} holds {_brief(held)} micro-batches at once, "
                    "more than the fullest rank of 1F1B: do its W earlier"
                )
        timeline = simulate(schedule)
        if timeline.stage_bubble > p - 1:
            rank = _waits_longest(schedule)
            raise NotYet(
                f"{where}: legal and no fuller than 1F1B, but rank {rank} waits longer than one "
                "unit for each stage below the first; is a W in a gap, or in the way?"
            )
        if timeline.makespan > 3 * m + p - 1:
            raise NotYet(
                f"{where}: no rank waits too long, but the last one ends late: which W could it "
                "have done before?"
            )
    return "no fuller than 1F1B, and each stage costs one unit of waiting in the place of three"


@grader("ex-lab-pp-zb-h2")
def zb_h2(answer: Any) -> str:
    sizes = tuple((p, m) for p in (1, 2, 3, 4, 6) for m in (2 * p - 1, 2 * p, 4 * p))
    for where, schedule in _schedules(answer, "zb_h2(p, m)", (*sizes, (4, 3))):
        p, m = schedule.p, schedule.m
        _splits(schedule, where)
        if m < 2 * p - 1:
            continue
        if simulate(schedule).stage_bubble > 0:
            rank = _waits_longest(schedule)
            raise NotYet(
                f"{where}: legal, but rank {rank} still waits between its first and its last "
                "action: what could it do before its first gradient, or after its last?"
            )
        for rank, held in enumerate(schedule.peak_activations):
            if held > 2 * p - 1:
                raise NotYet(
                    f"{where}: no rank waits, but rank {rank} holds {_brief(held)} micro-batches "
                    "at once, more than it takes: begin with fewer, or do W earlier"
                )
    return "from its first action to its last no rank ever waits"


def _schedules(answer: Any, signature: str, sizes) -> Iterator[tuple[str, PipelineSchedule]]:
    """What the reader's builder gives for each (p, m), if it is legal; where, for messages."""
    builder: Callable = function(answer, signature)
    for p, m in sizes:
        where = f"p = {p}, m = {m}"
        with unaided(*BUILDERS, write="the rows"):
            schedule = built(builder, where, p, m, ranks=p, batches=m, stages=p)
        yield where, schedule


def _as_fast_as_gpipe(schedule: PipelineSchedule, where: str) -> None:
    p, m = schedule.p, schedule.m
    for f, b, w in TIMES:
        if simulate(schedule, f, b, w).makespan > (m + p - 1) * (f + b + w):
            raise NotYet(
                f"{where}: legal, but slow: if F, B and W take {f}, {b} and {w}, ranks wait for "
                "longer than filling and draining takes"
            )


def _splits(schedule: PipelineSchedule, where: str) -> None:
    for rank in range(schedule.p):
        for action in schedule.actions(rank):
            if action.kind == "BW":
                raise NotYet(f"{where}: {action} is not split into B and W")


def _waits_longest(schedule: PipelineSchedule) -> int:
    timeline = simulate(schedule)

    def waits(rank: int):
        own = timeline.of(rank)
        return own[-1].stop - own[0].start - timeline.work(rank)

    return max(range(schedule.p), key=waits)


def _brief(count) -> str:
    return f"{float(count):g}"


def _sizes(sizes) -> str:
    return f"{len(sizes)} pipelines of up to {max(p for p, _ in sizes)} ranks"
