"""How long it takes to build a collective of many ranks and to find its simulated time.

    python benchmarks/simulate.py

Goals: less than 1 s for a ring of 2,048 ranks, less than 0.1 s for each collective on about 100,000
ranks, where halving-doubling has the largest power of two below. Seconds are the median of several
runs, from nothing to the simulated time, on a switch and on nodes of 8 ranks and 8 NICs.
"""

from statistics import median
from time import perf_counter

from dtlib.collectives import (
    halving_doubling_all_reduce,
    ring_all_reduce,
    schedule_time,
    tree_all_reduce,
)
from dtlib.collectives.nodes import Nodes
from dtlib.collectives.topology import Switch
from dtlib.foundations import GB, Cluster, catalog, format_quantity

NODE = catalog["dgx-h100"]
MANY = 100_000
COLLECTIVES = {
    "ring": (ring_all_reduce, 2_048),
    "ring ": (ring_all_reduce, MANY),
    "tree": (tree_all_reduce, MANY),
    "halving-doubling": (halving_doubling_all_reduce, 2**16),
}
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
    print(f"{'all-reduce':18} {'ranks':>8} {'rounds':>8} {'on':>8} {'simulated':>10}  computed in")
    for name, (build, P) in COLLECTIVES.items():
        nodes = Nodes.of(Cluster(NODE, P // NODE.gpus))
        for title, topology in (("switch", Switch(P, *nodes.nic)), ("nodes", nodes)):

            def work(build=build, P=P, topology=topology):
                return schedule_time(build(P), GB, topology)

            simulated = format_quantity(work(), "s", 3)
            taken = format_quantity(seconds(work), "s")
            print(f"{name:18} {P:8,} {len(build(P)):8,} {title:>8} {simulated:>10}  {taken}")


if __name__ == "__main__":
    main()
