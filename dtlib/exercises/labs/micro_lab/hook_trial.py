"""A reader's communication hook, tried out in torch's wrapper: its mean, its lines, its waiting."""

import inspect
from collections.abc import Callable
from typing import Any

from dtlib.exercises.judge import function
from dtlib.exercises.verdict import NotYet


def averaging_hook(state: tuple, bucket: Any) -> Any:
    """A hook as it is asked for."""
    import torch.distributed as dist

    log, group = state
    buffer = bucket.buffer().div_(dist.get_world_size(group))
    travel = log.travel("all_reduce", buffer.nbytes, bucket=bucket.index())
    work = travel.follow(dist.all_reduce(buffer, group=group, async_op=True))
    return work.get_future().then(lambda future: future.value()[0])


def hook_law(answer: Any) -> None:
    """Train a small encoder on two ranks with the hook and with the library's; compare."""
    from dtlib.runtime import RanksError, launch

    function(answer, "my_hook(state, bucket)")
    if [*inspect.signature(answer).parameters][:2] != ["state", "bucket"]:
        raise NotYet("torch looks the arguments up by their names: call them state and bucket")
    try:
        with launch(2, timeout=30) as ranks:
            found = ranks.run(_train_with, answer)
            right = ranks.run(_train_with, None)
            _judge(found, right)
            alone = ranks.run(_alone, answer)
    except RanksError as error:
        said = str(error).splitlines()[0].split("NotYet: ")
        raise NotYet(said[1] if len(said) > 1 else f"on the ranks: {said[0][:240]}") from None
    if any(early for _, early, _ in alone):
        raise NotYet("right, but the log says that a sum is done before it is there")
    if any(astray for *_, astray in alone):
        raise NotYet("with all ranks it is right, but it sums over all of them, not over `group`")
    if any(mean != 1.0 for mean, *_ in alone):
        raise NotYet(
            "with two ranks it is right, but a group of one rank gets no mean: see `state`"
        )


def _train_with(hook: Callable | None) -> tuple:
    """Three steps of a small encoder: (records, sums of the weights, whether somebody waited)."""
    import torch
    import torch.distributed as dist

    from dtlib.micro_lab import Encoder, EncoderSpec
    from dtlib.micro_lab import engines as logged_engines
    from dtlib.micro_lab.step_log import StepLog

    log, waited = StepLog(dist.get_rank()), []
    model = Encoder(EncoderSpec("small", 2, 32, 2, 64, vocab=128, positions=16))
    plain = dist.all_reduce
    if hook is None:
        tried = logged_engines.logging_hook
    else:
        dist.all_reduce, tried = _watched(plain, waited), _held_to_a_tensor(hook)
    try:
        engine = logged_engines.make_engine(
            "torch-ddp", model, dist.group.WORLD, log, bucket_mb=0.02, hook=tried, lr=1e-3
        )
        rows = torch.arange(1, 33).view(4, 8) + 32 * dist.get_rank()
        for _ in range(3):
            engine.step(rows, torch.tensor([0, 1, 1, 0]))
    finally:
        dist.all_reduce = plain
    weights = {name: w.double().sum().item() for name, w in engine.weights().items()}
    return log.records, weights, bool(waited)


def _alone(hook: Callable) -> tuple[float, bool, bool]:
    """In a group of this rank only: what ones become; was it done too early; in another group?"""
    import torch
    import torch.distributed as dist

    from dtlib.micro_lab.step_log import StepLog

    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    own, log, sums = groups[dist.get_rank()], StepLog(dist.get_rank()), []
    plain, dist.all_reduce = dist.all_reduce, _held_back(sums)
    log.begin()
    try:
        future = hook((log, own), _Bucket(torch.ones(4)))
        early = bool(sums) and any(travel.finished is not None for travel in log._travels)
        for ready, tensor, _ in sums:
            ready.set_result([tensor])
        return float(future.wait().mean()), early, any(group is not own for *_, group in sums)
    finally:
        dist.all_reduce = plain


def _held_back(sums: list) -> Callable:
    """An all-reduce of one rank, which leaves its tensor as it is, but not before it is told."""
    import torch

    class Held:
        def __init__(self):
            self.future = torch.futures.Future()

        def get_future(self):
            return self.future

    def all_reduce(tensor, op=None, group=None, async_op=False):
        held = Held()
        sums.append((held.future, tensor, group))
        return held

    return all_reduce


class _Bucket:
    """What a hook may ask torch's own bucket, which nobody can make."""

    def __init__(self, ones: Any):
        self.ones = ones

    def buffer(self) -> Any:
        return self.ones

    def gradients(self) -> list:
        return [self.ones]

    parameters = gradients

    def set_buffer(self, tensor: Any) -> None:
        self.ones = tensor

    def index(self) -> int:
        return 0

    def is_last(self) -> bool:
        return True


def _held_to_a_tensor(hook: Callable) -> Callable:
    """The hook; what it returns, unwrapped, is a future of a tensor."""
    from torch._C import Future  # also those of gloo, which are no torch.futures.Future

    def tried(state, bucket):
        future = hook(state, bucket)
        future = future.real if isinstance(future, _Future) else future
        if not isinstance(future, Future):  # torch itself would end with a segmentation fault
            raise NotYet(f"the hook must return a future, got {type(future).__name__}")
        return future.then(_only_a_tensor)

    return tried


def _only_a_tensor(future: Any) -> Any:
    """The future's value, which torch could not use if it were something else."""
    from torch import Tensor

    value = future.value()
    if not isinstance(value, Tensor):
        raise NotYet(f"the future's value must be the summed tensor, not a {type(value).__name__}")
    return value


class _Future:
    """A future that notes whether somebody waits for it."""

    def __init__(self, real: Any, waited: list):
        self.real, self.waited = real, waited

    def wait(self) -> Any:
        self.waited.append(True)
        return self.real.wait()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class _Handle:
    """A handle that notes the same."""

    def __init__(self, work: Any, waited: list):
        self.work, self.waited = work, waited

    def wait(self, *args: Any) -> Any:
        self.waited.append(True)
        return self.work.wait(*args)

    def get_future(self) -> _Future:
        return _Future(self.work.get_future(), self.waited)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.work, name)


def _watched(plain: Callable, waited: list) -> Callable:
    """An all-reduce that notes whether its caller waits for it."""

    def all_reduce(tensor, op=None, group=None, async_op=False):
        import torch.distributed as dist

        op = dist.ReduceOp.SUM if op is None else op
        if not async_op:
            waited.append(True)
            return plain(tensor, op=op, group=group)
        return _Handle(plain(tensor, op=op, group=group, async_op=True), waited)

    return all_reduce


def _same_weights(found: list[tuple], right: list[tuple]) -> bool:
    weights, reference = found[0][1], right[0][1]
    return all(abs(total - reference[name]) <= 1e-9 for name, total in weights.items())


def _judge(found: list[tuple], right: list[tuple]) -> None:
    from dtlib.micro_lab.step_log import COLLECTIVES

    if not _same_weights(found, right):
        if found[0][1] != found[1][1]:
            raise NotYet(
                "the two ranks end with different weights: their gradients were not averaged"
            )
        raise NotYet(
            "both ranks end with the same weights, but wrong ones: is it a mean, and once?"
        )
    if any(waited for *_, waited in found):
        raise NotYet("right, but it waits for the sum, and backward stands still meanwhile")
    lines, wanted = (
        [(r["step"], r["op"], r.get("bucket"), r["bytes"]) for r in part if r["op"] in COLLECTIVES]
        for part in (found[0][0], right[0][0])
    )
    if not lines:
        raise NotYet("right, but the log has no line about it: log.travel(...) writes one")
    if len(lines) != len(wanted):
        raise NotYet(f"right, but there are {len(lines)} lines about {len(wanted)} all-reduces")
    for line, should in zip(lines, wanted, strict=True):
        for what, one, other in zip(("step", "op", "bucket", "bytes"), line, should, strict=True):
            if one != other:
                raise NotYet(f"right, but in step {should[0]} a line has another {what}")
