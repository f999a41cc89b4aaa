"""ZeRO's stages, and the last one beside torch's: a GPT, AdamW, the same ranks, turn by turn.

zero-against-fsdp    labels "2 ranks, stage 0" to "stage 3", "dtlib", "FSDP2": seconds of a training
                     step, forward, backward and update, on the slowest rank

Stage 0 is data parallelism. "FSDP2" is `fully_shard` of every block and of the model; it keeps what
lies in no block from the forward to the backward pass. "dtlib" is stage 3 by the same rule, "dtlib,
no prefetch" without a gather ahead, and "stage 3" releases everything, as the derivation has it.
Before it is timed, each must have reached the same loss in three steps.
"""

import time
from statistics import median

from benchmarks.timing import slowest
from dtlib import launch, recordings

NAME = "zero-against-fsdp"
RANKS = (2, 4)
SEQUENCES, TOKENS, REPETITIONS = 8, 32, 15
MODEL = {
    "layers": 4, "hidden": 256, "heads": 8, "vocab": 1024, "norm": "rms", "gated": True,
    "bias": False,
}  # fmt: skip


def step_times(model_args, sequences, tokens, repetitions):
    """On each rank: seconds of every step, by library; they take turns."""
    import torch
    import torch.distributed as dist

    from dtlib.foundations import TransformerSpec
    from dtlib.models import GPT, next_token_loss

    spec = TransformerSpec("benchmark", **model_args)
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randint(spec.vocab, (2, sequences, tokens), generator=generator)
    rank, P = dist.get_rank(), dist.get_world_size()
    x, y = x[rank::P], y[rank::P]
    ways = {name: make(GPT(spec)) for name, make in WAYS.items()}

    def step(name):
        model, optimizer = ways[name]
        optimizer.zero_grad()
        loss = next_token_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    losses = {name: [step(name) for _ in range(3)] for name in ways}
    for name, series in losses.items():
        gaps = [abs(a / b - 1) for a, b in zip(series, losses["FSDP2"], strict=True)]
        assert max(gaps) < 1e-5, f"{name}: the losses are {series}, FSDP2's {losses['FSDP2']}"
    times = {f"{P} ranks, {name}": [] for name in ways}
    for i in range(repetitions):
        for name in list(ways) if i % 2 else reversed(ways):
            dist.barrier()
            start = time.perf_counter()
            step(name)
            times[f"{P} ranks, {name}"].append(time.perf_counter() - start)
    return times


def _adamw(parameters):
    import torch

    return torch.optim.AdamW(parameters, lr=1e-3)


def replicated(model):
    import torch.distributed as dist

    from dtlib.parallelism import DataParallel

    return DataParallel(model, dist.group.WORLD), _adamw(model.parameters())


def sharded_optimizer(stage):
    def make(model):
        import torch
        import torch.distributed as dist

        from dtlib.memory import ShardedOptimizer

        group, kind = dist.group.WORLD, torch.optim.AdamW
        return model, ShardedOptimizer(model.parameters(), kind, group, zero=stage, lr=1e-3)

    return make


def fully_sharded(**options):
    def make(model):
        import torch.distributed as dist

        from dtlib.memory import FullySharded

        sharded = FullySharded(model, dist.group.WORLD, **options)
        return sharded, _adamw(sharded.parameters())

    return make


def by_torch(model):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh), _adamw(model.parameters())


WAYS = {
    "stage 0": replicated,
    "stage 1": sharded_optimizer(1),
    "stage 2": sharded_optimizer(2),
    "stage 3": fully_sharded(),
    "dtlib": fully_sharded(reshard_root=False),
    "dtlib, no prefetch": fully_sharded(reshard_root=False, prefetch=0),
    "FSDP2": by_torch,
}


def measure_zero_against_fsdp() -> None:
    times = {}
    for P in RANKS:
        with launch(P, timeout=300) as ranks:
            times |= slowest(ranks.run(step_times, MODEL, SEQUENCES, TOKENS, REPETITIONS))
    about = {"sequences": SEQUENCES, "tokens": TOKENS}
    recordings.save(NAME, times, unit="s", model=MODEL, **about)


def ratio(times: dict, P: int) -> float:
    """The median step of dtlib's stage 3 over that of FSDP2."""
    return median(times[f"{P} ranks, dtlib"]) / median(times[f"{P} ranks, FSDP2"])


if __name__ == "__main__":
    measure_zero_against_fsdp()
    recording = recordings.load(NAME)
    for P in RANKS:
        for name in WAYS:
            label = f"{P} ranks, {name}"
            over = recording.median(label) / recording.median(f"{P} ranks, FSDP2")
            print(f"{label:30}{1e3 * recording.median(label):8.1f} ms{over:7.2f}")
