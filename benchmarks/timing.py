"""What the measurements share: a ping-pong, the slowest rank, and labels."""

import random
import time

from dtlib.foundations import KB, MB, KiB, MiB


def size_label(n: int) -> str:
    """1000 is "1 KB", and 1024 is "1 KiB"."""
    for unit, scale in (("MB", MB), ("KB", KB), ("MiB", MiB), ("KiB", KiB)):
        if n % scale == 0:
            return f"{n // scale} {unit}"
    return f"{n} B"


def ping_pong(sizes, count):
    """On each of two ranks: for every size, the seconds of `count` round trips, halved."""
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    buffers = {n: torch.zeros(n, dtype=torch.uint8) for n in sizes}
    times = {n: [] for n in sizes}
    shuffle = random.Random(0)  # the same on both ranks; else 8 B would always follow 64 MiB
    for _ in range(count + 2):
        for n in shuffle.sample(sizes, len(sizes)):
            buffer = buffers[n]
            dist.barrier()
            start = time.perf_counter()
            for turn in (0, 1):
                dist.send(buffer, 1 - rank) if turn == rank else dist.recv(buffer, 1 - rank)
            times[n].append((time.perf_counter() - start) / 2)
    return {n: series[2:] for n, series in times.items()}


def slowest(by_rank: list[dict]) -> dict:
    """For each key and repetition, the longest time of any rank, to the nearest 0.1 µs."""
    return {
        key: [round(max(times), 7) for times in zip(*(r[key] for r in by_rank), strict=True)]
        for key in by_rank[0]
    }


def labelled(times: dict) -> dict:
    """Times by name and size, under labels such as "ring 1 MB"."""
    return {f"{name} {size_label(n)}": series for (name, n), series in times.items()}
