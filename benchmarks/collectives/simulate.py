"""How long it takes to build a collective of many ranks and to find its simulated time.

    python benchmarks/collectives/simulate.py

Goals: less than 1 s for a ring of 2,048 ranks, less than 0.1 s for each collective on about 100,000
ranks. Plain halving-doubling has the largest power of two below, the folded one all ranks. Seconds
are the median of several runs, from nothing to the simulated time, on a switch and on nodes of 8
ranks and 8 NICs.
"""

from functools import partial
from statistics import median
from time import perf_counter

from dtlib.collectives import (
    Nodes,
    Switch,
    folded_halving_doubling_all_reduce,
    halving_doubling_all_reduce,
    hierarchical_all_reduce,
    multi_rail_ring_all_reduce,
    ring_all_reduce,
    schedule_time,
    tree_all_reduce,
)
from dtlib.foundations import GB, Cluster, catalog, format_quantity

NODE = catalog["dgx-h100"]
COLLECTIVES = [
    (ring_all_reduce, 2_048),
    (ring_all_reduce, 100_000),
    (tree_all_reduce, 100_000),
    (halving_doubling_all_reduce, 2**16),
    (folded_halving_doubling_all_reduce, 100_000),
    (lambda P: hierarchical_all_reduce(P // NODE.gpus, NODE.gpus), 100_000),
    (lambda P: multi_rail_ring_all_reduce(P // NODE.gpus, NODE.gpus), 100_000),
]
REPETITIONS = 7


def seconds(work) -> float:
    """The median wall-clock time of ``work``."""
    times = []
    for _ in range(REPETITIONS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return median(times)


def main() -> None:
    print(f"{'':36} {'ranks':>7}  {'rounds':>7}  {'topology':8}  {'simulated':>9}  computed in")
    for build, P in COLLECTIVES:
        schedule, nodes = build(P), Nodes.of(Cluster(NODE, P // NODE.gpus))
        for name, topology in (("switch", Switch(P, *nodes.nic)), ("nodes", nodes)):
            simulated = format_quantity(schedule_time(schedule, GB, topology), "s", 3)
            taken = format_quantity(seconds(partial(simulate, build, P, topology)), "s")
            print(
                f"{schedule.name:36} {P:7,}  {len(schedule):7,}  {name:8}  {simulated:>9}  {taken}"
            )


def simulate(build, P: int, topology) -> float:
    """From nothing to the time of an all-reduce of 1 GB."""
    return schedule_time(build(P), GB, topology)


if __name__ == "__main__":
    main()
