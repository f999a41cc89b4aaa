"""The strategies of part four beside torch's own: the same GPT, the same ranks, turn by turn.

strategies-against-torch    labels "data, 2 ranks, dtlib": seconds of a training step without the
                            optimizer, forward and backward, on the slowest rank

"data" has the whole model and a share of the batch on each rank, beside DistributedDataParallel;
"tensor" divides matrices, tables and loss, beside parallelize_module with loss_parallel; "GPipe"
and "1F1B" cut the layers into stages, beside torch.distributed.pipelining. Before it is timed,
every step must have the loss that torch's has.
"""

import time

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
    import torch
    import torch.distributed as dist
    from torch.distributed import pipelining
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor import parallel as native
    from torch.nn.functional import cross_entropy
    from torch.nn.parallel import DistributedDataParallel

    from dtlib.foundations import TransformerSpec
    from dtlib.models import GPT, next_token_loss
    from dtlib.parallelism import DataParallel, tensor_parallel, vocab_parallel_cross_entropy
    from dtlib.parallelism import pipeline as ours

    group, rank, P = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    spec = TransformerSpec("benchmark", **model_args)
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randint(spec.vocab, (2, sequences, tokens), generator=generator)
    last = rank == P - 1

    def whole_step(model):
        def step():
            loss = next_token_loss(model(x[rank::P]), y[rank::P])
            loss.backward()
            return loss.item()

        return step

    def tensor_by_dtlib():
        model = tensor_parallel(GPT(spec), group)

        def step():
            loss = vocab_parallel_cross_entropy(model(x), y, group)
            loss.backward()
            return loss.item()

        return model, step

    def tensor_by_torch():
        columns, rows = native.ColwiseParallel, native.RowwiseParallel
        plan = {f"blocks.*.attention.{name}": columns() for name in ("query", "key", "value")}
        plan |= {f"blocks.*.feed_forward.{name}": columns() for name in ("gate", "up")}
        plan |= {"blocks.*.attention.out": rows(), "blocks.*.feed_forward.down": rows()}
        plan |= {"embedding": rows(input_layouts=Replicate())}
        plan |= {"head": columns(output_layouts=Shard(-1), use_local_output=False)}
        model = native.parallelize_module(GPT(spec), init_device_mesh("cpu", (P,)), plan)

        def step():
            with native.loss_parallel():
                loss = cross_entropy(model(x).flatten(0, 1), y.flatten())
                loss.backward()
            return loss.to_local().item()

        return model, step

    def pipeline_by_dtlib(builder):
        model = GPT(spec)
        schedule, stages = builder(P, micro_batches), ours.stages_of(model, P)

        def step():
            return ours.run(schedule, stages, x, y, next_token_loss, group).loss

        return model, step

    def pipeline_by_torch(schedule):
        model = GPT(spec)
        stage = ours.stages_of(model, P)[rank]
        part = pipelining.PipelineStage(stage, rank, P, torch.device("cpu"), group=group)
        runner = schedule(part, micro_batches, loss_fn=next_token_loss)

        def step():
            losses = []
            runner.step(*[x] * (rank == 0), **({"target": y, "losses": losses} if last else {}))
            loss = torch.tensor(sum(losses).item() / micro_batches if last else 0.0)
            dist.broadcast(loss, P - 1)
            return loss.item()

        return model, step

    def data_by_dtlib():
        model = GPT(spec)
        return model, whole_step(DataParallel(model, group))

    def data_by_torch():
        model = GPT(spec)
        return model, whole_step(DistributedDataParallel(model))

    pairs = {
        "data": (data_by_dtlib, data_by_torch),
        "tensor": (tensor_by_dtlib, tensor_by_torch),
        "GPipe": (
            lambda: pipeline_by_dtlib(ours.gpipe),
            lambda: pipeline_by_torch(pipelining.ScheduleGPipe),
        ),
        "1F1B": (
            lambda: pipeline_by_dtlib(ours.one_f_one_b),
            lambda: pipeline_by_torch(pipelining.Schedule1F1B),
        ),
    }
    times = {}
    for name, makers in pairs.items():
        both = dict(zip(("dtlib", "torch"), [make() for make in makers], strict=True))
        losses = [step() for _, step in both.values()]
        assert abs(losses[0] - losses[1]) < 1e-5 * losses[1], f"{name}: {losses}"
        for i in range(repetitions + 2):
            for library in ("dtlib", "torch") if i % 2 else ("torch", "dtlib"):
                model, step = both[library]
                model.zero_grad()
                dist.barrier()
                start = time.perf_counter()
                step()
                seconds = time.perf_counter() - start
                times.setdefault(f"{name}, {P} ranks, {library}", []).append(seconds)
    return {label: series[2:] for label, series in times.items()}


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
