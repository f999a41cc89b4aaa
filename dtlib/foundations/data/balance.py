"""Sharing out jobs of known size: the longest first, each to the rank that has least."""

import heapq
from collections.abc import Sequence

from dtlib.formulas.require import require_count, require_not_negative


def longest_first(costs: Sequence[float], P: int) -> list[int]:
    """The owner of each job: the longest job that is left goes to the rank with the least so far.

    Theorem: the busiest rank has at most 4/3 - 1/(3P) times what the best division gives its own
    busiest.
    Arguments: `costs`, in any unit; `P` ranks. Of equal ranks the first takes the job, of equal
    jobs the first is dealt first. Returns a rank for each job, in the order of `costs`.
    Raises ValueError for a negative or infinite cost, and for no rank.
    Source: Graham 1969, theorem 2.

    >>> longest_first([1, 7, 5, 4], P=2)
    [0, 0, 1, 1]
    """
    require_count("longest_first", P=P)
    for i, cost in enumerate(costs):
        require_not_negative("longest_first", **{f"costs[{i}]": cost})
    ranks = [(0.0, rank) for rank in range(P)]
    owners = [0] * len(costs)
    for job in sorted(range(len(costs)), key=lambda job: -costs[job]):
        load, owners[job] = ranks[0]
        heapq.heapreplace(ranks, (load + costs[job], owners[job]))
    return owners
