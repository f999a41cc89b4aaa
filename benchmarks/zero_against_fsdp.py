"""ZeRO-3 beside torch's own: the same GPT, the same ranks, the same AdamW, turn by turn.

zero-against-fsdp    labels "2 ranks, dtlib": seconds of a training step, forward, backward and
                     update, on the slowest rank; "FSDP2" is `fully_shard` of every block and of
                     the model, "dtlib, no prefetch" and "dtlib, all released" are variants

Both gather a block before each of its passes, one block ahead, and keep what lies in no block
from the forward to the backward pass, which is FSDP2's rule. Before it is timed, each must have
reached the same loss in three steps.
"""

import time

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
    from dtlib.models import next_token_loss

    spec = TransformerSpec("benchmark", **model_args)
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randint(spec.vocab, (2, sequences, tokens), generator=generator)
    rank, P = dist.get_rank(), dist.get_world_size()
    x, y = x[rank::P], y[rank::P]
    models = {name: make(spec) for name, make in MODELS.items()}
    optimizers = {n: torch.optim.AdamW(m.parameters(), lr=1e-3) for n, m in models.items()}

    def step(name):
        optimizers[name].zero_grad()
        loss = next_token_loss(models[name](x), y)
        loss.backward()
        optimizers[name].step()
        return loss.item()

    losses = {name: [step(name) for _ in range(3)] for name in models}
    for name, series in losses.items():
        gaps = [abs(a / b - 1) for a, b in zip(series, losses["FSDP2"], strict=True)]
        assert max(gaps) < 1e-5, f"{name}: the losses are {series}, FSDP2's {losses['FSDP2']}"
    times = {f"{P} ranks, {name}": [] for name in models}
    for i in range(repetitions):
        for name in list(models) if i % 2 else reversed(models):
            dist.barrier()
            start = time.perf_counter()
            step(name)
            times[f"{P} ranks, {name}"].append(time.perf_counter() - start)
    return times


def _by_torch(spec):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from dtlib.models import GPT

    model, mesh = GPT(spec), init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _by_dtlib(**options):
    def make(spec):
        import torch.distributed as dist

        from dtlib.memory import FullySharded
        from dtlib.models import GPT

        return FullySharded(GPT(spec), dist.group.WORLD, **options)

    return make


MODELS = {
    "dtlib": _by_dtlib(reshard_root=False),
    "dtlib, no prefetch": _by_dtlib(reshard_root=False, prefetch=0),
    "dtlib, all released": _by_dtlib(),
    "FSDP2": _by_torch,
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
    from statistics import median

    return median(times[f"{P} ranks, dtlib"]) / median(times[f"{P} ranks, FSDP2"])


if __name__ == "__main__":
    measure_zero_against_fsdp()
    recording = recordings.load(NAME)
    for P in RANKS:
        for name in MODELS:
            label = f"{P} ranks, {name}"
            over = recording.median(label) / recording.median(f"{P} ranks, FSDP2")
            print(f"{label:30}{1e3 * recording.median(label):8.1f} ms{over:7.2f}")
