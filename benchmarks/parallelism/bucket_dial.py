"""Backward passes on two ranks, with the gradients in 1 to 64 buckets: how much of the sum hides.

Two kinds of layers. One *waits* for its time, as a host waits for an accelerator; the other
computes for it. On a machine whose cores also move the bytes, only the first leaves them free.
"""

import contextlib
import functools
import operator
import time

import torch
import torch.distributed as dist
from torch import nn

from dtlib import launch, recordings
from dtlib.foundations import MB
from dtlib.parallelism import DataParallel
from dtlib.timeline import Span

NAME = "bucket-dial-2-ranks"
LAYERS, LAYER_BYTES, LAYER_SECONDS = 64, MB // 2, 1e-3
COUNTS = [1, 2, 4, 8, 16, 32, 64]
SHOWN = 8
REPETITIONS = 9
clock = time.perf_counter


class Timed(torch.autograd.Function):
    """Passes on what it gets; its backward pass takes its time and makes a gradient of ones."""

    @staticmethod
    def forward(ctx, x, weight, work, spans):
        ctx.work, ctx.spans, ctx.size = work, spans, weight.numel()
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        begin = clock()
        ctx.work()
        made = torch.ones(ctx.size)
        ctx.spans.append(Span(dist.get_rank(), "compute", "", begin, clock(), "backward"))
        return grad, made, None, None


class Stack(nn.Module):
    """Layers of so many bytes, each of which works in its backward pass."""

    def __init__(self, layers, layer_bytes, work):
        super().__init__()
        weights = [nn.Parameter(torch.zeros(layer_bytes // 4)) for _ in range(layers)]
        self.weights, self.work, self.spans = nn.ParameterList(weights), work, []

    def forward(self, x):
        for weight in self.weights:
            x = Timed.apply(x, weight, self.work, self.spans)
        return x


class Clocked(DataParallel):
    """Notes when each all-reduce begins and ends."""

    def launch(self, bucket):
        begin, name = clock(), str(self.buckets.index(bucket))
        super().launch(bucket)
        spans, rank = self.module.spans, dist.get_rank()

        def note(_):
            spans.append(Span(rank, "network", name, begin, clock(), "communication"))

        bucket.work.get_future().then(note)


def waits(seconds):
    time.sleep(seconds)


def computes(seconds):
    square, stop = torch.ones(160, 160), clock() + seconds
    while clock() < stop:
        square @ square


def one_step(wrapped, k=None):
    """Seconds of a backward pass in `k` buckets; with None, of one that communicates nothing."""
    model = next(iter(wrapped.values())).module
    model.spans.clear()
    model.zero_grad()
    loss = model(torch.ones(1, requires_grad=True)).sum()
    with contextlib.ExitStack() as silent:
        for other in set(wrapped) - {k}:
            silent.enter_context(wrapped[other].no_sync())
        dist.barrier()
        begin = clock()
        loss.backward()
        return clock() - begin


def bucketed_steps(layers, layer_bytes, seconds, counts, repetitions, shown):
    """On each rank: seconds of every kind of step, and the spans of steps in `shown` buckets."""

    def all_dials(work):
        total, model = layers * layer_bytes, Stack(layers, layer_bytes, work)
        sizes = {k: {"bucket_bytes": total // k, "first_bucket_bytes": total // k} for k in counts}
        return {k: Clocked(model, dist.group.WORLD, **size) for k, size in sizes.items()}

    kinds = {w.__name__: all_dials(functools.partial(w, seconds)) for w in (waits, computes)}
    times, shown_spans = {}, []
    for turn in range(repetitions + 1):
        for name, wrapped in kinds.items():
            times.setdefault(f"{name}, alone", []).append(one_step(wrapped))
            for k in counts:
                times.setdefault(f"{name}, {k} buckets", []).append(one_step(wrapped, k))
                model = wrapped[k].module
                if not (model.weights[0].grad == 1).all():
                    raise ArithmeticError(f"rank {dist.get_rank()} has a wrong mean")
                if (name, k) == ("waits", shown) and turn:
                    shown_spans.append(list(model.spans))
        flat = torch.ones(layers * layer_bytes // 4)
        for k in counts:
            dist.barrier()
            begin = clock()
            for part in flat.chunk(k):
                dist.all_reduce(part)
            times.setdefault(f"all-reduce, {k} buckets", []).append(clock() - begin)
    return {label: series[1:] for label, series in times.items()}, shown_spans


def measure_bucket_dial() -> None:
    """A step takes as long as its slowest rank; of all repetitions the median one is drawn."""
    given = (LAYERS, LAYER_BYTES, LAYER_SECONDS, COUNTS, REPETITIONS, SHOWN)
    with launch(2, timeout=120) as ranks:
        by_rank = ranks.run(bucketed_steps, *given)
    samples = {
        label: [max(pair) for pair in zip(*(times[label] for times, _ in by_rank), strict=True)]
        for label in by_rank[0][0]
    }
    steps = samples[f"waits, {SHOWN} buckets"]
    middle = sorted(range(REPETITIONS), key=steps.__getitem__)[REPETITIONS // 2]
    spans = functools.reduce(operator.iadd, (list(spans[middle]) for _, spans in by_rank), [])
    origin = min(span.start for span in spans)
    kept = [
        [s.rank, s.lane, s.name, round(s.start - origin, 6), round(s.stop - origin, 6), s.kind]
        for s in spans
    ]
    rounded = {label: [round(t, 7) for t in series] for label, series in samples.items()}
    recordings.save(
        NAME, rounded, unit="s", ranks=2, layers=LAYERS, bytes=LAYERS * LAYER_BYTES,
        counts=COUNTS, shown=SHOWN, spans=kept,
    )  # fmt: skip


if __name__ == "__main__":
    measure_bucket_dial()
