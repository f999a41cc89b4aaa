"""Every collective that gloo offers, on real ranks, beside the ping-pong of the same minute.

    collectives-4-ranks     labels "all-reduce 1 MB", "ping-pong 1 MB", ...

Sizes are counted as nccl-tests counts them: the larger buffer of a rank. So an all-gather of 1 MB
on four ranks gathers four shares of 250 KB.
"""

import random
import time

from benchmarks.timing import labelled, ping_pong, slowest
from dtlib import launch, recordings
from dtlib.foundations import KB, MB

RANKS = 4
SIZES = [4 * KB, 16 * KB, 64 * KB, 256 * KB, 1 * MB, 4 * MB, 16 * MB, 64 * MB]
OPERATIONS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce")


def repetitions(n: int) -> int:
    return 25 if n <= 1 * MB else 9


def collectives(operations, sizes, count):
    """On each rank: the seconds of every operation, by name and size, in shuffled turns."""
    import torch
    import torch.distributed as dist

    ranks = dist.get_world_size()
    gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # since torch 2.13
    scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
    most = max(sizes) // 4
    whole, other = torch.ones(most), torch.ones(most)
    calls = {
        "all-reduce": lambda k: dist.all_reduce(whole[:k]),
        "reduce-scatter": lambda k: scatter(other[: k // ranks], whole[:k]),
        "all-gather": lambda k: gather(whole[:k], other[: k // ranks]),
        "all-to-all": lambda k: dist.all_to_all_single(other[:k], whole[:k]),
        "broadcast": lambda k: dist.broadcast(whole[:k], 0),
        "reduce": lambda k: dist.reduce(whole[:k], 0),
    }
    shuffle = random.Random(0)  # the same on every rank
    turns = [(name, n) for n in sizes for name in operations for _ in range(count(n) + 2)]
    times = {(name, n): [] for n in sizes for name in operations}
    for name, n in shuffle.sample(turns, len(turns)):
        whole[: n // 4] = 1
        dist.barrier()
        start = time.perf_counter()
        calls[name](n // 4)
        times[name, n].append(time.perf_counter() - start)
    return {key: series[2:] for key, series in times.items()}


def measure_collectives() -> None:
    with launch(2) as pair:
        first, _ = pair.run(ping_pong, SIZES, 15)
    with launch(RANKS) as ranks:
        times = slowest(ranks.run(collectives, OPERATIONS, SIZES, repetitions))
    times |= {("ping-pong", n): series for n, series in slowest([first]).items()}
    recordings.save("collectives-4-ranks", labelled(times), unit="s", ranks=RANKS, sizes=SIZES)
