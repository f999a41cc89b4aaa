"""Run a schedule: real modules on real ranks, any schedule, one loop.

Every rank works through its row. What an action needs from another rank it receives, what another
rank needs it sends; both are posted in the order of `messages`. The backward pass is split in two
(`split`) if the schedule has weight gradients as actions of their own.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_map

from dtlib.formulas.require import require, require_type
from dtlib.parallelism.pipeline.batch import Batch
from dtlib.parallelism.pipeline.check import check_schedule
from dtlib.parallelism.pipeline.copies import Copies
from dtlib.parallelism.pipeline.post import Post, Tensors
from dtlib.parallelism.pipeline.schedule import Action, PipelineSchedule
from dtlib.parallelism.pipeline.simulation import SPAN_KINDS, PipelineTimeline
from dtlib.parallelism.pipeline.split import deferring, do_weights
from dtlib.runtime.process_group import ranks_of
from dtlib.timeline import Span


class PipelineRun(NamedTuple):
    """What a run gives, on every rank: the ``loss`` of the batch and the measured ``timeline``.

    ``input_gradients`` by micro-batch, on ranks with the first stage, where inputs require one; a
    tuple where the inputs are one. ``outputs`` of the last stage by micro-batch, on ranks that have
    it, if they were asked for.
    """

    loss: float | None
    timeline: PipelineTimeline
    input_gradients: dict[int, torch.Tensor]
    outputs: dict[int, torch.Tensor]


def run(
    schedule: PipelineSchedule,
    stages: Sequence | Mapping[int, torch.nn.Module],
    inputs,
    targets,
    loss: Callable | None,
    group,
    weights: Sequence[float] | None = None,
    *,
    keywords: Mapping | None = None,
    keep_outputs: bool = False,
) -> PipelineRun:
    """One training step's forward and backward passes; every rank of the group calls it.

    Equation: the gradient of sum_i weight_i loss(f(x_i), y_i), collected in ``.grad``.
    Arguments: ``schedule``, for as many ranks as ``group`` has; ``stages``, the modules of all
    stages, or of those that this rank holds by their number; ``inputs`` and ``targets``, the same
    on every rank: one tensor to be cut into m micro-batches, or m tensors, or m tuples of tensors;
    ``loss(output, target)``, a mean over the targets of a micro-batch, applied after the last
    stage; ``weights`` of the micro-batches (None: each one's share of the targets, without those
    that are -100); ``keywords`` for every stage, by name, each cut as the inputs are, without
    gradients; ``keep_outputs`` of the last stage, for all micro-batches.
    A stage takes what the one before gives, a tensor or a tuple of tensors, whose shapes and dtypes
    may depend on those of the inputs; each tensor of floats has its gradient come back. Where a
    stage stands on two ranks, or a weight that its ``tied`` names on several, their gradients are
    added at the end. `DataParallel` around a stage reduces once, when all its gradients are there;
    weights that are sharded get theirs in B, because they are released when W comes.
    ``schedule.forward_only`` has no gradients (a validation; whether modules train is theirs to
    know), and may have no loss: then ``targets`` and ``loss`` are None.
    Returns a `PipelineRun`. Raises PipelineError for rows that are no pipeline, ValueError for
    counts that do not fit and for tensors that their border does not expect.
    Source: Huang et al. 2019; Qi et al. 2023 for the two parts.

    Inside a rank: ``run(one_f_one_b(4, 8), stages_of(model, 4), x, y, next_token_loss, group)``.
    """
    rank, P = ranks_of(group)
    if schedule.p != P:
        raise ValueError(
            f"schedule must be for the group's {P} ranks; {schedule.name} has p = {schedule.p}"
        )
    check_schedule(schedule)
    own = _own_stages(schedule, rank, stages)
    batch = Batch(schedule.m, inputs, targets, loss, weights, keywords)
    worker = _Worker(schedule, rank, own, batch, group, keep_outputs)
    copies = Copies(schedule, own if worker.learns else {}, rank)
    worker.work()
    return _together(worker, copies, group)


class _Worker:
    """One rank at work on its row."""

    def __init__(self, schedule, rank: int, stages: Mapping, batch: Batch, group, keeps: bool):
        self.schedule, self.stages, self.batch = schedule, stages, batch
        self.learns = "W" in schedule.owed
        if self.learns:
            _require_learning(schedule, batch.loss)
        self.row = schedule.actions(rank)
        self.times: list[float] = []  # when each action of the row began and ended, in turn
        splits = any(action.kind == "W" for action in self.row)
        self.splits = {s for s, stage in stages.items() if splits and _keeps_its_weights(stage)}
        self.here: dict[tuple, Tensors] = {}  # results for a stage on this rank
        self.kept: dict[tuple, tuple] = {}  # activations, from F to B
        self.put_off: dict[tuple, list] = {}  # weight gradients, from B to W
        self.losses: dict[int, float | None] = {}
        self.input_gradients: dict[int, torch.Tensor] = {}
        self.outputs: dict[int, torch.Tensor] | None = {} if keeps else None
        parameters = (p for stage in stages.values() for p in stage.parameters())
        self.like = next(parameters, batch.inputs[0][0])  # a rank may have nothing to do
        self.post = Post(schedule, rank, group, self.like.device, batch.kinds)

    def work(self) -> None:
        with _reducing_once(self.stages if self.learns else {}):
            for action in self.row:
                self.do(action)
            self.post.finish()

    def do(self, action: Action) -> None:
        kind, s, i = action
        needed = {"F": ("F", s - 1, i), "W": None}.get(kind, ("B", s + 1, i))
        outer = needed and not 0 <= needed[1] < self.schedule.stages
        arrived = self.take(needed) if needed and not outer else None
        with self.timed():
            if kind == "F":
                result = self.forward(s, i, self.batch.inputs[i] if s == 0 else arrived)
            if "B" in kind:
                result = self.backward(s, i, arrived)
            if "W" in kind:
                do_weights(self.put_off.pop((s, i)))
        if kind == "F" and s + 1 < self.schedule.stages:
            self.hand_on(("F", s, i), result)
        if "B" in kind and s > 0:
            self.hand_on(("B", s, i), result)

    def forward(self, s: int, i: int, given: Tensors) -> Tensors:
        """A stage's forward pass; the last one's ends with the loss."""
        last = s == self.schedule.stages - 1
        xs = tuple(
            x.detach().requires_grad_(self.learns and (x.requires_grad if s == 0 else _smooth(x)))
            for x in given
        )
        split = deferring() if s in self.splits else nullcontext([])
        with torch.set_grad_enabled(self.learns), split as self.put_off[s, i]:
            y = self.stages[s](*xs, **self.batch.keywords[i])
            ys = self.ending(y, i) if last else _tensors(s, y)
        if not last:
            self.check_boundary(s, i, ys)
        if self.learns:
            self.kept[s, i] = xs, ys
        return tuple(y.detach() for y in ys)

    def ending(self, y, i: int) -> Tensors:
        """What the last stage gave: kept if it was asked for, and its part of the loss."""
        if self.outputs is not None:
            self.outputs[i] = tree_map(lambda x: x.detach() if torch.is_tensor(x) else x, y)
        loss = None if self.batch.loss is None else self.batch.loss_of(y, i)
        self.losses[i] = None if loss is None else loss.item()
        return () if loss is None else (loss,)

    def backward(self, s: int, i: int, dys: Tensors | None) -> Tensors:
        """Gradients of a stage's inputs, of those that are smooth; zero where nothing uses them."""
        xs, ys = self.kept.pop((s, i))
        ways = [
            (y, dy)
            for y, dy in zip(filter(_smooth, ys), (None,) if dys is None else dys, strict=True)
            if y.requires_grad  # nothing does in a first stage whose parameters are all frozen
        ]
        if ways:
            torch.autograd.backward(*zip(*ways, strict=True))
        if s > 0:
            return tuple(
                torch.zeros_like(x) if x.grad is None else x.grad for x in filter(_smooth, xs)
            )
        if any(x.requires_grad for x in xs):
            self.input_gradients[i] = xs[0].grad if len(xs) == 1 else tuple(x.grad for x in xs)
        return ()

    def take(self, result: tuple) -> Tensors:
        return self.here.pop(result) if result in self.here else self.post.receive(result)

    def hand_on(self, result: tuple, tensors: Tensors) -> None:
        if result in self.post.sends:
            self.post.send(result, tensors)
        else:
            self.here[result] = tensors

    def check_boundary(self, s: int, i: int, ys: Tensors) -> None:
        """A stage may say what it gives, in a method ``boundary(inputs)``; then it gives that."""
        if hasattr(self.stages[s], "boundary"):
            expected = tuple(self.stages[s].boundary(*self.batch.inputs[i]))
            found = [tuple(y.shape) for y in ys]
            if found != [expected]:
                raise ValueError(
                    f"stage {s} gives {', '.join(map(str, found))}, its boundary says {expected}"
                )

    @contextmanager
    def timed(self):
        self.times.append(time.perf_counter())
        yield
        if self.like.is_cuda:
            torch.cuda.synchronize(self.like.device)
        self.times.append(time.perf_counter())


def _together(worker: _Worker, copies: Copies, group) -> PipelineRun:
    """What all ranks have found, on every rank; and copies of a weight get their sum.

    A rank's message is of numbers only, since all ranks know the schedule: whether it has copies,
    the losses, and when each of its actions began and ended.
    """
    schedule = worker.schedule
    P, m, last = schedule.p, schedule.m, schedule.stages - 1
    own = [bool(copies.by_ranks), *(worker.losses.get(i) or 0.0 for i in range(m)), *worker.times]
    longest = 1 + m + 2 * max(len(schedule.actions(rank)) for rank in range(P))
    row = torch.tensor(own + [0.0] * (longest - len(own)), dtype=torch.float64)
    table = [torch.empty_like(row, device=worker.like.device) for _ in range(P)]
    dist.all_gather(table, row.to(worker.like.device), group=group)
    rows = [row.tolist() for row in table]
    if any(row[0] for row in rows):
        copies.add(group)
    losses = [rows[schedule.rank_of(last, i)][1 + i] for i in range(m)]
    return PipelineRun(
        sum(losses) if worker.batch.loss else None,
        PipelineTimeline(_spans(schedule, [row[1 + m :] for row in rows]), schedule),
        worker.input_gradients,
        worker.outputs or {},
    )


def _spans(schedule: PipelineSchedule, times: list[list[float]]) -> list[Span]:
    """Of each rank's actions, from the times at which they began and ended, in turn."""
    return [
        Span(rank, "compute", str(action), start, stop, SPAN_KINDS[action.kind])
        for rank, when in enumerate(times)
        for action, start, stop in zip(schedule.actions(rank), when[::2], when[1::2], strict=False)
    ]


def _smooth(x: torch.Tensor) -> bool:
    """Whether it has a gradient: whole numbers and truth values have none."""
    return x.is_floating_point() or x.is_complex()


def _tensors(s: int, y) -> Tensors:
    """What a stage gives, as a tuple."""
    ys = tuple(y) if isinstance(y, tuple | list) else (y,)
    for x in ys:
        require_type(f"stage {s}", torch.Tensor, **{"what it gives": x})
    return ys


def _keeps_its_weights(stage: torch.nn.Module) -> bool:
    """Whether its weights are still there when W comes; where not, B does all gradients.

    Sharded modules release them: dtlib's FullySharded, and what torch's `fully_shard` makes.
    """
    return not any(
        getattr(part, "releases_weights", False) or hasattr(part, "set_reshard_after_backward")
        for part in stage.modules()
    )


@contextmanager
def _reducing_once(stages: Mapping) -> Iterator[None]:
    """`DataParallel` around stages reduces when the block ends, and not in every micro-batch."""
    parts = dict.fromkeys(part for s in sorted(stages) for part in stages[s].modules())
    with ExitStack() as stack:
        for part in parts:
            if hasattr(part, "synced_once"):
                stack.enter_context(part.synced_once())
        yield


def _require_learning(schedule: PipelineSchedule, loss) -> None:
    """Backward passes begin with a loss, and go through graphs."""
    without = f"given: {schedule.name} has backward passes; forward_only has none"
    require(loss is not None, "run", "loss", loss, without)
    off = "on (no torch.no_grad): " + without.removeprefix("given: ")
    require(torch.is_grad_enabled(), "run", "the mode of gradients", "off", off)


def _own_stages(schedule: PipelineSchedule, rank: int, stages) -> dict[int, torch.nn.Module]:
    """The modules that the rank's row names."""
    if not isinstance(stages, Mapping):
        if len(stages) != schedule.stages:
            raise ValueError(
                f"stages must be the {schedule.stages} of {schedule.name}; got {len(stages)}"
            )
        stages = dict(enumerate(stages))
    missing = [s for s in schedule.stages_of(rank) if s not in stages]
    if missing:
        raise ValueError(f"stages must have those of rank {rank}; missing are {missing}")
    own = {s: stages[s] for s in schedule.stages_of(rank)}
    if own and not any(list(stage.parameters()) for stage in own.values()):
        raise ValueError(
            f"stages of rank {rank} must have a parameter, whose device is that of what it "
            f"receives; stages {list(own)} have none"
        )
    return own
