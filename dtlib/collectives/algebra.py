"""The algebra of collectives: primitives as matrices, schedules as linear maps, and adjoints.

A primitive is linear in what the ranks hold, so it is a matrix; of zeros and ones, because it adds
up and copies. Two primitives follow one another where the first leaves what the second starts from.
Reversal swaps before and after: sums become copies, the matrix its transpose. Few of them have an
inverse: a category with adjoints, not a group.
"""

import numpy as np

from dtlib.collectives.on_ranks import emulate
from dtlib.collectives.primitives import Primitive
from dtlib.collectives.schedule import Round, Schedule

POISON = 2**40  # what lies in memory that holds nothing of use


def as_matrix(primitive: Primitive, P: int, chunks: int | None = None) -> np.ndarray:
    """The matrix of a primitive: a row for each chunk wanted, a column for each chunk held.

    Equation: 1 where both are the same chunk, else 0. Rows and columns run through the ranks, and
    within a rank through its chunks. Arguments: ``P`` ranks; ``chunks`` of a whole buffer (None: as
    few as the primitive takes). Returns an array of ints. Raises ValueError for a number of chunks
    that the primitive cannot have.

    >>> from dtlib.collectives import PRIMITIVES
    >>> as_matrix(PRIMITIVES["reduce-scatter"], P=2)
    array([[1, 0, 1, 0],
           [0, 1, 0, 1]])
    >>> as_matrix(PRIMITIVES["all-gather"], P=2).T.tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]]
    True
    """
    chunks = chunks or primitive.cells(P)
    _, held = np.nonzero(primitive.before.table(P, chunks))
    _, wanted = np.nonzero(primitive.after.table(P, chunks))
    return (wanted[:, None] == held).astype(int)


def applied(schedule: Schedule, primitive: Primitive, x) -> np.ndarray:
    """What the ranks hold after a schedule, of what the primitive promises; 0 where it is silent.

    Arguments: ``x``, numbers of shape ranks x chunks (or ranks x chunks x more); those that the
    primitive does not start from do not count: the schedule finds rubbish in their place.
    Returns an array of the shape of ``x``.

    >>> from dtlib.collectives import PRIMITIVES, tree_reduce
    >>> applied(tree_reduce(3), PRIMITIVES["reduce"], [[1], [10], [100]]).tolist()
    [[111], [0], [0]]
    """
    x = np.asarray(x)
    cells = schedule.P, schedule.chunks, -1
    held, wanted = (
        at.table(schedule.P, schedule.chunks)[:, :, None]
        for at in (primitive.before, primitive.after)
    )
    memory = np.where(held, x.reshape(cells), POISON)
    after = np.array(emulate(schedule, list(memory)))
    return np.where(wanted, after, 0).reshape(x.shape)


def schedule_matrix(schedule: Schedule, primitive: Primitive) -> np.ndarray:
    """The matrix of what a schedule computes, one unit vector at a time; rows and columns as above.

    >>> from dtlib.collectives import PRIMITIVES, ring_all_reduce
    >>> ours = schedule_matrix(ring_all_reduce(4), PRIMITIVES["all-reduce"])
    >>> np.array_equal(ours, as_matrix(PRIMITIVES["all-reduce"], P=4, chunks=4))
    True
    """
    cells = schedule.P, schedule.chunks
    held = np.nonzero(primitive.before.table(*cells))
    units = np.zeros((*cells, len(held[0])), dtype=int)
    units[(*held, np.arange(len(held[0])))] = 1
    return applied(schedule, primitive, units)[primitive.after.table(*cells)]


def adjoint_schedule(schedule: Schedule, primitive: Primitive) -> Schedule:
    """A schedule for the adjoint of a primitive: the same messages backwards.

    Forwards a message lets ``dst`` use what ``src`` has; so backwards ``src`` takes up what ``dst``
    got for it. It adds that if its own copy was still used after the message, else it keeps it.
    This is ``schedule.reversed()`` where whoever hands on a partial sum is done with it, as in a
    ring or a tree. In recursive doubling nobody is: there the sums flow back as sums.

    >>> from dtlib.collectives import PRIMITIVES, check_gather, tree_scatter
    >>> check_gather(adjoint_schedule(tree_scatter(6), PRIMITIVES["scatter"]))
    """
    used = primitive.after.table(schedule.P, schedule.chunks).copy()
    rounds = []
    for round in reversed(schedule.rounds):
        src, dst, chunk, adds = round.one_chunk_each()
        again = np.array([used[send.src, send.chunk] for send in round])
        if len(chunk) > len(round) and (np.repeat(again, round.count) != used[src, chunk]).any():
            round, again = Round(src, dst, chunk, adds), used[src, chunk]
        rounds.append(Round(round.dst, round.src, round.chunk, again, round.count))
        used[dst[~adds], chunk[~adds]] = False
        used[src, chunk] = True
    adjoint = Schedule(schedule.P, schedule.chunks, rounds, parts=schedule.parts)
    return adjoint.named(f"{schedule.name} backwards")


def inner_products(schedule: Schedule, primitive: Primitive, x, y) -> tuple[int, int]:
    """<Ax, y> and <x, A'y>, exactly: A the schedule, A' its messages backwards, both run.

    Two maps are adjoint if and only if both numbers are equal for all x and y. Arguments: ``x`` and
    ``y``, whole numbers of shape ranks x chunks. Returns both inner products, over the chunks that
    are wanted and over those that are held.

    >>> from dtlib.collectives import PRIMITIVES, tree_broadcast
    >>> inner_products(tree_broadcast(3), PRIMITIVES["broadcast"], [[5], [0], [0]], [[1], [2], [3]])
    (30, 30)
    """
    back = adjoint_schedule(schedule, primitive)
    forwards = applied(schedule, primitive, x) * np.asarray(y)
    backwards = np.asarray(x) * applied(back, primitive.adjoint(), y)
    return int(forwards.sum()), int(backwards.sum())
