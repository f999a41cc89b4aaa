"""Products and collectives in one: a piece is multiplied while the next one is on its way.

An all-gather whose result is multiplied, and a product whose result is reduce-scattered, are the
two halves of a tensor-parallel layer (chapter 15). Each is the other's transpose. Here both follow
the book's own schedules, round by round: what a round brings is multiplied during the next.
"""

from torch import Tensor

from dtlib.collectives.builders.algorithms import ring_all_gather, ring_reduce_scatter
from dtlib.collectives.on_ranks import Worker
from dtlib.collectives.transport import PointToPoint
from dtlib.formulas.require import require


def gathered_matmul(x: Tensor, w: Tensor, group=None, *, transport=None):
    """The rows of all ranks times this rank's matrix, while the rows come in.

    Equation: all_gather(x) @ w, one piece of rows for each message.
    Arguments: `x` [n, h], this rank's rows, as many on each rank; `w` [h, o]; `group`, or the
    `transport` of a rank. Returns [P n, o]. Raises ValueError for shapes that do not fit.
    Source: Wang et al. 2023.
    """
    _check_product("gathered_matmul", x, w)
    transport = transport or PointToPoint(group)
    P, rank = transport.size, transport.rank
    rows = x.detach().new_empty(P, *x.shape)
    rows[rank] = x.detach()
    product = x.new_empty(P, len(x), w.shape[1])
    worker = Worker(ring_all_gather(P), rows, transport)
    there = [rank]
    for t, (_, into) in enumerate(worker.messages.rounds):
        worker.start(t)
        for piece in there:
            product[piece] = rows[piece] @ w
        worker.finish(t)
        there = [i for message in into for i in _pieces(message.part, x.numel())]
    for piece in there:
        product[piece] = rows[piece] @ w
    return product.flatten(0, 1)


def matmul_scattered(x: Tensor, w: Tensor, group=None, *, transport=None):
    """The sum of all ranks' products, of which each rank gets its rows, while products are made.

    Equation: reduce_scatter(x @ w), one piece of rows for each message.
    Arguments: `x` [P n, h]; `w` [h, o]; `group`, or the `transport` of a rank. Returns [n, o].
    Raises ValueError for shapes that do not fit, and rows that P does not divide.
    Source: Wang et al. 2023.
    """
    _check_product("matmul_scattered", x, w)
    transport = transport or PointToPoint(group)
    P, rank = transport.size, transport.rank
    require(len(x) % P == 0, "matmul_scattered", "the rows of x", len(x), f"a multiple of {P}")
    rows = x.unflatten(0, (P, -1))
    sums = x.new_empty(P, rows.shape[1], w.shape[1])
    worker = Worker(ring_reduce_scatter(P), sums, transport)
    missing = set(range(P))

    def multiply(parts) -> None:
        for piece in (p for part in parts for p in _pieces(part, sums[0].numel())):
            if piece in missing:
                sums[piece] = rows[piece] @ w
                missing.discard(piece)

    for t, (out, into) in enumerate(worker.messages.rounds):
        multiply(message.part for message in out)
        worker.start(t)
        multiply(message.part for message in into)
        worker.finish(t)
    multiply([slice(0, sums.numel())])  # P = 1: nothing was sent
    return sums[rank]


def _pieces(part: slice, size: int) -> range:
    """Which equal pieces lie in a part of the flat tensor."""
    return range(part.start // size, part.stop // size) if size else range(0)


def _check_product(name: str, x: Tensor, w: Tensor) -> None:
    good = x.dim() == w.dim() == 2 and x.shape[1] == w.shape[0]
    shapes = f"{tuple(x.shape)} and {tuple(w.shape)}"
    require(good, name, "the shapes of x and w", shapes, "[rows, h] and [h, columns]")
