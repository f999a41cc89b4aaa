"""Our all-reduces beside gloo's own, in one run: how many times as long do they take?

    python benchmarks/collectives/ring_against_gloo.py [--ranks 2 4] [--seconds 8]

Ours and gloo's take turns on the same ranks and buffers, so that whatever else the machine does
slows both. A cell is the median over the turns of (time of ours / time of gloo's), where a time is
that of the slowest rank; beside it, in brackets, is the ratio of the two shortest times.
The goal for the ring is at most 1.1 from 1 MB on. What our calls cost beside the messages is CPU
time, and four ranks on two cores have none to spare: judge on a machine that does nothing else.
"""

import argparse
from statistics import median

from dtlib.collectives import (
    halving_doubling_all_reduce,
    ring_all_reduce,
    tree_all_reduce,
)
from dtlib.foundations import format_quantity
from dtlib.runtime import launch

SIZES = [2**k for k in range(16, 27, 2)]
BUILDERS = [ring_all_reduce, halving_doubling_all_reduce, tree_all_reduce]


def take_turns(schedules, nbytes, turns):
    """On one rank: seconds of every turn, gloo's first, then those of each schedule."""
    import time

    import torch
    import torch.distributed as dist

    from dtlib.collectives import execute

    tensor = torch.zeros(nbytes // 4)
    contenders = [lambda: dist.all_reduce(tensor)]
    contenders += [lambda schedule=schedule: execute(schedule, tensor) for schedule in schedules]
    seconds = []
    for _ in range(turns + 2):
        row = []
        for contender in contenders:
            dist.barrier()
            start = time.perf_counter()
            contender()
            row.append(time.perf_counter() - start)
        seconds.append(row)
    return seconds[2:]


def ratios(by_rank):
    """For each schedule, its time over gloo's: the median of the turns, and of the best turns."""
    turns = [list(map(max, zip(*ranks, strict=True))) for ranks in zip(*by_rank, strict=True)]
    best = list(map(min, zip(*turns, strict=True)))
    return best[0], [
        (median(turn[i] / turn[0] for turn in turns), best[i] / best[0])
        for i in range(1, len(turns[0]))
    ]


def compare(ranks, nbytes, seconds):
    """One row: gloo's best time, and the ratios of every algorithm."""
    schedules = [build(ranks.n) for build in BUILDERS]
    pilot = ranks.run(take_turns, schedules, nbytes, 1)[0]
    turns = max(5, min(200, int(seconds / sum(pilot[0]))))
    return ratios(ranks.run(take_turns, schedules, nbytes, turns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--seconds", type=float, default=8, help="for each size")
    arguments = parser.parse_args()
    titles = [build.__name__.removesuffix("_all_reduce") for build in BUILDERS]
    for n in arguments.ranks:
        print(f"\n{n} ranks        gloo  " + "  ".join(f"{title:>17}" for title in titles))
        with launch(n) as ranks:
            for nbytes in SIZES:
                gloo, columns = compare(ranks, nbytes, arguments.seconds)
                cells = "  ".join(f"{middle:8.2f} ({best:6.2f})" for middle, best in columns)
                size = format_quantity(nbytes, "B")
                print(f"{size:>8}  {format_quantity(gloo, 's'):>8}  {cells}", flush=True)


if __name__ == "__main__":
    main()
