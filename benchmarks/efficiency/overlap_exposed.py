"""What four wrappers leave exposed of the same communication: ours and torch's, on the same ranks.

overlap-exposed-2-ranks   labels "DataParallel", "DDP", "FullySharded", "FSDP2" and "alone": of each
                          step the seconds in which no layer worked, on the slowest rank, from
                          timestamps; "all-reduce" and "gather and scatter": seconds of the same
                          messages by themselves

The layers wait for their time, as a host waits for an accelerator, so that the cores are free to
copy. "alone" is a step without communication: what the host itself takes. Of one step of each data
parallel wrapper the spans are kept.
"""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

from benchmarks.timing import slowest
from dtlib import launch, recordings
from dtlib.foundations import MB, MiB
from dtlib.memory import FullySharded
from dtlib.parallelism import DataParallel
from dtlib.runtime.names import all_gather_single, reduce_scatter_single
from dtlib.timeline import Span

NAME = "overlap-exposed-2-ranks"
LAYERS, LAYER_BYTES, FORWARD, BACKWARD, BUCKETS = 16, MB, 2e-3, 4e-3, 8
REPETITIONS = 15
clock = time.perf_counter


class Timed(torch.autograd.Function):
    """Passes on what it gets, takes its time, and makes a gradient of ones."""

    @staticmethod
    def forward(ctx, x, weight, layer):
        ctx.layer, ctx.size = layer, weight.numel()
        layer.works("forward", layer.forward_time)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        ctx.layer.works("backward", ctx.layer.backward_time)
        return grad, torch.ones(ctx.size), None


class Layer(nn.Module):
    """A weight of so many bytes, which works in both passes; its spans go to a list."""

    def __init__(self, name: str, layer_bytes: int, times: tuple[float, float], spans: list):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(layer_bytes // 4))
        self.name, self.spans = name, spans
        self.forward_time, self.backward_time = times

    def forward(self, x):
        return Timed.apply(x, self.weight, self)

    def works(self, kind: str, seconds: float) -> None:
        begin = clock()
        time.sleep(seconds)
        name = f"{kind[0].upper()}{self.name}"
        self.spans.append(Span(dist.get_rank(), "compute", name, begin, clock(), kind))


class Clocked(DataParallel):
    """Notes when each all-reduce begins and ends."""

    def launch(self, bucket):
        begin = clock()
        super().launch(bucket)
        note(self.module[0].spans, str(self.buckets.index(bucket)), begin, bucket.work.get_future())


def note(spans: list, name: str, begin: float, future) -> None:
    rank = dist.get_rank()
    future.then(
        lambda _: spans.append(Span(rank, "network", name, begin, clock(), "communication"))
    )


def torchs_data_parallel(stack: nn.Sequential, bucket: int):
    from torch.nn.parallel import DistributedDataParallel

    wrapped = DistributedDataParallel(stack, bucket_cap_mb=bucket / MiB)

    def hook(state, bucket):
        begin = clock()
        reduced = dist.all_reduce(bucket.buffer().div_(2), async_op=True).get_future()
        note(stack[0].spans, str(bucket.index()), begin, reduced)
        return reduced.then(lambda future: future.value()[0])

    wrapped.register_comm_hook(None, hook)
    return wrapped


def torchs_sharded(stack: nn.Sequential):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in stack:
        fully_shard(layer, mesh=mesh)
    return fully_shard(stack, mesh=mesh)


def wrappers(layers: int, layer_bytes: int, times: tuple, buckets: int) -> dict[str, tuple]:
    """For each way a wrapped stack and the list of its spans."""
    group, bucket = dist.group.WORLD, layers * layer_bytes // buckets
    sizes = {"bucket_bytes": bucket, "first_bucket_bytes": bucket}
    wrap: dict[str, Callable] = {
        "alone": lambda stack: stack,
        "DataParallel": lambda stack: Clocked(stack, group, **sizes),
        "DDP": lambda stack: torchs_data_parallel(stack, bucket),
        "FullySharded": lambda stack: FullySharded(stack, group, units=list(stack)),
        "FSDP2": torchs_sharded,
    }
    made = {}
    for name, wrapped in wrap.items():
        spans: list = []
        stack = [Layer(str(i), layer_bytes, times, spans) for i in range(layers)]
        made[name] = wrapped(nn.Sequential(*stack)), spans
    return made


def exposed_times(layers, layer_bytes, times, buckets, repetitions):
    """On each rank: seconds without work of every way's steps, and the spans of two ways."""
    ways = wrappers(layers, layer_bytes, times, buckets)
    exposed: dict[str, list] = {name: [] for name in (*ways, "all-reduce", "gather and scatter")}
    kept: dict[str, list] = {"DataParallel": [], "DDP": []}
    for turn in range(repetitions + 3):
        for name, (wrapped, spans) in ways.items():
            spans.clear()
            wrapped.zero_grad()
            x = torch.ones(1, requires_grad=True)
            dist.barrier()
            begin = clock()
            wrapped(x).sum().backward()
            took = clock() - begin
            worked = sum(s.stop - s.start for s in spans if s.lane == "compute")
            exposed[name].append(took - worked)
            if name in kept and turn >= 3:
                kept[name].append(list(spans))
        exposed["all-reduce"].append(alone(buckets * [dist.all_reduce], layers, layer_bytes))
        each = 2 * layers * [gather] + layers * [scatter]
        exposed["gather and scatter"].append(alone(each, layers, layer_bytes))
    return {name: series[3:] for name, series in exposed.items()}, kept


def gather(flat: torch.Tensor) -> None:
    all_gather_single(flat, flat.chunk(dist.get_world_size())[0].clone())


def scatter(flat: torch.Tensor) -> None:
    reduce_scatter_single(flat.chunk(dist.get_world_size())[0].clone(), flat)


def alone(messages: list, layers: int, layer_bytes: int) -> float:
    """Seconds of these collectives, one after the other; all-reduces share all bytes."""
    count = len(messages) if messages[0] is dist.all_reduce else layers
    flat = torch.ones(layers * layer_bytes // 4 // count)
    dist.barrier()
    begin = clock()
    for message in messages:
        message(flat)
    return clock() - begin


def measure_exposed_overlap() -> None:
    """The recording; of all steps of a data parallel wrapper the median one is drawn."""
    given = (LAYERS, LAYER_BYTES, (FORWARD, BACKWARD), BUCKETS, REPETITIONS)
    with launch(2, timeout=200) as ranks:
        by_rank = ranks.run(exposed_times, *given)
    samples = slowest([times for times, _ in by_rank])
    spans = {}
    for name in by_rank[0][1]:
        middle = sorted(range(REPETITIONS), key=samples[name].__getitem__)[REPETITIONS // 2]
        own = by_rank[0][1][name][middle]
        origin = min(span.start for span in own)
        spans[name] = [
            [s.lane, s.name, round(s.start - origin, 5), round(s.stop - origin, 5), s.kind]
            for s in own
        ]
    recordings.save(
        NAME, samples, unit="s", ranks=2, layers=LAYERS, layer_bytes=LAYER_BYTES,
        forward=FORWARD, backward=BACKWARD, buckets=BUCKETS, spans=spans,
    )  # fmt: skip


if __name__ == "__main__":
    measure_exposed_overlap()
