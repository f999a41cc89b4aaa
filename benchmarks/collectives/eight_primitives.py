"""The eight collectives as gloo runs them on four ranks, with the ping-pong of the same minute.

Beside them two pairs of schedules of ours, each the other one backwards.

    eight-primitives-4-ranks    seconds of the slowest rank, labels "all-gather 16 MB"

A size is the bytes of the whole vector: what one rank holds where it holds everything.
"""

import time

from benchmarks.timing import labelled, ping_pong, slowest
from dtlib import launch, recordings
from dtlib.foundations import KB, MB

SIZES = [64 * KB, 1 * MB, 16 * MB]


def eight(n):
    """Each collective on vectors of `n` bytes, as a call without arguments; for one rank."""
    import torch
    import torch.distributed as dist

    from dtlib.collectives import (
        execute,
        ring_all_gather,
        ring_reduce_scatter,
        tree_broadcast,
        tree_reduce,
    )

    rank, P = dist.get_rank(), dist.get_world_size()
    whole, part = torch.zeros(n // 4), torch.zeros(n // 4 // P)
    other = torch.zeros(n // 4)
    parts, others = list(whole.chunk(P)), list(other.chunk(P))
    root = rank == 0
    return {
        "broadcast": lambda: dist.broadcast(whole, 0),
        "reduce": lambda: dist.reduce(whole, 0),
        "scatter": lambda: dist.scatter(part, parts if root else None, 0),
        "gather": lambda: dist.gather(part, parts if root else None, 0),
        "all-gather": lambda: dist.all_gather(parts, part),
        "reduce-scatter": lambda: dist.reduce_scatter(part, parts),
        "all-reduce": lambda: dist.all_reduce(whole),
        "all-to-all": lambda: dist.all_to_all(others, parts),
        "our broadcast": lambda: execute(tree_broadcast(P), whole),
        "our reduce": lambda: execute(tree_reduce(P), whole),
        "our all-gather": lambda: execute(ring_all_gather(P), whole),
        "our reduce-scatter": lambda: execute(ring_reduce_scatter(P), whole),
    }


def timed(sizes, count):
    """On each rank: the seconds of every collective at every size, in turns."""
    import torch.distributed as dist

    runs = {(name, n): run for n in sizes for name, run in eight(n).items()}
    times = {key: [] for key in runs}
    for _ in range(count + 2):
        for key, run in runs.items():
            dist.barrier()
            start = time.perf_counter()
            run()
            times[key].append(time.perf_counter() - start)
    return {key: series[2:] for key, series in times.items()}


def measure_eight_primitives() -> None:
    with launch(2) as pair:
        first, _ = pair.run(ping_pong, SIZES, 15)
    with launch(4) as ranks:
        times = slowest(ranks.run(timed, SIZES, 15))
    times |= {("ping-pong", n): series for n, series in slowest([first]).items()}
    recordings.save("eight-primitives-4-ranks", labelled(times), unit="s", ranks=4, sizes=SIZES)
