"""The micro-lab's runs: one engine over some steps, a sweep of bucket sizes, bare all-reduces.

These functions run on every rank, in a notebook's pool or under torchrun. Nothing is asserted here
about time; what a run says about itself is in its log.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from dtlib.micro_lab.encoder import Encoder, encoder_specs
from dtlib.micro_lab.engines import make_engine
from dtlib.micro_lab.step_log import StepLog
from dtlib.runtime import device

SIZES, DATA = ("mini", "base", "pretrained"), ("toy", "sst2")
LEARNING_RATE = {"mini": 3e-4, "base": 5e-5, "pretrained": 2e-5}


class EngineRun(NamedTuple):
    """What one rank brings home: its records, the whole weights, and the share of right answers."""

    records: list[dict]
    weights: dict[str, torch.Tensor]
    accuracy: float | None


def run_engine(
    name: str,
    *,
    size: str = "mini",
    data: str = "toy",
    steps: int = 20,
    batch: int = 32,
    bucket_mb: float | None = None,
    hook: Callable | None = None,
    folder: Path | None = None,
    evaluate: bool = False,
) -> EngineRun:
    """Train with one engine, on this rank's share of every batch, and write its log.

    Arguments: `name` of the engine; `size`, `data`: "mini" and "toy" need no network, "base" is
    DistilBERT's size with random weights, "pretrained" and "sst2" are fetched; `batch`, sentences
    of all ranks in a step; `bucket_mb` and `hook`, as `make_engine` has them; `folder`, for the
    file ENGINE.rankR.jsonl; `evaluate`, to count right answers on the test part afterwards.
    "single" is the whole batch on one process; every rank then does the same.
    Raises ValueError for another size or other data, and for a batch that the ranks cannot share.
    """
    rank, P = dist.get_rank(), dist.get_world_size()
    if batch % P:
        raise ValueError(f"batch = {batch}; {P} ranks cannot share it evenly")
    place = device()
    tokens, labels = (x.to(place) for x in load(data, "train"))
    file = folder and Path(folder) / f"{name}.rank{rank}.jsonl"
    log = StepLog(rank, file, place)
    model = build(size).to(place)
    settings = {"bucket_mb": bucket_mb, "hook": hook, "lr": LEARNING_RATE[size]}
    engine = make_engine(name, model, dist.group.WORLD, log, **settings)
    for step in range(steps):
        rows = rows_of(step, batch, len(labels)).to(place)
        rows = rows if name == "single" else rows.chunk(P)[rank]
        engine.step(tokens[rows], labels[rows])
    weights = engine.weights()
    accuracy = share_right(size, weights, *load(data, "test")) if evaluate else None
    return EngineRun(log.records, {n: w.cpu() for n, w in weights.items()}, accuracy)


def rows_of(step: int, batch: int, count: int) -> torch.Tensor:
    """The sentences of one step, the same on every rank and for every engine."""
    return torch.randint(count, (batch,), generator=torch.Generator().manual_seed(step))


def build(size: str):
    """The model, with the same bits on every rank."""
    if size not in SIZES:
        raise ValueError(f"size = {size!r}; allowed are {', '.join(SIZES)}")
    if size != "pretrained":
        return Encoder(encoder_specs[size])
    from dtlib.micro_lab.pretrained import pretrained_encoder

    return pretrained_encoder()


def load(data: str, part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and labels."""
    if data == "toy":
        from dtlib.micro_lab.sentiment import tensors, toy_sentiment

        return tensors(toy_sentiment(part))
    if data == "sst2":
        from dtlib.micro_lab.pretrained import sst2

        return sst2(part)
    raise ValueError(f"data = {data!r}; allowed are {', '.join(DATA)}")


@torch.no_grad()
def share_right(size: str, weights: dict, tokens: torch.Tensor, labels: torch.Tensor) -> float:
    """How many labels a plain model with these weights finds."""
    place = next(iter(weights.values())).device
    model = build(size).to(place)
    model.load_state_dict(weights)
    parts = zip(tokens.to(place).split(250), labels.to(place).split(250), strict=True)
    return sum(int((model(x).argmax(1) == y).sum()) for x, y in parts) / len(labels)


def bare_all_reduces(sizes: Sequence[int], repetitions: int = 7) -> list[tuple[int, float]]:
    """All-reduces with nothing beside them: (bytes, seconds), the median of the slowest rank."""
    found = []
    for nbytes in sizes:
        buffer = torch.zeros(max(1, nbytes // 4), device=device())
        seconds = torch.zeros(repetitions + 1, dtype=torch.float64, device=device())
        for i in range(repetitions + 1):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(buffer)
            if device().type == "cuda":
                torch.cuda.synchronize()
            seconds[i] = time.perf_counter() - start
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        found.append((4 * buffer.numel(), median(seconds[1:].tolist())))
    return found


def sweep(
    caps: Sequence[float | None],
    size: str = "mini",
    steps: int = 6,
    batch: int = 32,
    length: int | None = None,
) -> dict[Any, list[dict]]:
    """torch's wrapper with one bucket size after the other: this rank's records for each.

    Argument `length`: sentences are cut to so many tokens, for a large model on a small machine.
    """
    rank, P = dist.get_rank(), dist.get_world_size()
    tokens, labels = (x.to(device()) for x in load("toy", "train"))
    logs = {}
    for cap in caps:
        log = StepLog(rank, device=device())
        model = build(size).to(device())
        engine = make_engine("torch-ddp", model, dist.group.WORLD, log, bucket_mb=cap, lr=1e-5)
        for step in range(steps):
            rows = rows_of(step, batch, len(labels)).to(device()).chunk(P)[rank]
            dist.barrier()
            engine.step(tokens[rows, :length], labels[rows])
        logs[cap] = log.records
    return logs
