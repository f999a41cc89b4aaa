"""The strategies of part four beside torch's own: the same GPT, the same ranks, turn by turn.

strategies-against-torch    labels "data, 2 ranks, dtlib": seconds of a training step without the
                            optimizer, forward and backward, on the slowest rank

"data" has the whole model and a share of the batch on each rank, beside DistributedDataParallel;
"tensor" divides matrices, tables and loss, beside parallelize_module with loss_parallel; "GPipe"
and "1F1B" cut the layers into stages, beside torch.distributed.pipelining. Before it is timed,
every step must have the loss that torch's has.
"""

import time
from functools import partial
from types import SimpleNamespace

from benchmarks.timing import slowest
from dtlib import launch, recordings

NAME = "strategies-against-torch"
RANKS = (2, 4)
SEQUENCES, TOKENS, MICRO_BATCHES, REPETITIONS = 8, 32, 8, 9
MODEL = {
    "layers": 4, "hidden": 256, "heads": 8, "vocab": 1024, "norm": "rms", "gated": True,
    "bias": False,
}  # fmt: skip


def step_times(model_args, sequences, tokens, micro_batches, repetitions):
    """On each rank: seconds of every step, by strategy and library; the two take turns."""
    import torch.distributed as dist

    job = _job(model_args, sequences, tokens, micro_batches)
    times = {}
    for name, makers in STRATEGIES.items():
        both = {library: make(job) for library, make in makers.items()}
        mine, theirs = (step() for _, step in both.values())
        assert abs(mine - theirs) < 1e-5 * theirs, f"{name}: the losses are {mine} and {theirs}"
        for i in range(repetitions + 2):
            for library in both if i % 2 else reversed(both):
                model, step = both[library]
                model.zero_grad()
                dist.barrier()
                start = time.perf_counter()
                step()
                seconds = time.perf_counter() - start
                times.setdefault(f"{name}, {job.P} ranks, {library}", []).append(seconds)
    return {label: series[2:] for label, series in times.items()}


def _job(model_args, sequences, tokens, micro_batches):
    """What all makers need: the model's spec, the batch, and where this rank stands."""
    import torch
    import torch.distributed as dist

    from dtlib.foundations import TransformerSpec

    spec = TransformerSpec("benchmark", **model_args)
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randint(spec.vocab, (2, sequences, tokens), generator=generator)
    rank, P = dist.get_rank(), dist.get_world_size()
    where = {"group": dist.group.WORLD, "rank": rank, "P": P}
    return SimpleNamespace(spec=spec, x=x, y=y, micro_batches=micro_batches, **where)


def _stepping(loss_of):
    """A step: the loss, its backward pass, and the loss as a number."""

    def step():
        loss = loss_of()
        loss.backward()
        return loss.item()

    return step


def data_by_dtlib(job):
    from dtlib.models import GPT
    from dtlib.parallelism import DataParallel

    model = GPT(job.spec)
    return model, _data_step(DataParallel(model, job.group), job)


def data_by_torch(job):
    from torch.nn.parallel import DistributedDataParallel

    from dtlib.models import GPT

    model = GPT(job.spec)
    return model, _data_step(DistributedDataParallel(model), job)


def _data_step(model, job):
    from dtlib.models import next_token_loss

    x, y = job.x[job.rank :: job.P], job.y[job.rank :: job.P]
    return _stepping(lambda: next_token_loss(model(x), y))


def tensor_by_dtlib(job):
    from dtlib.models import GPT
    from dtlib.parallelism import tensor_parallel, vocab_parallel_cross_entropy

    model = tensor_parallel(GPT(job.spec), job.group)
    return model, _stepping(lambda: vocab_parallel_cross_entropy(model(job.x), job.y, job.group))


def tensor_by_torch(job):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor import parallel as native
    from torch.nn.functional import cross_entropy

    from dtlib.models import GPT

    columns, rows = native.ColwiseParallel, native.RowwiseParallel
    plan = {f"blocks.*.attention.{name}": columns() for name in ("query", "key", "value")}
    plan |= {f"blocks.*.feed_forward.{name}": columns() for name in ("gate", "up")}
    plan |= {"blocks.*.attention.out": rows(), "blocks.*.feed_forward.down": rows()}
    plan |= {"embedding": rows(input_layouts=Replicate())}
    plan |= {"head": columns(output_layouts=Shard(-1), use_local_output=False)}
    model = native.parallelize_module(GPT(job.spec), init_device_mesh("cpu", (job.P,)), plan)

    def step():
        with native.loss_parallel():
            loss = cross_entropy(model(job.x).flatten(0, 1), job.y.flatten())
            loss.backward()
        return loss.to_local().item()

    return model, step


def pipeline_by_dtlib(name, job):
    from dtlib.models import GPT, next_token_loss
    from dtlib.parallelism import pipeline

    model = GPT(job.spec)
    schedule = getattr(pipeline, name)(job.P, job.micro_batches)
    stages = pipeline.stages_of(model, job.P)

    def step():
        return pipeline.run(schedule, stages, job.x, job.y, next_token_loss, job.group).loss

    return model, step


def pipeline_by_torch(name, job):
    import torch
    import torch.distributed as dist
    from torch.distributed import pipelining

    from dtlib.models import GPT, next_token_loss
    from dtlib.parallelism.pipeline import stages_of

    model, last = GPT(job.spec), job.rank == job.P - 1
    own, cpu = stages_of(model, job.P)[job.rank], torch.device("cpu")
    stage = pipelining.PipelineStage(own, job.rank, job.P, cpu, group=job.group)
    runner = getattr(pipelining, name)(stage, job.micro_batches, loss_fn=next_token_loss)

    def step():
        losses = []
        inputs = [job.x] if job.rank == 0 else []
        runner.step(*inputs, **({"target": job.y, "losses": losses} if last else {}))
        loss = torch.tensor(sum(losses).item() / job.micro_batches if last else 0.0)
        dist.broadcast(loss, job.P - 1)  # dtlib's run gives the loss to every rank too
        return loss.item()

    return model, step


STRATEGIES = {
    "data": {"dtlib": data_by_dtlib, "torch": data_by_torch},
    "tensor": {"dtlib": tensor_by_dtlib, "torch": tensor_by_torch},
    "GPipe": {
        "dtlib": partial(pipeline_by_dtlib, "gpipe"),
        "torch": partial(pipeline_by_torch, "ScheduleGPipe"),
    },
    "1F1B": {
        "dtlib": partial(pipeline_by_dtlib, "one_f_one_b"),
        "torch": partial(pipeline_by_torch, "Schedule1F1B"),
    },
}


def measure_part_four() -> None:
    times = {}
    for P in RANKS:
        with launch(P, timeout=300) as ranks:
            results = ranks.run(step_times, MODEL, SEQUENCES, TOKENS, MICRO_BATCHES, REPETITIONS)
        times |= slowest(results)
    about = {"sequences": SEQUENCES, "tokens": TOKENS, "micro_batches": MICRO_BATCHES}
    recordings.save(NAME, times, unit="s", model=MODEL, **about)


if __name__ == "__main__":
    measure_part_four()
    recording = recordings.load(NAME)
    for label in (label for label in recording.samples if label.endswith("dtlib")):
        mine, theirs = recording.median(label), recording.median(label.replace("dtlib", "torch"))
        print(f"{label[:-7]:20}{1e3 * mine:8.1f} ms{1e3 * theirs:8.1f} ms{mine / theirs:7.2f}")
