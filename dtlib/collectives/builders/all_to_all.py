"""All-to-all in few rounds, and messages that carry several chunks at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dtlib.collectives.schedule import Round, Schedule


def bruck_all_to_all(P: int) -> Schedule:
    """For d = 1, 2, 4, ..., each rank r passes to r + d the blocks whose way still to go has a d.

    A block from rank i to rank j has j - i (modulo P) ranks to go, which is a sum of powers of two:
    it travels them one by one. So ceil(log2 P) rounds do, for about half of the buffer in each.
    The blocks of a message do not lie side by side: each is a `Send`, and `Packed` counts those
    between two ranks as one message. Chunk i P + j is the block from rank i to rank j.

    Source: Bruck, Ho, Kipnis, Upfal & Weathersby 1997.

    >>> print(bruck_all_to_all(3))
    Bruck all-to-all: 3 ranks, 9 chunks, 2 rounds, 6 messages
    round 0: 0→1 keeps chunk 1, 1→2 keeps chunk 5, 2→0 keeps chunk 6
    round 1: 0→2 keeps chunk 2, 1→0 keeps chunk 3, 2→1 keeps chunk 7
    """
    r, way = np.arange(P)[:, None], np.arange(P)
    rounds = []
    for d in (2**k for k in range((P - 1).bit_length())):
        left = way[way & d > 0]
        source = (r - left % d) % P
        blocks = source * P + (source + left) % P
        there = np.broadcast_to(r, blocks.shape)
        rounds.append(Round(there.ravel(), (there.ravel() + d) % P, blocks.ravel()))
    return Schedule(P, P * P, rounds, "Bruck all-to-all", parts=P)


def two_level_all_to_all(nodes: int, ranks_per_node: int) -> Schedule:
    """First each rank passes to rank j of its node what is for the ranks j of all nodes; then on.

    In a node's round t, rank i passes to its neighbour j = i + t the blocks for every rank j;
    afterwards, in round t, rank j of node a passes to rank j of node a + t all blocks of its node
    for it. G - 1 cheap rounds and N - 1 expensive ones take the place of P - 1. As in
    `bruck_all_to_all`, blocks that travel together are a message of their own each: see `Packed`.

    >>> print(two_level_all_to_all(2, 2))
    two-level all-to-all: 4 ranks, 16 chunks, 2 rounds, 16 messages
    round 0: 0→1 keeps chunk 1, 0→1 keeps chunk 3, 1→0 keeps chunk 4, 1→0 keeps chunk 6, 2→3 keeps
      chunk 9, 2→3 keeps chunk 11, 3→2 keeps chunk 12, 3→2 keeps chunk 14
    round 1: 0→2 keeps chunk 2, 0→2 keeps chunk 6, 1→3 keeps chunk 3, 1→3 keeps chunk 7, 2→0 keeps
      chunk 8, 2→0 keeps chunk 12, 3→1 keeps chunk 9, 3→1 keeps chunk 13
    """
    N, G = nodes, ranks_per_node
    if min(N, G) < 1:
        raise ValueError(f"nodes and ranks_per_node must be at least 1; got {N} and {G}")
    node, rank, other = (axis.ravel() for axis in np.indices((N, G, N)))
    inside = [
        Round(
            src := node * G + rank,
            node * G + (to := (rank + t) % G),
            src * N * G + other * G + to,
        )
        for t in range(1, G)
    ]
    node, rank, origin = (axis.ravel() for axis in np.indices((N, G, G)))
    across = [
        Round(
            node * G + rank,
            dst := (node + t) % N * G + rank,
            (node * G + origin) * N * G + dst,
        )
        for t in range(1, N)
    ]
    return Schedule(N * G, (N * G) ** 2, inside + across, "two-level all-to-all", parts=N * G)


def packed(round: Round) -> Round:
    """The traffic of a round if all chunks from one rank to another travel as one message.

    Who sends how much to whom is right; which chunks these are is not said.

    >>> traffic = packed(Round(0, [1, 1, 2], chunk=[7, 3, 5]))
    >>> traffic.dst.tolist(), traffic.count.tolist()
    ([1, 2], [2, 1])
    """
    pairs, which = np.unique(np.stack([round.src, round.dst]), axis=1, return_inverse=True)
    count = np.bincount(which.ravel(), round.count).astype(int)
    return Round(pairs[0], pairs[1], chunk=0, count=count)


def packed_messages(schedule: Schedule) -> int:
    """How many messages there are if all chunks from one rank to another make one message a round.

    >>> bruck_all_to_all(8).messages(), packed_messages(bruck_all_to_all(8))
    (96, 24)
    """
    return sum(len(packed(round)) for round in schedule)


@dataclass(frozen=True)
class Packed:
    """A topology on which all chunks from one rank to another in one round make one message.

    Copying them together takes no time.

    >>> from dtlib.collectives import Switch, schedule_time
    >>> switch = Switch(8, alpha=1, beta=1000)
    >>> schedule_time(bruck_all_to_all(8), 8000, switch)
    24.0
    >>> schedule_time(bruck_all_to_all(8), 8000, Packed(switch))
    15.0
    """

    topology: Any

    @property
    def P(self) -> int:
        return self.topology.P

    def round_time(self, round: Round, chunk_bytes):
        return self.topology.round_time(packed(round), chunk_bytes)
