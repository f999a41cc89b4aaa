"""A causal ring on real ranks: the layouts against each other, and against no mask at all.

    causal-ring-ranks    seconds of the slowest rank, labels "2 ranks zigzag", "4 ranks no mask"

Forward passes of one layer, 2,048 tokens, 8 heads of 64 numbers; blocks are cut into 8 x 8 tiles,
so that what the mask forbids is hardly computed. Every rank has one thread.
"""

import time

from benchmarks.timing import slowest
from dtlib import launch, recordings

SEQ, HEADS, WIDTH, TILES = 2048, 8, 64, 8
LAYOUTS = ("contiguous", "zigzag", "striped")


def timed(count):
    """On each rank: the seconds of every layout and of no mask, in turns."""
    import torch
    import torch.distributed as dist

    from dtlib.parallelism import ring_attention
    from dtlib.parallelism.sequence import layouts

    group, P = dist.group.WORLD, dist.get_world_size()
    torch.set_num_threads(1)
    q, k, v = torch.randn(3, 1, HEADS, SEQ // P, WIDTH).unbind()
    tables = {name: getattr(layouts, name)(SEQ, P) for name in LAYOUTS} | {"no mask": None}
    times = {f"{P} ranks {name}": [] for name in tables}
    with torch.no_grad():
        for _ in range(count + 2):
            for name, table in tables.items():
                dist.barrier()
                start = time.perf_counter()
                ring_attention(q, k, v, table, group, TILES)
                times[f"{P} ranks {name}"].append(time.perf_counter() - start)
    return {key: series[2:] for key, series in times.items()}


def measure_causal_ring() -> None:
    samples = {}
    for P in (2, 4):
        with launch(P) as ranks:
            samples |= slowest(ranks.run(timed, 11))
    about = {"seq": SEQ, "heads": HEADS, "width": WIDTH, "tiles": TILES}
    recordings.save("causal-ring-ranks", samples, unit="s", **about)
