"""Parts of a flat tensor with padding, cut anew; a survivor's steps; and the slips in both."""

from functools import partial

from dtlib.exercises.judges import shares
from dtlib.later import torch

pieces = partial(shares.pieces, own=True)


def length(n, P):
    return -(-n // P)


def reshard(read, n, P, Q, q, *, cut=pieces, fill=True):
    found = [read(p, start, stop) for p, start, stop in cut(n, P, Q)[q]]
    missing = length(n, Q) - sum(map(len, found))
    if not found:
        return torch.zeros(missing, dtype=torch.float64)
    return torch.cat([*found, found[0].new_zeros(missing if fill else 0)])


def with_padding(n, P, Q):
    """Reads each new part as if it were full."""
    L, M = length(n, P), length(n, Q)
    meets = [[(p, max(q * M, p * L), min((q + 1) * M, (p + 1) * L)) for p in range(P)]
             for q in range(Q)]  # fmt: skip
    return [[(p, a - p * L, b - p * L) for p, a, b in row if a < b] for row in meets]


def rounded_down(n, P, Q):
    """Parts as long as whole division says."""
    return pieces(n // Q * Q, P, Q)


def one_by_one(n, P, Q):
    return [[(p, i, i + 1) for p, a, b in row for i in range(a, b)] for row in pieces(n, P, Q)]


def with_nothing(n, P, Q):
    """A piece of every old part, empty or not."""
    return [
        [next((piece for piece in row if piece[0] == p), (p, 0, 0)) for p in range(P)]
        for row in pieces(n, P, Q)
    ]


def backwards(n, P, Q):
    return [row[::-1] for row in pieces(n, P, Q)]


def reading_all(read, n, P, Q, q):
    """Reads everything, everywhere, and cuts its own part out of it."""
    everything = [read(p, a, b) for row in pieces(n, P, 1) for p, a, b in row]
    whole = torch.cat([*everything, everything[0].new_zeros(-n % Q)])
    return whole.chunk(Q)[q] if n else whole


def filling_inside(read, n, P, Q, q):
    """Fills up at the front."""
    right = reshard(read, n, P, Q, q)
    held = min((q + 1) * length(n, Q), n) - min(q * length(n, Q), n)
    return torch.cat([right[held:], right[:held]])


def share(batch, size, rank):
    start = rank * batch // size
    return range(start, (rank + 1) * batch // size)


def by_rows(rows, batch, size):
    return len(rows) / batch


def survivor(
    comm, read, n, P, gradient, batch, steps,
    *, weight=by_rows, rows_of=share, momenta=True, each=reshard, skips=True,
):  # fmt: skip
    def load(what):
        return each(lambda *place: read(what, *place), n, P, comm.size, comm.rank)

    w = load("weights")
    m = load("momentum") if momenta else torch.zeros_like(w)
    rows = rows_of(batch, comm.size, comm.rank)
    for _ in range(steps):
        whole = comm.all_gather(w)
        g = whole.new_zeros(len(whole))
        if len(rows) or not skips:
            g[:n] = weight(rows, batch, comm.size) * gradient(whole[:n], rows)
        m = 0.9 * m + comm.reduce_scatter(g)
        w = w - 0.1 * m
    return w


def all_but_the_rest(batch, size, rank):
    """As many for each: what does not divide is dropped."""
    own = batch // size
    return range(rank * own, (rank + 1) * own)


def rest_to_the_last(batch, size, rank):
    own = batch // size
    return range(rank * own, batch if rank == size - 1 else (rank + 1) * own)


def everything(batch, size, rank):
    return range(batch)
