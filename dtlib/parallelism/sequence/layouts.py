"""Which rank holds which tokens of a sequence, and what causality makes of it.

The nouns:

- **Layout**: a table with one row for each rank, the global positions of its tokens in the order in
  which it holds them. A layout is a permutation of the sequence, dealt out in equal hands.
- **Block**: the scores of one rank's queries with the keys of one rank, square.
- **Step**: a turn of the ring. In step t rank r meets the keys of rank r - t, so a step is P
  blocks, one on each rank, and it lasts as long as the largest.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np


def contiguous(seq: int, P: int) -> np.ndarray:
    """Rank r holds the r-th piece of the sequence.

    Arguments: `seq` tokens of the sequence, `P` ranks. Returns positions, ranks x tokens.
    Raises ValueError when `P` does not divide `seq`.

    >>> contiguous(8, 2).tolist()
    [[0, 1, 2, 3], [4, 5, 6, 7]]
    """
    return _positions(seq, P, P, "contiguous").reshape(P, -1)


def zigzag(seq: int, P: int) -> np.ndarray:
    """Cut into 2P pieces; rank r holds piece r and its mirror image, piece 2P - 1 - r.

    Arguments: `seq` tokens of the sequence, `P` ranks. Returns positions, ranks x tokens.
    Raises ValueError when 2P does not divide `seq`.

    >>> zigzag(8, 2).tolist()
    [[0, 1, 6, 7], [2, 3, 4, 5]]
    """
    pieces = _positions(seq, P, 2 * P, "zigzag").reshape(2 * P, -1)
    return np.concatenate([pieces[:P], pieces[: P - 1 : -1]], axis=1)


def striped(seq: int, P: int) -> np.ndarray:
    """Deal the tokens like cards: rank r holds the tokens r, r + P, r + 2P and so on.

    Arguments: `seq` tokens of the sequence, `P` ranks. Returns positions, ranks x tokens.
    Raises ValueError when `P` does not divide `seq`. Source: Brandon et al. 2023.

    >>> striped(8, 2).tolist()
    [[0, 2, 4, 6], [1, 3, 5, 7]]
    """
    return _positions(seq, P, P, "striped").reshape(-1, P).T.copy()


def causal_work(
    layout: Callable | Sequence, P: int, tokens: int = 8, causal: bool = True
) -> list[list[Fraction]]:
    """How much of its block each rank computes in each step of the ring.

    A pair of a query and a key counts when the key stands before the query; a token with itself
    counts half, so that a triangle is exactly half of its block.

    Arguments: `layout`, a function of (seq, P) or a table of positions; `P` ranks; `tokens` of one
    rank, when the layout is a function; `causal`, whether there is a mask at all.
    Returns a list of steps, each a list over the ranks of shares of a whole block, from 0 to 1.
    Raises ValueError for a table of other ranks.

    >>> for step in causal_work(contiguous, 3):
    ...     print([str(share) for share in step])
    ['1/2', '1/2', '1/2']
    ['0', '1', '1']
    ['0', '0', '1']
    >>> {share for step in causal_work(zigzag, 3) for share in step}
    {Fraction(1, 2)}
    """
    table = layout(tokens * P, P) if callable(layout) else np.asarray(layout)
    if table.ndim != 2 or len(table) != P:
        raise ValueError(f"layout: a row of positions for each of {P} ranks; got {table.shape}")

    def share(queries, keys):
        if not causal:
            return Fraction(1)
        order = np.sort(keys)
        before = np.searchsorted(order, queries, "left").sum()
        not_after = np.searchsorted(order, queries, "right").sum()
        return Fraction(int(before + not_after), 2 * len(queries) * len(keys))

    return [[share(table[r], table[(r - t) % P]) for r in range(P)] for t in range(P)]


def critical_path(work: Sequence[Sequence[Fraction]]) -> Fraction:
    """How long the steps take together when all ranks wait for the largest block of each step.

    Arguments: `work`, steps x ranks, in blocks. Returns a time in blocks. Raises nothing.

    >>> [str(critical_path(causal_work(layout, 8))) for layout in (contiguous, zigzag)]
    ['15/2', '4']
    """
    return sum((max(step) for step in work), Fraction(0))


def _positions(seq: int, P: int, pieces: int, name: str) -> np.ndarray:
    if P < 1 or seq < 1 or seq % pieces:
        what = "P" if pieces == P else "2P"
        raise ValueError(
            f"{name} layout: seq must be a multiple of {what} = {pieces}; got seq = {seq}, P = {P}"
        )
    return np.arange(seq)
