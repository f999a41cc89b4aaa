"""Algorithms made of others: the same schedule in several groups of ranks, orders or directions."""

from collections.abc import Callable

import numpy as np

from dtlib.collectives.builders.algorithms import (
    halving_doubling_all_reduce,
    ring_all_reduce,
    ring_reduce_scatter,
)
from dtlib.collectives.schedule import Round, Schedule, Send


def folded_halving_doubling_all_reduce(P: int) -> Schedule:
    """Each rank from Q on hands its buffer to rank r - Q, which adds it; Q ranks run; all back.

    Q is the largest power of two up to P, and what the Q ranks run is halving-doubling. The last
    round hands the sums to those who stood aside.

    Source: Rabenseifner 2004.

    >>> folded_halving_doubling_all_reduce(6)
    folded halving-doubling all-reduce: 6 ranks, 4 chunks, 6 rounds, 20 messages
    """
    if P < 1:
        raise ValueError(f"P must be at least 1; got P = {P}")
    Q = 2 ** (P.bit_length() - 1)
    extra, core = np.arange(Q, P), halving_doubling_all_reduce(Q)
    fold = Schedule(P, core.chunks, [Round(extra, extra - Q, 0, reduce=True, count=core.chunks)])
    folded = fold >> core.over([range(Q)], P=P) >> fold.reversed()
    return folded.named("folded halving-doubling all-reduce")


def two_way_ring_all_reduce(P: int) -> Schedule:
    """A ring all-reduce to the right on one half of the buffer, to the left on the other.

    Both directions run in the same rounds: twice as fast where a rank has two links that it may use
    at once, and no faster where it has one port.

    >>> two_way_ring_all_reduce(4)
    two-way ring all-reduce: 4 ranks, 8 chunks, 6 rounds, 48 messages
    """
    ring, r = ring_all_reduce(P), np.arange(P)
    both = ring.over([r, -r % P], shares=True)
    return both.named("two-way ring all-reduce")


def half_ring_all_gather(P: int) -> Schedule:
    """In round t, rank r passes chunk r - t to the right and chunk r + t to the left.

    A chunk has to come half-way round only: P // 2 rounds. For even P the last chunk comes from the
    left alone.

    >>> print(half_ring_all_gather(4))
    half-ring all-gather: 4 ranks, 4 chunks, 2 rounds, 12 messages
    round 0: 0→1 keeps chunk 0, 1→2 keeps chunk 1, 2→3 keeps chunk 2, 3→0 keeps chunk 3, 0→3 keeps
      chunk 0, 1→0 keeps chunk 1, 2→1 keeps chunk 2, 3→2 keeps chunk 3
    round 1: 0→1 keeps chunk 3, 1→2 keeps chunk 0, 2→3 keeps chunk 1, 3→0 keeps chunk 2
    """
    ways = ((1, P // 2), (-1, (P - 1) // 2))
    rounds = [
        [Send(r, (r + w) % P, (r - w * t) % P) for w, most in ways if t < most for r in range(P)]
        for t in range(P // 2)
    ]
    return Schedule(P, P, rounds, "half-ring all-gather")


def half_ring_all_reduce(P: int) -> Schedule:
    """The half-ring all-gather backwards, which is a reduce-scatter, then forwards.

    >>> len(half_ring_all_reduce(9)), half_ring_all_reduce(9).sent_bytes(900)[0]
    (8, 1600)
    """
    gather = half_ring_all_gather(P)
    return (gather.reversed() >> gather).named("half-ring all-reduce")


def multi_rail_ring_all_reduce(
    nodes: int, ranks_per_node: int, rails: int | None = None
) -> Schedule:
    """As many ring all-reduces as rails, each rotated by one rank in every node, on equal shares.

    Ring g enters a node at its rank g and leaves it at its rank g - 1, so every ring crosses from
    node to node at another GPU, and each NIC carries one of the shares. Rank numbers run through
    one node after the other. ``rails`` is ``ranks_per_node`` where it is not given.

    >>> multi_rail_ring_all_reduce(2, 4)
    multi-rail ring all-reduce: 8 ranks, 32 chunks, 14 rounds, 448 messages
    """
    ranks = _in_nodes(nodes, ranks_per_node)
    orders = [np.roll(ranks, -g, axis=1).ravel() for g in range(rails or ranks_per_node)]
    rings = ring_all_reduce(ranks.size).over(orders, shares=True)
    return rings.named("multi-rail ring all-reduce")


def hierarchical_all_reduce(
    nodes: int,
    ranks_per_node: int,
    inside: Callable[[int], Schedule] = ring_reduce_scatter,
    across: Callable[[int], Schedule] = ring_all_reduce,
) -> Schedule:
    """A reduce-scatter in every node, an all-reduce of each chunk across nodes, an all-gather back.

    Arguments: ``inside``, the builder of the reduce-scatter, which is run backwards as the
    all-gather; ``across``, the builder of the all-reduce among the ranks that have the same place
    in their nodes. It may be hierarchical itself: then there is a third level.

    >>> print(hierarchical_all_reduce(2, 2))
    hierarchical all-reduce: 4 ranks, 4 chunks, 4 rounds, 16 messages
    round 0: 0→1 adds chunks 2..3, 1→0 adds chunks 0..1, 2→3 adds chunks 2..3, 3→2 adds chunks 0..1
    round 1: 0→2 adds chunk 1, 2→0 adds chunk 0, 1→3 adds chunk 3, 3→1 adds chunk 2
    round 2: 0→2 keeps chunk 0, 2→0 keeps chunk 1, 1→3 keeps chunk 2, 3→1 keeps chunk 3
    round 3: 1→0 keeps chunks 2..3, 0→1 keeps chunks 0..1, 3→2 keeps chunks 2..3, 2→3 keeps
      chunks 0..1
    """
    ranks = _in_nodes(nodes, ranks_per_node)
    middle = across(nodes).over(ranks.T, shares=True)
    scatter = inside(ranks_per_node).over(ranks).cut(middle.chunks // ranks_per_node)
    return (scatter >> middle >> scatter.reversed()).named("hierarchical all-reduce")


def _in_nodes(nodes: int, ranks_per_node: int) -> np.ndarray:
    """The ranks as a table, one row for each node."""
    if min(nodes, ranks_per_node) < 1:
        raise ValueError(
            "nodes and ranks_per_node must be at least 1; "
            f"got nodes = {nodes}, ranks_per_node = {ranks_per_node}"
        )
    return np.arange(nodes * ranks_per_node).reshape(nodes, ranks_per_node)
