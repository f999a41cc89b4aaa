"""Algorithms with a root: rank 0 hands out, or takes in, a whole buffer or the parts of one.

Like every builder of this room they return a `Schedule`; on one rank it is empty.
"""

import numpy as np

from dtlib.collectives.schedule import Round, Schedule


def flat_scatter(P: int) -> Schedule:
    """Rank 0 passes to every other rank r chunk r.

    >>> print(flat_scatter(3))
    flat scatter: 3 ranks, 3 chunks, 1 round, 2 messages
    round 0: 0→1 keeps chunk 1, 0→2 keeps chunk 2
    """
    r = np.arange(1, P)
    return Schedule(P, P, [Round(0, r, chunk=r)], "flat scatter")


def flat_gather(P: int) -> Schedule:
    """Every other rank r passes chunk r to rank 0.

    >>> flat_gather(4).received_bytes(1000)
    [750, 0, 0, 0]
    """
    r = np.arange(1, P)
    return Schedule(P, P, [Round(r, 0, chunk=r)], "flat gather")


def tree_gather(P: int) -> Schedule:
    """For d = 1, 2, 4, ..., each odd multiple r of d passes chunks r ... r + d - 1 to r - d.

    That is all it has by then: the ranks form a binomial tree with root 0.

    Source: Chan, Heimlich, Purkayastha & van de Geijn 2007.

    >>> print(tree_gather(6))
    tree gather: 6 ranks, 6 chunks, 3 rounds, 5 messages
    round 0: 1→0 keeps chunk 1, 3→2 keeps chunk 3, 5→4 keeps chunk 5
    round 1: 2→0 keeps chunks 2..3
    round 2: 4→0 keeps chunks 4..5
    """
    r, distances = np.arange(P), [2**k for k in range((P - 1).bit_length())]
    senders = [(d, r[d :: 2 * d]) for d in distances]
    rounds = [Round(r, r - d, chunk=r, count=np.minimum(d, P - r)) for d, r in senders]
    return Schedule(P, P, rounds, "tree gather")


def tree_scatter(P: int) -> Schedule:
    """For d = ..., 4, 2, 1, each odd multiple r of d gets chunks r ... r + d - 1 from r - d.

    Rank 0 hands half of what it has to the rank half-way, and both go on alike.

    Source: Chan, Heimlich, Purkayastha & van de Geijn 2007.

    >>> print(tree_scatter(4))
    tree scatter: 4 ranks, 4 chunks, 2 rounds, 3 messages
    round 0: 0→2 keeps chunks 2..3
    round 1: 0→1 keeps chunk 1, 2→3 keeps chunk 3
    """
    up = reversed(tree_gather(P).rounds)
    rounds = [Round(r.dst, r.src, r.chunk, count=r.count) for r in up]
    return Schedule(P, P, rounds, "tree scatter")


def chain_broadcast(P: int, segments: int = 1) -> Schedule:
    """In round t, rank r passes segment t - r to rank r + 1, which keeps it.

    While one segment is on its way from rank 2 to rank 3, the next is on its way from 1 to 2: with
    many segments all ranks are busy, and rank 0 sends its buffer once, however many want it.
    Raises ValueError for less than one segment.

    Source: Chan, Heimlich, Purkayastha & van de Geijn 2007.

    >>> print(chain_broadcast(3, segments=2))
    chain broadcast: 3 ranks, 2 chunks, 3 rounds, 4 messages
    round 0: 0→1 keeps chunk 0
    round 1: 0→1 keeps chunk 1, 1→2 keeps chunk 0
    round 2: 1→2 keeps chunk 1
    """
    S = _at_least_one(segments)
    busy = [np.arange(max(0, t - S + 1), min(t + 1, P - 1)) for t in range(P + S - 2)]
    rounds = [Round(r, r + 1, chunk=t - r) for t, r in enumerate(busy)]
    return Schedule(P, S, rounds, "chain broadcast")


def chain_reduce(P: int, segments: int = 1) -> Schedule:
    """The chain broadcast backwards: sums travel from the last rank to rank 0.

    >>> chain_reduce(8, segments=10)
    chain reduce: 8 ranks, 10 chunks, 16 rounds, 70 messages
    """
    return chain_broadcast(P, segments).reversed().named("chain reduce")


def chain_all_reduce(P: int, segments: int = 1) -> Schedule:
    """A chain reduction to rank 0, then a chain broadcast from it.

    With many segments a port carries 2 n bytes, nearly as few as in a ring, and the rounds may be
    as many as one likes.

    >>> len(chain_all_reduce(8, segments=10))
    32
    """
    both = chain_reduce(P, segments) >> chain_broadcast(P, segments)
    return both.named("chain all-reduce")


def scatter_all_gather_broadcast(P: int) -> Schedule:
    """A tree scatter, then a ring all-gather that spares every rank the chunks that it has already.

    After the scatter rank r has chunk r and, where r was an inner node, those of the ranks below
    it. The busiest port sends less than 2 n bytes, where a tree broadcast sends log2 P times n.

    Source: Chan, Heimlich, Purkayastha & van de Geijn 2007.

    >>> scatter_all_gather_broadcast(8)
    scatter-all-gather broadcast: 8 ranks, 8 chunks, 10 rounds, 51 messages
    >>> max(scatter_all_gather_broadcast(8).sent_bytes(800))
    1400
    """
    r = np.arange(P)
    right = (r + 1) % P
    below = np.where(right, right & -right, P)
    lacks = [(right > (r - t) % P) | ((r - t) % P >= right + below) for t in range(P - 1)]
    gather = [Round(r[s], right[s], chunk=(r - t)[s] % P) for t, s in enumerate(lacks)]
    rounds = [*tree_scatter(P).rounds, *gather]
    return Schedule(P, P, rounds, "scatter-all-gather broadcast")


def _at_least_one(segments: int) -> int:
    if segments < 1:
        raise ValueError(f"segments must be at least 1; got segments = {segments}")
    return segments
