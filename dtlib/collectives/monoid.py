"""Any operation in the place of the sum: what associative, commutative and elementwise each buy.

The nouns:

- **Buffer**: what a rank holds, an array whose first axis is cut into chunks.
- **Monoid**: an associative operation on buffers with an identity. Associative: partial results may
  be combined in groups, so ranks may work at the same time. Identity: who has nothing to add may
  take part. Commutative: they may also be combined in any order, as around a ring. Elementwise:
  a chunk of the result needs that chunk of the operands only, so buffers may be cut.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise, product
from typing import Any

import numpy as np

from dtlib.collectives.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Monoid:
    """An associative operation on buffers, and which other laws it keeps.

    Arguments: ``op``, a function of two buffers; ``identity``, what it leaves alone, for one entry
    of a buffer; ``commutative`` and ``elementwise``, what it claims to be (`laws` tries it).

    >>> numbers = [np.array([1, 5]), np.array([4, 2])]
    >>> MAXIMUM.total(numbers).tolist(), LARGEST.total(numbers).tolist()
    ([4, 5], [5, 4])
    """

    name: str
    op: Callable[[np.ndarray, np.ndarray], np.ndarray]
    identity: Any
    commutative: bool = True
    elementwise: bool = True

    def total(self, buffers: Sequence) -> np.ndarray:
        """All buffers combined in the order of the ranks."""
        return reduce(self.op, buffers)

    def nothing(self, like: np.ndarray) -> np.ndarray:
        """The identity as a buffer of the same shape."""
        return np.broadcast_to(self.identity, like.shape)

    def __str__(self) -> str:
        return self.name


def _largest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sort(np.concatenate([a, b]))[::-1][: len(a)]


SUM = Monoid("sum", np.add, 0)
MAXIMUM = Monoid("maximum", np.maximum, -np.inf)
LARGEST = Monoid("the largest numbers of both", _largest, -np.inf, elementwise=False)


def matrix_product(modulus: int = 7, rows: int = 2) -> Monoid:
    """The product of ``rows`` x ``rows`` matrices modulo ``modulus``, entry by entry of a buffer.

    Associative and elementwise, for a buffer is a row of matrices; not commutative.

    >>> flip, shift = np.array([[[0, 1], [1, 0]]]), np.array([[[1, 1], [0, 1]]])
    >>> matrix_product().op(flip, shift).tolist(), matrix_product().op(shift, flip).tolist()
    ([[[0, 1], [1, 1]]], [[[1, 1], [1, 0]]])
    """
    identity = np.eye(rows, dtype=int)
    name = f"product of {rows} x {rows} matrices modulo {modulus}"
    return Monoid(name, lambda a, b: a @ b % modulus, identity, commutative=False)


def laws(monoid: Monoid, buffers: Sequence) -> dict[str, bool]:
    """Which laws an operation keeps on these buffers: every pair and every triple is tried.

    Returns a dict: "associative", "identity", "commutative", "elementwise". False is a proof, true
    is only as good as the buffers.

    >>> tenths = [np.array([0.1, 0.2]), np.array([0.2, 0.3]), np.array([0.3, 0.1])]
    >>> laws(SUM, tenths)["associative"]
    False
    """
    op, same = monoid.op, np.array_equal
    cuts = [slice(0, 1), slice(1, None)]
    return {
        "associative": all(
            same(op(op(a, b), c), op(a, op(b, c))) for a, b, c in product(buffers, repeat=3)
        ),
        "identity": all(
            same(op(monoid.nothing(a), a), a) and same(op(a, monoid.nothing(a)), a) for a in buffers
        ),
        "commutative": all(same(op(a, b), op(b, a)) for a, b in product(buffers, repeat=2)),
        "elementwise": all(
            same(op(a, b)[cut], op(a[cut], b[cut]))
            for a, b in product(buffers, repeat=2)
            for cut in cuts
        ),
    }


SIDES = ("right", "left", "by rank")


def emulate_with(
    monoid: Monoid, schedule: Schedule, buffers: Sequence, arriving: str = "right"
) -> list:
    """Run every rank of a schedule in this process, combining by a monoid instead of adding.

    Arguments: ``buffers``, one for each rank, whose first axis is cut into the chunks;
    ``arriving``, the side on which a rank puts what arrives: "right" of its own, as `execute` adds,
    "left" of it, or "by rank", so that what comes from a lower rank stands left. Returns what each
    rank holds afterwards. Raises ValueError for another side or number of buffers.

    >>> word = Monoid("concatenation", np.char.add, "", commutative=False)
    >>> letters = [np.array([x, x, x]) for x in "abc"]
    >>> from dtlib.collectives import ring_all_reduce, tree_all_reduce
    >>> print(emulate_with(word, tree_all_reduce(3), letters)[0])
    ['abc' 'abc' 'abc']
    >>> for side in SIDES:
    ...     print(emulate_with(word, ring_all_reduce(3), letters, side)[0])
    ['acb' 'bac' 'cba']
    ['bca' 'cab' 'abc']
    ['abc' 'acb' 'abc']
    """
    if arriving not in SIDES:
        raise ValueError(f"arriving must be one of {', '.join(SIDES)}; got {arriving!r}")
    if len(buffers) != schedule.P:
        raise ValueError(f"{schedule.name} is for P = {schedule.P} ranks; got {len(buffers)}")
    numel = len(buffers[0])
    cuts = [numel * chunk // schedule.chunks for chunk in range(schedule.chunks + 1)]
    held = [[buffer[start:stop] for start, stop in pairwise(cuts)] for buffer in buffers]
    for round in schedule:
        messages = sorted(zip(*round.one_chunk_each(), strict=True))
        sent = [held[src][chunk] for src, _, chunk, _ in messages]
        for (src, dst, chunk, adds), theirs in zip(messages, sent, strict=True):
            ours = held[dst][chunk]
            left = arriving == "left" or (arriving == "by rank" and src < dst)
            both = (theirs, ours) if left else (ours, theirs)
            held[dst][chunk] = monoid.op(*both) if adds else theirs
    return [np.concatenate(chunks) for chunks in held]


def right_chunks(
    monoid: Monoid, schedule: Schedule, buffers: Sequence, arriving: str = "right"
) -> list[bool]:
    """For each chunk of an all-reduce, whether every rank has the total in the order of the ranks.

    Arguments and errors as for `emulate_with`.

    >>> from dtlib.collectives import ring_all_reduce, tree_all_reduce
    >>> numbers = np.random.default_rng(0).integers(7, size=(4, 4, 2, 2))
    >>> for schedule in (ring_all_reduce(4), tree_all_reduce(4).cut(4)):
    ...     print(schedule.name, right_chunks(matrix_product(), schedule, numbers, "left"))
    ring all-reduce [False, False, False, True]
    tree all-reduce [False, False, False, False]
    """
    results = emulate_with(monoid, schedule, buffers, arriving)
    total = monoid.total(buffers)
    cuts = [len(total) * chunk // schedule.chunks for chunk in range(schedule.chunks + 1)]
    return [
        all(np.array_equal(result[start:stop], total[start:stop]) for result in results)
        for start, stop in pairwise(cuts)
    ]
