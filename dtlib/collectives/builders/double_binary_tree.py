"""The double binary tree: the bandwidth of a ring in a number of rounds that grows as log P.

A single tree wastes half of its ports: a leaf never receives on the way up, and the root never
sends. Two trees, in which no rank is an inner node twice, use all of them.
"""

from collections import defaultdict
from typing import NamedTuple

from dtlib.collectives.schedule import Schedule, Send


def double_binary_tree_reduce(P: int, segments: int = 1) -> Schedule:
    """Two binary trees each add up one half of the buffer, segment after segment.

    A rank that adds in one tree is a leaf of the other, and the edges of both trees take turns, so
    that in every round a rank sends at most one message and receives at most one. The ``segments``
    of a half follow one another at a distance of two rounds. The sums end at the two roots: rank
    2^k - 1, with 2^k the largest power of two up to P, and the rank below it (modulo P).

    Source: Sanders, Speck & Träff 2009.

    >>> print(double_binary_tree_reduce(3, segments=2))
    double binary tree reduce: 3 ranks, 4 chunks, 4 rounds, 8 messages
    round 0: 0→1 adds chunk 0, 2→0 adds chunk 2
    round 1: 2→1 adds chunk 0, 1→0 adds chunk 2
    round 2: 0→1 adds chunk 1, 2→0 adds chunk 3
    round 3: 2→1 adds chunk 1, 1→0 adds chunk 3
    """
    if segments < 1:
        raise ValueError(f"segments must be at least 1; got segments = {segments}")
    rounds = defaultdict(list)
    for edge, first in _first_rounds(_two_trees(P)).items():
        for s in range(segments):
            chunk = edge.tree * segments + s
            rounds[first + 2 * s].append(Send(edge.child, edge.parent, chunk, reduce=True))
    in_order = [rounds[t] for t in sorted(rounds)]
    return Schedule(P, 2 * segments, in_order, "double binary tree reduce")


def double_binary_tree_all_reduce(P: int, segments: int = 1) -> Schedule:
    """A double binary tree reduction, then the same backwards: the two roots hand the sums down.

    With many segments it approaches the ring's bandwidth in a number of rounds that grows only as
    log P: at most 4 floor(log2 P) + 4 (segments - 1).

    Source: Sanders, Speck & Träff 2009.

    >>> double_binary_tree_all_reduce(16, segments=4)
    double binary tree all-reduce: 16 ranks, 8 chunks, 28 rounds, 240 messages
    """
    up = double_binary_tree_reduce(P, segments)
    return (up >> up.reversed()).named("double binary tree all-reduce")


class _Edge(NamedTuple):
    tree: int
    child: int
    parent: int


def _two_trees(P: int) -> list[_Edge]:
    """The edges of both trees, children before their parents.

    Number the nodes of a binary tree from left to right, 1 ... P: odd numbers are leaves. Rank r is
    number r + 1 of the first tree and number r + 2 of the second, so it is a leaf in one of them.
    """
    upwards = sorted(range(1, P + 1), key=lambda number: number & -number)
    links = [(number, _parent(number, P)) for number in upwards if _parent(number, P)]
    return [
        _Edge(tree, (child - 1 - tree) % P, (parent - 1 - tree) % P)
        for tree in (0, 1)
        for child, parent in links
    ]


def _parent(number: int, P: int) -> int:
    """The parent of a node in the tree over 1 ... P numbered from left to right; 0 for the root."""
    bit = number & -number
    above = (number - bit) | (2 * bit)
    return above if above <= P else number - bit


def _first_rounds(edges: list[_Edge]) -> dict[_Edge, int]:
    """The round of each edge's first segment: on its turn, once the child has its children's."""
    turns, ready, first = _turns(edges), defaultdict(int), {}
    for edge in edges:
        soonest = ready[edge.tree, edge.child]
        first[edge] = soonest + (soonest + turns[edge]) % 2
        above = edge.tree, edge.parent
        ready[above] = max(ready[above], first[edge] + 1)
    return first


def _turns(edges: list[_Edge]) -> dict[_Edge, int]:
    """Even or odd rounds for every edge, so that no rank sends, or receives, on two edges at once.

    A rank sends on at most two edges (to its parents) and receives on at most two (from its
    children in one tree). So the clashes form paths and cycles of even length: two turns suffice.
    """
    sharing = defaultdict(list)
    for edge in edges:
        sharing["sends", edge.child].append(edge)
        sharing["receives", edge.parent].append(edge)
    turns: dict[_Edge, int] = {}
    for start in edges:
        pending = [(start, 0)]
        while pending:
            edge, turn = pending.pop()
            if edge not in turns:
                turns[edge] = turn
                clashes = sharing["sends", edge.child] + sharing["receives", edge.parent]
                pending += [(clash, 1 - turn) for clash in clashes]
    return turns
