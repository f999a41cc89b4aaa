"""What the same bits cost on four ranks: `reproducible-sums-4-ranks`.

Seconds, from a barrier to the slowest rank, of three ways to add one share of a rank, which take
turns: gloo's all-reduce in float32, whole numbers of 64 bits, and a gather with a sum in order.
"""

import torch
import torch.distributed as dist

from benchmarks.timing import slowest
from dtlib import launch, recordings

SIZES = {"64 KB": 2**14, "1 MB": 2**18, "16 MB": 2**22}
REPEATS = 15


def times(count: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of this rank for each way."""
    import time

    from dtlib.efficiency import ordered_sum, reproducible_sum

    share = torch.randn(1, count, generator=torch.Generator().manual_seed(dist.get_rank()))
    ways = {
        "plain": lambda: dist.all_reduce(share.sum(0)),
        "whole numbers": lambda: reproducible_sum(share, dist.group.WORLD),
        "in order": lambda: ordered_sum(share, dist.group.WORLD),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats + 1):
        for name, way in ways.items():
            dist.barrier()
            begin = time.perf_counter()
            way()
            if repeat:
                found[name].append(time.perf_counter() - begin)
    return found


def measure_reproducible_sums() -> None:
    """Write the recording."""
    samples = {}
    with launch(4) as ranks:
        for size, count in SIZES.items():
            for name, series in slowest(ranks.run(times, count, REPEATS)).items():
                samples[f"{name} {size}"] = series
    recordings.save("reproducible-sums-4-ranks", samples, unit="s", ranks=4)


if __name__ == "__main__":
    measure_reproducible_sums()
