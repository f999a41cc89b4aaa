"""Packs of equal length and unequal work: what they cost, how much chance adds, who gets which."""

import heapq
from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import NormalDist

from dtlib.formulas.require import require, require_count, require_not_negative


def longest_first(costs: Sequence[float], P: int, most: int | None = None) -> list[int]:
    """The owner of each job: the longest job that is left goes to the rank with the least so far.

    Theorem: the busiest rank has at most 4/3 - 1/(3P) times what the best division gives its own
    busiest.
    Arguments: `costs`, in any unit; `P` ranks; `most`, how many jobs a rank may have (None: any
    number; the theorem is about that). Of equal ranks the first takes the job, of equal jobs the
    first is dealt first. Returns a rank for each job, in the order of `costs`.
    Raises ValueError for a negative or infinite cost, for no rank, and for too many jobs.
    Source: Graham 1969, theorem 2.

    >>> longest_first([1, 7, 5, 4], P=2)
    [0, 0, 1, 1]
    >>> longest_first([9, 2, 2, 2], P=2, most=2)
    [0, 1, 1, 0]
    """
    most = len(costs) if most is None else most
    require_count("longest_first", P=P)
    require_count("longest_first", 0, most=most)
    require(most * P >= len(costs), "longest_first", "most", most, f"enough for {len(costs)} jobs")
    for i, cost in enumerate(costs):
        require_not_negative("longest_first", **{f"costs[{i}]": cost})
    ranks = [(0.0, rank, most) for rank in range(P)]
    owners = [0] * len(costs)
    for job in sorted(range(len(costs)), key=lambda job: -costs[job]):
        load, owners[job], room = heapq.heappop(ranks)
        if room > 1:
            heapq.heappush(ranks, (load + costs[job], owners[job], room - 1))
    return owners


def pack_costs(lengths: Iterable[int], room: int) -> list[int]:
    """What attention costs in each pack, if documents are joined in order and cut every `room`.

    Equation: the sum of L_i^2 over the documents, or parts of them, in a pack, where a token sees
    its own document only: in proportion to the pairs of a token and one that it may see.
    Arguments: `lengths` of the documents, in tokens; `room`, tokens of a pack. What does not fill
    the last pack is left out. Raises ValueError for a length or a room below 1.

    >>> pack_costs([6, 3, 5, 4], room=8)
    [40, 30]
    """
    require_count("pack_costs", room=room)
    costs, cost, left = [], 0, room
    for i, length in enumerate(lengths):
        require_count("pack_costs", **{f"lengths[{i}]": length})
        while length:
            part = min(length, left)
            cost, length, left = cost + part**2, length - part, left - part
            if not left:
                costs.append(cost)
                cost, left = 0, room
    return costs


def expected_straggler(spread: float, packs: int, P: int) -> float:
    """The busiest rank's work over the mean, if each of P ranks has so many packs by chance.

    Equation: 1 + z spread / sqrt(packs), with z what the largest of P normal numbers is on average,
    by Blom's quantile (P - 3/8) / (P + 1/4).
    Arguments: `spread` of a pack's cost, its standard deviation over its mean; `packs` of a rank;
    `P` ranks. Good where the sum of a rank's packs is nearly normal: for many packs.
    Raises ValueError for a negative spread and for no pack or rank. Source: Blom 1958.

    >>> round(expected_straggler(spread=1, packs=4, P=8), 2)
    1.72
    """
    require_not_negative("expected_straggler", spread=spread)
    require_count("expected_straggler", packs=packs, P=P)
    return 1 + NormalDist().inv_cdf((P - 3 / 8) / (P + 1 / 4)) * spread / sqrt(packs)
