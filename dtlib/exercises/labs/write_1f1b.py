"""The tasks of the lab 'Write 1F1B, then zero bubble'."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked
from dtlib.exercises.judge import call, functions, items, real, whole
from dtlib.exercises.judges.schedules import legal
from dtlib.exercises.verdict import NotYet
from dtlib.later import torch
from dtlib.parallelism.pipeline import PipelineSchedule, simulate

# fmt: off
_IDLE = Asked("idle", 3 / 11, slips={
    3 / 8: "that is on top of the work; asked is the share of the whole step",
    300 / 11: "as a share, please, not in percent",
    3 / 4: "that is one micro-batch; eight are under way",
    4 / 11: "count the turns in which a rank does nothing, not the ranks",
    6 / 11: "the way there and the way back are both in the whole"})
_MESSAGES = Asked("messages", 48, slips={
    24: "activations travel down; what travels up?",
    64: "count the borders between ranks, not the ranks",
    12: "that is one rank of several",
    16: "that is one rank of several, or one border"})
_HELD = {"gpipe_holds": [8, 8, 8, 8], "one_f_one_b_holds": [4, 3, 2, 1]}


def _predicted(**changes: Any) -> dict[str, Any]:
    return {"idle": 3 / 11, **_HELD, "messages": 48, **changes}


def _predict_law(answer: Any) -> None:
    if not isinstance(answer, dict) or set(answer) != set(_predicted()):
        raise NotYet(f"pass a dict with the keys {', '.join(_predicted())}")
    _IDLE.judge(answer["idle"])
    for name, right in _HELD.items():
        held = [whole(count, name) for count in items(answer[name], name, 4)]
        if held == right[::-1] != right:
            raise NotYet(f"{name}: upside down; which rank waits longest for its first gradient?")
        if held == [count - 1 for count in right]:
            raise NotYet(f"{name}: one more forward pass follows before the first gradient")
        for rank, (given, count) in enumerate(zip(held, right, strict=True)):
            if given != count:
                much = "many" if given > count else "few"
                raise NotYet(f"{name}: rank {rank}: too {much} at once")
    _MESSAGES.judge(answer["messages"])


predict = Made(
    "ex-lab-pp-predict",
    About("Predict the pipeline", "compute", 1, 8,
          "count idle time, activations and messages before running"),
    _predict_law, _predicted,
    "idle time, micro-batches held and messages; the real ranks will be held to them",
    {
        **{f"{asked.name}: {hint}": partial(_predicted, **{asked.name: value})
           for asked in (_IDLE, _MESSAGES) for value, hint in asked.slips.items()},
        "gpipe_holds: rank 0: too few": lambda: _predicted(gpipe_holds=[4] * 4),
        "upside down": lambda: _predicted(one_f_one_b_holds=[1, 2, 3, 4]),
        "one more forward pass": lambda: _predicted(one_f_one_b_holds=[3, 2, 1, 0]),
        "one_f_one_b_holds: rank 1: too many": lambda: _predicted(one_f_one_b_holds=[4] * 4),
        "the keys idle, gpipe_holds": lambda: 3 / 11,
    },
)

_SIZES = ((1, 1), (1, 3), (2, 1), (2, 5), (3, 4), (4, 2), (4, 8), (5, 11))


def _ordered(p: int, m: int) -> PipelineSchedule:
    rows = [[f"{r}F{i}" for i in range(m)] + [f"{r}BW{i}" for i in range(m)] for r in range(p)]
    return PipelineSchedule(rows, m)


def _alternating(p: int, m: int, ahead: Callable = lambda p, r: p - 1 - r) -> PipelineSchedule:
    rows = []
    for r in range(p):
        first = min(ahead(p, r), m)
        row = [f"{r}F{i}" for i in range(first)]
        for i in range(m):
            row += [f"{r}F{first + i}"] * (first + i < m) + [f"{r}BW{i}"]
        rows.append(row)
    return PipelineSchedule(rows, m)


def _one_by_one(p: int, m: int) -> PipelineSchedule:
    rows = [[f"{r}{kind}{i}" for i in range(m) for kind in ("F", "BW")] for r in range(p)]
    return PipelineSchedule(rows, m)


def _as_fast_as_gpipe(given: Any, p: int, m: int) -> PipelineSchedule:
    schedule = legal(given, ranks=p, batches=m, stages=p)
    for f, b, w in ((1, 1, 1), (1, 2, 1), (3, 1, 2)):
        if simulate(schedule, f, b, w).makespan > (m + p - 1) * (f + b + w):
            raise NotYet(f"legal, but slow: if F, B and W take {f}, {b} and {w}, ranks wait for "
                         "longer than filling and draining takes")
    return schedule


def _gpipe_law(given: Any, right: PipelineSchedule, p: int, m: int) -> None:
    schedule = _as_fast_as_gpipe(given, p, m)
    for rank in range(p):
        if "F" in [action.kind for action in schedule.actions(rank)][m:]:
            raise NotYet(f"legal, and as fast, but rank {rank} goes back before it has done all "
                         "its forward passes: that is not GPipe yet")


gpipe = Function(
    "ex-lab-pp-gpipe",
    About("GPipe in rows", "design", 1, 8,
          "write a schedule as rows of actions"),
    "gpipe(p, m)", _ordered, lambda: (("", size) for size in _SIZES), _gpipe_law,
    "on 8 pipelines of up to 5 ranks: legal, and no rank waits longer than it must",
    {
        "goes back before it has done all its forward passes": _alternating,
        "nobody does":
            lambda p, m: PipelineSchedule([row[:-1] for row in _ordered(p, m).rows], m),
        "micro-batches, asked are": lambda p, m: _ordered(p, m + 1),
        "return a PipelineSchedule, got tuple": lambda p, m: _ordered(p, m).rows,
    },
)


def _alternating_law(given: Any, right: PipelineSchedule, p: int, m: int) -> None:
    for rank, held in enumerate(_as_fast_as_gpipe(given, p, m).peak_activations):
        if held > min(m, p - rank):
            raise NotYet(f"legal and as fast as GPipe, but rank {rank} holds {float(held):g} "
                         "micro-batches at once: how many must it take in before its first "
                         "gradient?")


one_f_one_b = Function(
    "ex-lab-pp-one-f-one-b",
    About("1F1B", "design", 2, 20,
          "derive the warm-up of each rank from what it waits for"),
    "one_f_one_b(p, m)", _alternating, lambda: (("", size) for size in _SIZES), _alternating_law,
    "on 8 pipelines of up to 5 ranks: as fast as GPipe, and no rank holds one micro-batch too many",
    {
        "as fast as GPipe, but rank 0 holds": _ordered,
        "never ends: ranks": lambda p, m: _alternating(p, m, lambda p, r: r),
        "micro-batches at once": lambda p, m: _alternating(p, m, lambda p, r: p - r),
        "legal, but slow": _one_by_one,
    },
)


def _targets() -> Iterator[tuple[str, tuple[list]]]:
    draw = torch.Generator().manual_seed(4)
    for ignored in ([1, 5, 12], [0, 20, 3], [20, 20, 1], [0, 0, 0]):
        targets = [torch.randint(0, 9, (4, 5), generator=draw) for _ in ignored]
        for part, count in zip(targets, ignored, strict=True):
            part.view(-1)[:count] = -100
        yield f"{', '.join(map(str, ignored))} targets are ignored", (targets,)


def _counts(targets: list) -> list[int]:
    return [int((part != -100).sum()) for part in targets]


def _shares(targets: list) -> list[float]:
    return [count / sum(_counts(targets)) for count in _counts(targets)]


def _shares_law(given: Any, right: list[float], targets: list) -> None:
    found = [real(weight, "a weight") for weight in items(given, "the weights", len(right))]
    error = max(abs(x - y) for x, y in zip(found, right, strict=True))
    if 1e-9 <= error < 1e-6:
        raise NotYet("the right shares, but to seven digits only, as 32-bit tensors have them: "
                     "gradients would differ from those of one process; return Python's numbers, "
                     "or 64 bits")
    if error >= 1e-9:
        if abs(sum(found) - 1) > 1e-9:
            raise NotYet("the weights do not add up to one: what is one target's share of the "
                         "batch?")
        raise NotYet("the weights are not the micro-batches' shares of the targets that count")


weights = Function(
    "ex-lab-pp-weights",
    About("A mean of means", "repair", 2, 8,
          "weigh micro-batches by the targets that count", needs="torch"),
    "micro_batch_weights(targets)", _shares, _targets, _shares_law,
    "every target counts once, in whichever micro-batch it is",
    {
        "all weights are equal, so a target in a micro-batch with few of them counts for more "
        "than one elsewhere: a mean of means is another loss":
            lambda targets: [1 / len(targets)] * len(targets),
        "the weights do not add up to one": _counts,
        "to seven digits only": lambda targets: torch.tensor(_shares(targets)),
        "are not the micro-batches' shares": lambda targets: _shares(targets)[::-1],
    },
)


def _input_gradient(dy: Any, weight: Any) -> Any:
    return dy @ weight


def _weight_gradient(dy: Any, x: Any) -> Any:
    return dy.flatten(0, -2).T @ x.flatten(0, -2)


def _halves_law(answer: Any) -> None:
    input_gradient, weight_gradient = functions(
        answer, "input_gradient(dy, weight)", "weight_gradient(dy, x)"
    )
    draw = torch.Generator().manual_seed(3)
    for shape, out in (((4, 3), 5), ((2, 3, 4), 6), ((1, 2, 3, 7), 1)):
        x = torch.randn(shape, generator=draw, dtype=torch.float64, requires_grad=True)
        weight = torch.randn(out, shape[-1], generator=draw, dtype=torch.float64).requires_grad_()
        y = x @ weight.T
        dy = torch.randn(y.shape, generator=draw, dtype=torch.float64)
        y.backward(dy)
        for name, given, other, right in (
            ("input_gradient", input_gradient, weight.detach(), x.grad),
            ("weight_gradient", weight_gradient, x.detach(), weight.grad),
        ):
            of = f"{name}, for x with {len(shape)} dimensions"
            try:
                found = call(given, dy, other, passing=(RuntimeError, IndexError))
            except (RuntimeError, IndexError) as error:
                raise NotYet(f"{of}: {str(error).splitlines()[0]}"[:280]) from None
            _same_gradient(name, of, found, right)


def _same_gradient(name: str, of: str, given: Any, right: Any) -> None:
    if not isinstance(given, torch.Tensor):
        raise NotYet(f"{name} returns {type(given).__name__}, not a tensor")
    if given.shape != right.shape:
        raise NotYet(f"{of}: a gradient has the shape of what it is the gradient of")
    if not torch.allclose(given, right, rtol=1e-10, atol=1e-10):
        raise NotYet(f"{of}: the right shape, but not the gradient")


halves = Made(
    "ex-lab-pp-halves",
    About("Two halves of a backward pass", "derive", 2, 10,
          "split the backward pass of a linear layer into B and W", needs="torch"),
    _halves_law, lambda: (_input_gradient, _weight_gradient),
    "two products, and neither needs the other",
    {
        "weight_gradient, for x with 2 dimensions: a gradient has the shape":
            lambda: (_input_gradient, lambda dy, x: _weight_gradient(dy, x).T),
        "weight_gradient, for x with 3 dimensions: a gradient has the shape":
            lambda: (_input_gradient, lambda dy, x: dy.mT @ x),
        "input_gradient, for x with 2 dimensions: the right shape, but not the gradient":
            lambda: (lambda dy, weight: -dy @ weight, _weight_gradient),
        "input_gradient returns float": lambda: (lambda dy, weight: 1.0, _weight_gradient),
    },
)


def _late(p: int, m: int, c: int = 1, lag: Callable | None = None, extra: int = 0) -> Any:
    """c micro-batches ahead for each rank below, W a fixed number of micro-batches late."""
    rows = []
    for r in range(p):
        ahead, behind = c * (p - 1 - r) + 1 + extra, lag(r) if lag else c * r
        row = [f"{r}F{i}" for i in range(min(ahead, m))]
        for i in range(m):
            row += [f"{r}B{i}"] + [f"{r}W{i - behind}"] * (i >= behind)
            row += [f"{r}F{ahead + i}"] * (ahead + i < m)
        rows.append(row + [f"{r}W{i}" for i in range(max(0, m - behind), m)])
    return PipelineSchedule(rows, m)


def _split_in_two(given: Any, p: int, m: int) -> PipelineSchedule:
    schedule = legal(given, ranks=p, batches=m, stages=p)
    whole_ones = [a for rank in range(p) for a in schedule.actions(rank) if a.kind == "BW"]
    if whole_ones:
        raise NotYet(f"{whole_ones[0]} is not split into B and W")
    return schedule


def _waits_longest(schedule: PipelineSchedule) -> int:
    timeline = simulate(schedule)
    rows = [timeline.of(rank) for rank in range(schedule.p)]
    waits = [row[-1].stop - row[0].start - timeline.work(r) for r, row in enumerate(rows)]
    return waits.index(max(waits))


def _first_half_law(given: Any, right: PipelineSchedule, p: int, m: int) -> None:
    schedule = _split_in_two(given, p, m)
    if m < p:
        return
    for rank, held in enumerate(schedule.peak_activations):
        if held > p:
            raise NotYet(f"legal, but rank {rank} holds {float(held):g} micro-batches at once, "
                         "more than the fullest rank of 1F1B: do its W earlier")
    timeline = simulate(schedule)
    if timeline.stage_bubble > p - 1:
        raise NotYet(f"legal and no fuller than 1F1B, but rank {_waits_longest(schedule)} waits "
                     "longer than one unit for each stage below the first; is a W in a gap, or in "
                     "the way?")
    if timeline.makespan > 3 * m + p - 1:
        raise NotYet("no rank waits too long, but the last one ends late: which W could it have "
                     "done before?")


zb_h1 = Function(
    "ex-lab-pp-zb-h1",
    About("Zero bubble, first half", "design", 3, 25,
          "fill gaps with weight gradients at no price in memory"),
    "zb_h1(p, m)", _late,
    lambda: (("", (p, m)) for p in (1, 2, 3, 4, 6)
             for m in (p, p + 1, 2 * p, 3 * p + 1, p // 2 + 1)),
    _first_half_law,
    "no fuller than 1F1B, and each stage costs one unit of waiting in the place of three",
    {
        "is not split into B and W": _alternating,
        "more than the fullest rank of 1F1B: do its W earlier": partial(_late, lag=lambda r: 99),
        "more than the fullest rank of 1F1B": partial(_late, c=2),
        "does not exist": partial(_late, lag=lambda r: -1),
    },
)


def _second_half_law(given: Any, right: PipelineSchedule, p: int, m: int) -> None:
    schedule = _split_in_two(given, p, m)
    if m < 2 * p - 1:
        return
    if simulate(schedule).stage_bubble > 0:
        raise NotYet(f"legal, but rank {_waits_longest(schedule)} still waits between its first "
                     "and its last action: what could it do before its first gradient, or after "
                     "its last?")
    for rank, held in enumerate(schedule.peak_activations):
        if held > 2 * p - 1:
            raise NotYet(f"no rank waits, but rank {rank} holds {float(held):g} micro-batches at "
                         "once, more than it takes: begin with fewer, or do W earlier")


zb_h2 = Function(
    "ex-lab-pp-zb-h2",
    About("Zero bubble, second half", "design", 3, 15,
          "trade memory for a pipeline that never waits"),
    "zb_h2(p, m)", partial(_late, c=2),
    lambda: (("", (p, m)) for p in (1, 2, 3, 4, 6) for m in (2 * p - 1, 2 * p, 4 * p, p)),
    _second_half_law,
    "from its first action to its last no rank ever waits",
    {
        "is not split into B and W": _ordered,
        "still waits between its first": _late,
        "no rank waits, but rank 0 holds": partial(_late, c=3),
        "micro-batches at once, more than it takes": partial(_late, c=2, extra=1),
    },
)
