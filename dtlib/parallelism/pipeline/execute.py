"""Run a schedule: real modules on real ranks, any schedule, one loop.

Every rank works through its row. What an action needs from another rank it receives, what another
rank needs it sends; both are posted in the order of `messages`. The backward pass is split in two
(`split`) if the schedule has weight gradients as actions of their own.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from dtlib.parallelism.messages import ranks_of
from dtlib.parallelism.pipeline.check import check_schedule
from dtlib.parallelism.pipeline.post import Post, exchange
from dtlib.parallelism.pipeline.schedule import Action, PipelineSchedule
from dtlib.parallelism.pipeline.simulate import SPAN_KINDS, PipelineTimeline
from dtlib.parallelism.pipeline.split import deferring, do_weights
from dtlib.timeline import Recorder


class PipelineRun(NamedTuple):
    """What a run gives, on every rank: the ``loss`` of the batch and the measured ``timeline``.

    ``input_gradients`` by micro-batch, on ranks with the first stage, where inputs require one.
    """

    loss: float
    timeline: PipelineTimeline
    input_gradients: dict[int, torch.Tensor]


def run(
    schedule: PipelineSchedule,
    stages: Sequence | Mapping[int, torch.nn.Module],
    inputs,
    targets,
    loss: Callable,
    group,
    weights: Sequence[float] | None = None,
) -> PipelineRun:
    """One training step's forward and backward passes; every rank of the group calls it.

    Equation: the gradient of sum_i weight_i loss(f(x_i), y_i), collected in ``.grad``.
    Arguments: ``schedule``, for as many ranks as ``group`` has; ``stages``, the modules of all
    stages, or of those that this rank holds by their number; ``inputs`` and ``targets``, the same
    on every rank: one tensor to be cut into m micro-batches, or m tensors; ``loss(output,
    target)``, a mean over the targets of a micro-batch, applied after the last stage; ``weights``
    of the micro-batches (None: each one's share of the targets, without those that are -100).
    A stage takes and gives one tensor. What it gives has the shape of its input, or that which the
    stage's ``boundary(inputs of the micro-batch)`` says. Where a stage stands on two ranks, or a
    weight that its ``tied`` names, their gradients are added at the end.
    Returns a `PipelineRun`. Raises PipelineError for rows that are no pipeline, ValueError for
    counts that do not fit. Source: Huang et al. 2019; Qi et al. 2023 for the two parts.

    Inside a rank: ``run(one_f_one_b(4, 8), stages_of(model, 4), x, y, next_token_loss, group)``.
    """
    rank, P = ranks_of(group)
    if schedule.p != P:
        raise ValueError(
            f"schedule must be for the group's {P} ranks; {schedule.name} has p = {schedule.p}"
        )
    check_schedule(schedule)
    worker = _Worker(
        schedule, rank, _own_stages(schedule, rank, stages), _parts("inputs", inputs, schedule.m)
    )
    worker.targets = _parts("targets", targets, schedule.m)
    worker.weights = _shares(worker.targets) if weights is None else list(weights)
    if len(worker.weights) != schedule.m:
        raise ValueError(f"weights must be m = {schedule.m} numbers; got {len(worker.weights)}")
    worker.loss, worker.post = loss, Post(schedule, rank, group, worker.memory_for)
    copies = _copies(schedule, worker.stages, rank)
    earlier = _set_aside(copies)
    for action in schedule.actions(rank):
        worker.do(action)
    worker.post.finish()
    _add_copies(copies, group)
    for parameter, gradient in earlier.items():
        parameter.grad += gradient
    return _gathered(worker, group)


class _Worker:
    """One rank at work on its row."""

    def __init__(self, schedule, rank: int, stages: Mapping, inputs: list):
        self.schedule, self.stages, self.inputs = schedule, stages, inputs
        self.recorder = Recorder(rank)
        self.splits = any(action.kind == "W" for action in schedule.actions(rank))
        self.here: dict[tuple, torch.Tensor] = {}  # results for a stage on this rank
        self.kept: dict[tuple, tuple] = {}  # activations, from F to B
        self.put_off: dict[tuple, list] = {}  # weight gradients, from B to W
        self.losses: dict[int, float] = {}
        self.input_gradients: dict[int, torch.Tensor] = {}
        self.like = next(p for stage in stages.values() for p in stage.parameters())
        self.memory_for = _memory(next(iter(stages.values())), inputs, self.like)

    def do(self, action: Action) -> None:
        kind, s, i = action
        needed = {"F": ("F", s - 1, i), "W": None}.get(kind, ("B", s + 1, i))
        outer = needed and not 0 <= needed[1] < self.schedule.stages
        arrived = self.take(needed) if needed and not outer else None
        with self.span(action):
            if kind == "F":
                result = self.forward(s, i, self.inputs[i] if s == 0 else arrived)
            if "B" in kind:
                result = self.backward(s, i, arrived)
            if "W" in kind:
                do_weights(self.put_off.pop((s, i)))
        if kind == "F" and s + 1 < self.schedule.stages:
            self.hand_on(("F", s, i), result)
        if "B" in kind and s > 0:
            self.hand_on(("B", s, i), result)

    def forward(self, s: int, i: int, x: torch.Tensor) -> torch.Tensor:
        last = s == self.schedule.stages - 1
        x = x.detach().requires_grad_(s > 0 or x.requires_grad)
        with deferring() if self.splits else nullcontext([]) as self.put_off[s, i]:
            y = self.stages[s](x)
            if last:
                y = self.weighted_loss(y, i)
        if last:
            self.losses[i] = y.item()
        self.kept[s, i] = x, y
        return y.detach()

    def weighted_loss(self, y: torch.Tensor, i: int) -> torch.Tensor:
        """A micro-batch's part of the loss; one without a target that counts has no mean."""
        return self.weights[i] * self.loss(y, self.targets[i]) if self.weights[i] else 0 * y.sum()

    def backward(self, s: int, i: int, dy: torch.Tensor | None) -> torch.Tensor | None:
        x, y = self.kept.pop((s, i))
        if y.requires_grad:  # nothing does in a first stage whose parameters are all frozen
            torch.autograd.backward(y, dy)
        if s == 0 and x.requires_grad:
            self.input_gradients[i] = x.grad
        return x.grad

    def take(self, result: tuple) -> torch.Tensor:
        return self.here.pop(result) if result in self.here else self.post.receive(result)

    def hand_on(self, result: tuple, tensor: torch.Tensor) -> None:
        kind, s, i = result
        expected = self.memory_for(i).shape
        if kind == "F" and tensor.shape != expected:
            raise ValueError(
                f"stage {s} gives {tuple(tensor.shape)}, expected is {tuple(expected)}; a stage "
                "keeps the shape of the inputs, or has a method boundary(inputs)"
            )
        if result in self.post.sends:
            self.post.send(result, tensor.contiguous())
        else:
            self.here[result] = tensor

    @contextmanager
    def span(self, action: Action):
        with self.recorder.span(str(action), SPAN_KINDS[action.kind]):
            yield
            if self.like.is_cuda:
                torch.cuda.synchronize(self.like.device)


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
    if not any(list(stage.parameters()) for stage in own.values()):
        raise ValueError(
            f"stages of rank {rank} must have a parameter, whose dtype and device are those of "
            f"what it receives; stages {list(own)} have none"
        )
    return own


def _memory(stage: torch.nn.Module, inputs: list, like: torch.Tensor) -> Callable:
    """For a micro-batch, memory for what one stage hands to the next; a function of its number."""

    def memory_for(micro_batch: int) -> torch.Tensor:
        x = inputs[micro_batch]
        shape = stage.boundary(x) if hasattr(stage, "boundary") else x.shape
        return torch.empty(shape, dtype=like.dtype, device=like.device)

    return memory_for


def _parts(name: str, batch, m: int) -> list[torch.Tensor]:
    """A batch as m micro-batches."""
    if isinstance(batch, torch.Tensor):
        if len(batch) < m:
            raise ValueError(f"{name} must have a row for each of m = {m} parts; got {len(batch)}")
        return list(batch.tensor_split(m))
    if len(batch) != m:
        raise ValueError(f"{name} must be m = {m} micro-batches; got {len(batch)}")
    return list(batch)


def _shares(targets: list[torch.Tensor]) -> list[float]:
    """Each micro-batch's share of the targets that count: a mean of means would be another loss."""
    counts = [int((y != -100).sum()) if not y.is_floating_point() else y.numel() for y in targets]
    if not sum(counts):
        raise ValueError("targets must have one that counts; all of them are -100")
    return [count / sum(counts) for count in counts]


def _copies(schedule: PipelineSchedule, stages: Mapping, rank: int) -> list[tuple[list, int]]:
    """What also stands on another rank: trained parameters, each once, and that rank."""
    pairs = []
    for other in range(schedule.p):
        there = set(schedule.stages_of(other)) if other != rank else set()
        both = {p: None for s in sorted(stages) for p in _standing(stages[s], s, there)}
        if both:
            pairs.append((list(both), other))
    return pairs


def _standing(stage: torch.nn.Module, number: int, there: set[int]) -> list:
    """The trained parameters of a stage that stand where the stages ``there`` stand."""
    tied = getattr(stage, "tied", {})
    return [
        parameter
        for name, parameter in stage.named_parameters()
        if parameter.requires_grad and there & {number, *tied.get(name, ())}
    ]


def _set_aside(copies: list) -> dict:
    """Take away what parameters with a copy collected in earlier steps: that is a sum already."""
    earlier = {p: p.grad for parameters, _ in copies for p in parameters if p.grad is not None}
    for parameter in earlier:
        parameter.grad = None
    return earlier


def _add_copies(copies: list, group) -> None:
    """Where a parameter stands on two ranks, both get the sum of their gradients."""
    operations = []
    for parameters, other in copies:
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        own = parameters_to_vector([p.grad for p in parameters])
        operations += [(dist.isend, own, other), (dist.irecv, torch.empty_like(own), other)]
    for handle in exchange(operations, group):
        handle.wait()
    sums = [own[1] + theirs[1] for own, theirs in zip(*[iter(operations)] * 2, strict=True)]
    for (parameters, _), both in zip(copies, sums, strict=True):
        vector_to_parameters(both, [p.grad for p in parameters])


def _gathered(worker: _Worker, group) -> PipelineRun:
    """The loss and the timeline of all ranks, on every rank."""
    everybody = [None] * worker.schedule.p
    dist.all_gather_object(everybody, (worker.losses, worker.recorder.spans), group=group)
    losses = {i: loss for part, _ in everybody for i, loss in part.items()}
    spans = [span for _, part in everybody for span in part]
    return PipelineRun(
        sum(losses[i] for i in range(worker.schedule.m)),
        PipelineTimeline(spans, worker.schedule),
        worker.input_gradients,
    )
