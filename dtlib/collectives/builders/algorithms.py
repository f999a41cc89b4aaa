"""The algorithms of collective communication, each as the schedule that its docstring states.

Every builder takes ``P``, the number of ranks, and returns a `Schedule`. Chunk and rank numbers are
taken modulo ``P`` where a sentence does not say otherwise. On one rank every schedule is empty.
"""

import numpy as np

from dtlib.collectives.schedule import Round, Run, Schedule


def ring_reduce_scatter(P: int) -> Schedule:
    """In round t, rank r passes chunk r - t - 1 to its right-hand neighbour, which adds it.

    After P - 1 rounds chunk c has gone around the ring from rank c + 1 to rank c, collecting every
    rank's addend: rank r owns the sum of chunk r.

    Source: Patarasuk & Yuan 2009.

    >>> print(ring_reduce_scatter(3))
    ring reduce-scatter: 3 ranks, 3 chunks, 2 rounds, 6 messages
    round 0: 0→1 adds chunk 2, 1→2 adds chunk 0, 2→0 adds chunk 1
    round 1: 0→1 adds chunk 1, 1→2 adds chunk 2, 2→0 adds chunk 0
    """
    r = np.arange(P)
    right = (r + 1) % P
    rounds = Run(P - 1, lambda t: Round(r, right, (r - t - 1) % P, reduce=True))
    return Schedule(P, P, rounds, "ring reduce-scatter")


def ring_all_gather(P: int) -> Schedule:
    """In round t, rank r passes chunk r - t to its right-hand neighbour, which keeps it.

    Source: Patarasuk & Yuan 2009.

    >>> print(ring_all_gather(3))
    ring all-gather: 3 ranks, 3 chunks, 2 rounds, 6 messages
    round 0: 0→1 keeps chunk 0, 1→2 keeps chunk 1, 2→0 keeps chunk 2
    round 1: 0→1 keeps chunk 2, 1→2 keeps chunk 0, 2→0 keeps chunk 1
    """
    r = np.arange(P)
    right = (r + 1) % P
    rounds = Run(P - 1, lambda t: Round(r, right, (r - t) % P))
    return Schedule(P, P, rounds, "ring all-gather")


def ring_all_reduce(P: int) -> Schedule:
    """A ring reduce-scatter, then a ring all-gather.

    Every rank sends 2(P - 1)/P of its buffer, which no all-reduce can better, in 2(P - 1) rounds.

    Source: Patarasuk & Yuan 2009.

    >>> ring = ring_all_reduce(4)
    >>> len(ring), ring.sent_bytes(1000)
    (6, [1500, 1500, 1500, 1500])
    """
    return (ring_reduce_scatter(P) >> ring_all_gather(P)).named("ring all-reduce")


def tree_reduce(P: int) -> Schedule:
    """For d = 1, 2, 4, ..., each odd multiple r of d passes its buffer to r - d, which adds it.

    The ranks form a binomial tree with root 0.

    Source: Thakur, Rabenseifner & Gropp 2005.

    >>> print(tree_reduce(6))
    tree reduce: 6 ranks, 1 chunk, 3 rounds, 5 messages
    round 0: 1→0 adds chunk 0, 3→2 adds chunk 0, 5→4 adds chunk 0
    round 1: 2→0 adds chunk 0
    round 2: 4→0 adds chunk 0
    """
    distances = [2**k for k in range((P - 1).bit_length())]
    r = np.arange(P)
    rounds = [Round(r[d :: 2 * d], r[d :: 2 * d] - d, chunk=0, reduce=True) for d in distances]
    return Schedule(P, 1, rounds, "tree reduce")


def tree_broadcast(P: int) -> Schedule:
    """A tree reduction backwards: rank 0 hands its buffer down the tree.

    >>> print(tree_broadcast(4))
    tree broadcast: 4 ranks, 1 chunk, 2 rounds, 3 messages
    round 0: 0→2 keeps chunk 0
    round 1: 0→1 keeps chunk 0, 2→3 keeps chunk 0
    """
    return tree_reduce(P).reversed().named("tree broadcast")


def tree_all_reduce(P: int) -> Schedule:
    """A tree reduction to rank 0, then a tree broadcast from it.

    >>> tree_all_reduce(6)
    tree all-reduce: 6 ranks, 1 chunk, 6 rounds, 10 messages
    """
    return (tree_reduce(P) >> tree_broadcast(P)).named("tree all-reduce")


def flat_reduce(P: int) -> Schedule:
    """Every other rank passes its buffer to rank 0, which adds them all.

    >>> print(flat_reduce(3))
    flat reduce: 3 ranks, 1 chunk, 1 round, 2 messages
    round 0: 1→0 adds chunk 0, 2→0 adds chunk 0
    """
    return Schedule(P, 1, [Round(np.arange(1, P), 0, chunk=0, reduce=True)], "flat reduce")


def flat_all_reduce(P: int) -> Schedule:
    """All buffers go to rank 0, and the sum goes back from there.

    Rank 0 moves P - 1 times what any other rank does: the plain way, and the one to beat.

    >>> flat_all_reduce(4).sent_bytes(1000)
    [3000, 1000, 1000, 1000]
    """
    return (flat_reduce(P) >> flat_reduce(P).reversed()).named("flat all-reduce")


def recursive_doubling_all_reduce(P: int) -> Schedule:
    """For d = 1, 2, 4, ..., P / 2, each rank r and its partner r XOR d add each other's buffers.

    After each round a sum covers twice as many ranks: log2 P rounds, which no all-reduce can
    better. Raises ValueError unless P is a power of two.

    Source: Thakur, Rabenseifner & Gropp 2005.

    >>> print(recursive_doubling_all_reduce(4))
    recursive doubling all-reduce: 4 ranks, 1 chunk, 2 rounds, 8 messages
    round 0: 0→1 adds chunk 0, 1→0 adds chunk 0, 2→3 adds chunk 0, 3→2 adds chunk 0
    round 1: 0→2 adds chunk 0, 1→3 adds chunk 0, 2→0 adds chunk 0, 3→1 adds chunk 0
    """
    r = np.arange(P)
    rounds = [Round(r, r ^ d, chunk=0, reduce=True) for d in _doubling_distances(P)]
    return Schedule(P, 1, rounds, "recursive doubling all-reduce")


def halving_doubling_reduce_scatter(P: int) -> Schedule:
    """For d = P / 2, ..., 2, 1, each rank r passes d chunks to partner r XOR d, which adds them.

    They are the aligned block of d chunks in which the partner's own chunk lies. Each exchange
    halves what a rank is still responsible for, until its own chunk is left. Raises ValueError
    unless P is a power of two.

    Source: Rabenseifner 2004.

    >>> print(halving_doubling_reduce_scatter(4))
    halving-doubling reduce-scatter: 4 ranks, 4 chunks, 2 rounds, 8 messages
    round 0: 0→2 adds chunks 2..3, 1→3 adds chunks 2..3, 2→0 adds chunks 0..1, 3→1 adds chunks 0..1
    round 1: 0→1 adds chunk 1, 1→0 adds chunk 0, 2→3 adds chunk 3, 3→2 adds chunk 2
    """
    r = np.arange(P)
    distances = reversed(_doubling_distances(P))
    rounds = [Round(r, r ^ d, (r ^ d) // d * d, reduce=True, count=d) for d in distances]
    return Schedule(P, P, rounds, "halving-doubling reduce-scatter")


def halving_doubling_all_gather(P: int) -> Schedule:
    """The halving-doubling reduce-scatter backwards: partners exchange all the chunks they hold.

    >>> len(halving_doubling_all_gather(8))
    3
    """
    backwards = halving_doubling_reduce_scatter(P).reversed()
    return backwards.named("halving-doubling all-gather")


def halving_doubling_all_reduce(P: int) -> Schedule:
    """A halving-doubling reduce-scatter, then its all-gather.

    As few bytes as the ring, 2(P - 1)/P of the buffer per rank, in only 2 log2 P rounds. Raises
    ValueError unless P is a power of two.

    Source: Rabenseifner 2004.

    >>> schedule = halving_doubling_all_reduce(8)
    >>> len(schedule), schedule.sent_bytes(800)[0]
    (6, 1400)
    >>> halving_doubling_all_reduce(6)
    Traceback (most recent call last):
      ...
    ValueError: P must be a power of two; got P = 6. Fold first: 2 ranks hand their buffers to ...
    """
    both = halving_doubling_reduce_scatter(P) >> halving_doubling_all_gather(P)
    return both.named("halving-doubling all-reduce")


def _doubling_distances(P: int) -> list[int]:
    """1, 2, 4, ..., P / 2."""
    if P & (P - 1):
        core = 2 ** (P.bit_length() - 1)
        raise ValueError(
            f"P must be a power of two; got P = {P}. Fold first: {P - core} ranks hand their "
            f"buffers to partners, {core} ranks run it, and the partners hand the result back"
        )
    return [2**k for k in range(P.bit_length() - 1)]


def pairwise_all_to_all(P: int) -> Schedule:
    """In round t, each rank r passes to rank r + t + 1 the block that it has for that rank.

    Chunk i P + j is the block that rank i has for rank j. Rank r starts with its row of the P x P
    blocks and ends with its column; a rank's n bytes are cut into P blocks. Other rows and columns
    are never touched.

    Source: Thakur, Rabenseifner & Gropp 2005.

    >>> print(pairwise_all_to_all(3))
    pairwise all-to-all: 3 ranks, 9 chunks, 2 rounds, 6 messages
    round 0: 0→1 keeps chunk 1, 1→2 keeps chunk 5, 2→0 keeps chunk 6
    round 1: 0→2 keeps chunk 2, 1→0 keeps chunk 3, 2→1 keeps chunk 7
    """
    r = np.arange(P)
    rounds = [Round(r, (r + t + 1) % P, r * P + (r + t + 1) % P) for t in range(P - 1)]
    return Schedule(P, P * P, rounds, "pairwise all-to-all", parts=P)
