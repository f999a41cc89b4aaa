"""Graders of the lab 'ZeRO by hand, stage by stage'.

Every program runs on 2 to 4 ranks in memory, in 64 bits, with units whose numbers do not divide.
The tasks that train are in `shard_tasks`.
"""

from typing import Any

from dtlib.exercises import shard_tasks  # noqa: F401  (the lab's other graders)
from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number
from dtlib.exercises.own_work import own_work
from dtlib.exercises.shards import (
    LIBRARY,
    SIZES,
    chain,
    close,
    judge_bytes,
    judge_calls,
    own_class,
    random,
    tensor,
)
from dtlib.exercises.verdict import NotYet
from dtlib.exercises.worlds import record_team
from dtlib.foundations import TransformerSpec

SPEC = TransformerSpec("lab", layers=2, hidden=64, heads=4, vocab=256, norm="rms", bias=False)


@grader("ex-lab-zero-predict")
def predict(answer: Any) -> str:
    asked = ("held", "sent", "sent_4")
    if not isinstance(answer, dict) or set(answer) != set(asked):
        raise NotYet(f"pass a dict with the keys {', '.join(asked)}")
    given = {name: items(answer[name], name, 4) for name in asked}
    n, P = SPEC.params(), 4
    mixed = (16 * n, 4 * n + 12 * n / P, 2 * n + 14 * n / P, 16 * n / P)
    held = (16 * n, 8 * n + 8 * n / P, 4 * n + 12 * n / P, 16 * n / P)
    for stage, right in enumerate(held):
        slips = {
            right / 4: "bytes, please: how large is a float32?",
            mixed[stage]: "that is mixed precision; here all numbers have 32 bits",
            4 * n + right: "there is no master copy: the weights have 32 bits already",
            right - 4 * n: "something is not counted: weights, gradients, two moments",
            4 * n: "that is the weights alone",
        }
        _close_number(given["held"][stage], right, f"held, stage {stage}", slips)
    phase = 4 * n * (P - 1) / P
    for name, m in (("sent", 1), ("sent_4", 4)):
        for stage, times in enumerate((2, 2, 1 + m, 3 * m)):
            slips = {
                phase * times / 4: "bytes, please: how large is a float32?",
                phase * times * P / (P - 1): "a rank's own part does not travel",
                phase * times * P: "that is all ranks together",
                phase: "that is one phase: what else must travel before the next step?",
                3 * phase: _of_three(stage, m),
                4 * phase: "the reduce-scatter and the all-gather are the halves of the all-reduce",
                2 * m * phase: "which of the two happens for every micro-batch?",
                2 * phase: "how often are gradients reduced, or weights gathered?",
            }
            _close_number(given[name][stage], phase * times, f"{name}, stage {stage}", slips)
    return "what a rank holds and sends in every stage; the real ranks will be held to it"


def _of_three(stage: int, m: int) -> str:
    if stage == 3:
        return "that is one micro-batch of four"
    return "an all-reduce, and a gather on top? one half of the all-reduce is enough"


def _close_number(value: Any, right: float, what: str, slips: dict) -> None:
    mistakes = {slip: hint for slip, hint in slips.items() if abs(slip / right - 1) > 0.01}
    number(value, right, what, "bytes", tolerance=1e-6, mistakes=mistakes)


@grader("ex-lab-zero-flat")
def flat(answer: Any) -> str:
    lay_out, cut = items(answer, "(lay_out, cut)", 2)
    function(lay_out, "lay_out(tensors, P)")
    function(cut, "cut(flat, shapes)")
    for P in (1, 2, 3, 4):
        for shapes in ([(3, 4)], [(2, 3), (5,), (), (1, 4, 2)], [(7,)], [(2, 2), (4,)]):
            _judge_flat(lay_out, cut, shapes, P)
    return "one flat tensor in P equal parts, and views that bring every shape back"


def _judge_flat(lay_out, cut, shapes, P) -> None:
    import torch

    where = f"shapes {shapes}, P = {P}"
    tensors = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    given = [t.clone() for t in tensors]
    with own_work(LIBRARY):
        whole = tensor(call(lay_out, given, P), "what lay_out returns")
    length = sum(t.numel() for t in tensors)
    wanted = -(-length // P) * P
    if whole.dim() != 1 or whole.dtype != torch.float64:
        raise NotYet(f"{where}: flat has shape {list(whole.shape)} of {whole.dtype}; asked is one "
                     "flat tensor of the kind that was given")  # fmt: skip
    if len(whole) != wanted:
        rule = "a multiple of P" if len(whole) % P else "no longer than it must be"
        raise NotYet(f"{where}: flat has {len(whole)} numbers; it must be {rule}")
    right = torch.cat([t.reshape(-1) for t in tensors])
    if not torch.equal(whole[:length], right):
        raise NotYet(f"{where}: the numbers are not those of the tensors, one after another")
    if whole[length:].any():
        raise NotYet(f"{where}: what only fills up must be zero")
    memory = whole.untyped_storage().data_ptr()
    if any(t.untyped_storage().data_ptr() == memory for t in given):
        raise NotYet(f"{where}: flat lies in the memory of a tensor that was given: make a new one")
    whole = whole.clone()
    with own_work(LIBRARY):
        sizes = [torch.Size(shape) for shape in shapes]
        pieces = items(call(cut, whole, sizes), f"{where}: what cut returns", len(shapes))
    for piece, t in zip(pieces, tensors, strict=True):
        if tuple(tensor(piece, "a piece").shape) != tuple(t.shape):
            raise NotYet(f"{where}: a piece has shape {list(piece.shape)}, not {list(t.shape)}")
        if not torch.equal(piece, t):
            raise NotYet(f"{where}: a piece has other numbers than went in")
    whole.zero_()
    if any(piece.any() for piece in pieces):
        raise NotYet(f"{where}: the pieces are copies; who fills flat must have filled them")


@grader("ex-lab-zero-shard")
def shard(answer: Any) -> str:
    own_class(answer, "Shard", "Shard(parameters, comm)")
    for P in SIZES:
        for unit in range(3):
            _judge_shard(answer, chain(P).model[unit], P)
    return "on 2 to 4 ranks: reduced to a mean, kept as a part, gathered into all weights"


def _judge_shard(answer, unit, P) -> None:
    import copy

    import torch

    names = [name for name, _ in unit.named_parameters()]
    gradients = [[random(*p.shape, seed=50 * r + i) for i, p in enumerate(unit.parameters())]
                 for r in range(P)]  # fmt: skip
    before = [p.detach().clone() for p in unit.parameters()]
    length = sum(t.numel() for t in before)
    size = -(-length // P)

    def program(comm):
        parameters = list(copy.deepcopy(unit).parameters())
        with own_work(LIBRARY):
            made = answer(parameters, comm)
            for _ in range(2):
                for p, gradient in zip(parameters, gradients[comm.rank], strict=True):
                    p.grad = gradient.clone()
                made.reduce()
            reduced, kept = len(comm.calls), [p.grad for p in parameters]
            part = made.part
            grad = None if part.grad is None else part.grad.clone()
            with torch.no_grad():
                part.data.fill_(float(comm.rank + 1))
            made.gather()
        memory = made.whole.untyped_storage().data_ptr()
        lying = [p.untyped_storage().data_ptr() == memory for p in (*parameters, made.part)]
        return parameters, kept, grad, comm.calls, reduced, all(lying)

    mean = torch.cat([sum(of).reshape(-1) / P for of in zip(*gradients, strict=True)])
    mean = torch.cat([mean, mean.new_zeros(P * size - length)])
    values = torch.arange(1.0, P + 1, dtype=torch.float64).repeat_interleave(size)
    for rank, found in enumerate(record_team(program, P)):
        parameters, kept, grad, log, reduced, lying = found
        where = f"P = {P}, rank {rank}"
        if grad is None:
            raise NotYet(f"{where}: after reduce() the part has no gradient")
        right = mean.chunk(P)[rank]
        if tuple(grad.shape) != tuple(right.shape):
            raise NotYet(f"{where}: part.grad has shape {list(grad.shape)}: not that of the part")
        _judge_sum(grad, right, P, where)
        if any(g is not None for g in kept):
            raise NotYet(f"{where}: after reduce() a parameter still has its whole gradient")
        offset = 0
        for name, p in zip(names, parameters, strict=True):
            wanted = values[offset : offset + p.numel()].view(p.shape)
            offset += p.numel()
            if p.shape != wanted.shape or not torch.equal(p.detach(), wanted):
                raise NotYet(f"{where}: after gather() {name} is not what the ranks' parts say")
        if not lying:
            raise NotYet(f"{where}: after gather() parameters and part no longer lie in one whole")
        calls = [c.operation for c in log]
        judge_calls(calls[:reduced], ["reduce-scatter"] * 2, f"{where}: two calls of reduce()")
        judge_calls(calls[reduced:], ["all-gather"], f"{where}: gather()")
        judge_bytes(log, 3 * 8 * size * (P - 1), f"{where}: two calls of reduce() and a gather()")


def _judge_sum(grad, mean, P, where) -> None:
    """Two reductions of the same gradients have added up in the part."""
    if close(grad, 2 * mean):
        return
    slips = (
        (2 * P * mean, "P times too large: a sum is no mean"),
        (mean, "that of the last reduce() only: two of them add up, as in any .grad"),
        (P * mean, "that of the last reduce() only, and a sum, not a mean"),
        (2 * mean / P, "P times too small: divided twice?"),
    )
    for slip, what in slips:
        if close(grad, slip):
            raise NotYet(f"{where}: after two calls of reduce() the gradient of the part is {what}")
    raise NotYet(f"{where}: part.grad is not this rank's part of the mean gradient")


@grader("ex-lab-zero-clip")
def clip(answer: Any) -> str:
    import torch

    function(answer, "clip(parts, max_norm, comm)")
    for P in SIZES:
        for largest, scale in ((0.5, 1), (1e6, 1), (0.5, 0)):
            gradients = [
                [scale * random(n, seed=10 * r + n) * 10**r for n in (4, 7)] for r in range(P)
            ]

            def program(comm, gradients=gradients, largest=largest):
                parts = [torch.nn.Parameter(torch.zeros_like(g)) for g in gradients[comm.rank]]
                for part, g in zip(parts, gradients[comm.rank], strict=True):
                    part.grad = g.clone()
                with own_work(LIBRARY):
                    try:
                        norm = call(answer, parts, largest, comm, passing=(ZeroDivisionError,))
                    except ZeroDivisionError:
                        raise NotYet("it divides by zero where all gradients are zeros") from None
                return float(norm), [p.grad for p in parts], comm.calls

            squares = [sum(float((g * g).sum()) for g in of_rank) for of_rank in gradients]
            norm = sum(squares) ** 0.5
            own = [s**0.5 for s in squares]
            for rank, (found, scaled, calls) in enumerate(record_team(program, P)):
                where = f"P = {P}, rank {rank}"
                mistakes = {
                    own[rank]: "that is the norm of this rank's parts alone",
                    sum(own): "norms do not add up; their squares do",
                    norm**2: "that is the square of the norm",
                    max(own): "that is the largest of the ranks' norms",
                    norm / P**0.5: "the squares are added, not averaged",
                }
                if norm:
                    number(found, norm, f"{where}: the norm", tolerance=1e-6, mistakes=mistakes)
                elif found != 0:
                    raise NotYet(f"{where}: the norm of a gradient of zeros is not {found}")
                factor = min(1.0, largest / norm) if norm else 1.0
                for g, now in zip(gradients[rank], scaled, strict=True):
                    if now is None or not close(now, factor * g, 1e-4):
                        what = "scaled to the norm asked for" if factor < 1 else "left as they are"
                        raise NotYet(f"{where}: the gradients must be {what}: norm {norm:.3g}, "
                                     f"largest {largest:g}")  # fmt: skip
                numbers = sum(c.numbers for c in calls)
                if numbers > 2:
                    raise NotYet(f"{where}: right, but {numbers} numbers travel where one would do")
    return "one number travels, and every part is scaled as the whole gradient would be"
