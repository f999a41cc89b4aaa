"""Measure the law of a step: fixed work divided among 1, 2 and 4 ranks, then an all-reduce.

The work is a number of products of matrices that fit into a core's cache; each rank does its share
on one thread. Four things are timed for each number of ranks, in turn within every repetition:
the share of the work alone, the all-reduce alone, one after the other, and both at once.

    fleet-law-ranks    labels "2 compute", "2 all-reduce", "2 step", "2 at once"
"""

import time

from dtlib import launch, recordings
from dtlib.foundations import MB

RANKS = (1, 2, 4)
PRODUCTS, SIZE, MESSAGE, REPETITIONS = 240, 256, 8 * MB, 21


def steps(products, size, message, count):
    """On each rank: the seconds of its share, of the all-reduce, of both in turn and at once."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    P = dist.get_world_size()
    a, b = torch.rand(size, size), torch.rand(size, size)
    gradient = torch.zeros(message // 4)

    def compute():
        for _ in range(products // P):
            a @ b

    def exchange():
        dist.all_reduce(gradient)

    def step():
        compute()
        exchange()

    def at_once():
        work = dist.all_reduce(gradient, async_op=True)
        compute()
        work.wait()

    runs = {"compute": compute, "all-reduce": exchange, "step": step, "at once": at_once}
    times = {name: [] for name in runs}
    for _ in range(count + 3):
        for name, run in runs.items():
            dist.barrier()
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: series[3:] for name, series in times.items()}


def measure_fleet_law() -> None:
    """Write the recording; a repetition lasts as long as its slowest rank."""
    samples = {}
    for P in RANKS:
        with launch(P) as ranks:
            by_rank = ranks.run(steps, PRODUCTS, SIZE, MESSAGE, REPETITIONS)
        for name in by_rank[0]:
            slowest = zip(*(times[name] for times in by_rank), strict=True)
            samples[f"{P} {name}"] = [round(max(times), 7) for times in slowest]
    facts = {"products": PRODUCTS, "size": SIZE, "message": MESSAGE}
    recordings.save("fleet-law-ranks", samples, unit="s", **facts)


if __name__ == "__main__":
    measure_fleet_law()
