"""How long do ranks take to start, and a cell on warm ranks?

    python benchmarks/runtime/warm_cell.py [--ranks 4] [--cells 200]

The first start loads torch in a server; a later start forks new ranks from it. A cell is one
`Ranks.cell` with an all_reduce of one number, from the call to the list of results.
"""

import argparse
import time
from statistics import median, quantiles

from dtlib.foundations import format_quantity
from dtlib.runtime import close_pools, launch

CELL = "x = torch.ones(1)\ndist.all_reduce(x)\nx.item()"
LATER_STARTS = 5


def seconds_to_start(n):
    """From no ranks to the first result."""
    start = time.perf_counter()
    with launch(n) as ranks:
        ranks.cell(CELL)
    return time.perf_counter() - start


def seconds_per_cell(n, cells):
    """Of each of so many cells in a row."""
    seconds = []
    with launch(n) as ranks:
        ranks.cell(CELL)
        for _ in range(cells):
            start = time.perf_counter()
            assert ranks.cell(CELL) == [n] * n
            seconds.append(time.perf_counter() - start)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--cells", type=int, default=200)
    arguments = parser.parse_args()
    n = arguments.ranks
    times = {"first start": seconds_to_start(n)}
    later = []
    for _ in range(LATER_STARTS):
        close_pools()
        later.append(seconds_to_start(n))
    times["later start, median"] = median(later)
    cells = seconds_per_cell(n, arguments.cells)
    times["warm cell, median"] = median(cells)
    times["warm cell, p99"] = quantiles(cells, n=100)[98]
    print(f"{n} ranks, {arguments.cells} cells with an all_reduce of one number")
    for what, seconds in times.items():
        print(f"{what:20} {format_quantity(seconds, 's')}")


if __name__ == "__main__":
    main()
