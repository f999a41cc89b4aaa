"""Muon on sharded matrices: what Newton and Schulz compute is no sum over shards.

The iteration, and three ways to give it whole matrices on ranks that hold rows. All
three return what one process computes, cut into the same rows.
"""

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from dtlib.formulas.require import require_count
from dtlib.parallelism.operators.messages import all_gather, own_slice
from dtlib.runtime.process_group import ranks_of

QUINTIC = (3.4445, -4.7750, 2.0315)  # Jordan 2024: singular values end between 0.7 and 1.2
CUBIC = (1.5, -0.5, 0.0)  # Newton and Schulz's own: slower, and they end at 1


def newton_schulz(matrix: torch.Tensor, steps: int = 5, abc: Sequence[float] = QUINTIC):
    """The matrix with its singular values driven towards 1, by matrix products alone.

    Equation: X = M / |M|, then so often X <- (a + b XX' + c (XX')^2) X. Each step applies the
    polynomial a s + b s^3 + c s^5 to every singular value s, and turns no singular vector.
    Arguments: `matrix`, of any two sizes (a tall one is transposed first); `steps`; `abc`.
    Returns a tensor of the same shape and kind; zeros stay zeros. Raises ValueError for no step.
    Source: Jordan 2024.

    >>> newton_schulz(torch.tensor([[3.0, 0.0], [0.0, 0.5]]), steps=30, abc=CUBIC)
    tensor([[1., 0.],
            [0., 1.]])
    """
    require_count("newton_schulz", steps=steps)
    if matrix.shape[0] > matrix.shape[1]:
        return newton_schulz(matrix.mT, steps, abc).mT
    a, b, c = abc
    x = matrix / matrix.norm().clamp(min=torch.finfo(matrix.dtype).tiny)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def gathered_update(update: Callable, shards: Sequence[torch.Tensor], group) -> list[torch.Tensor]:
    """All ranks gather every matrix, update it, and keep their own rows of the result.

    Sends `sharded_sent_bytes` with one gather; every rank updates every matrix.
    Arguments: `update`, from a whole matrix to one of its shape; `shards`, this rank's rows of each
    matrix, equally many on every rank; `group`. Returns this rank's rows of the updates.
    """
    return [own_slice(update(all_gather(rows, group)), group, dim=0) for rows in shards]


def owned_update(
    update: Callable, shards: Sequence[torch.Tensor], owners: Sequence[int], group
) -> list[torch.Tensor]:
    """A matrix's rows go to its owner, who updates it and deals the rows out again.

    Sends `owner_sent_bytes`, in two collectives for each matrix; the busiest owner sets the pace.
    Arguments: as for `gathered_update`; `owners`, a rank for each matrix, as from `longest_first`.
    Returns this rank's rows of the updates. Raises ValueError for a different number of owners.
    """
    rank, P = ranks_of(group)
    wholes = []
    for rows, owner in zip(shards, owners, strict=True):
        parts = [torch.empty_like(rows) for _ in range(P)] if rank == owner else None
        root = dist.get_global_rank(group, owner)
        dist.gather(rows.contiguous(), parts, dst=root, group=group)
        wholes.append(torch.cat(parts) if parts else None)
    updates = [None if whole is None else update(whole) for whole in wholes]
    own = [torch.empty_like(rows) for rows in shards]
    for rows, new, owner in zip(own, updates, owners, strict=True):
        parts = None if new is None else [part.contiguous() for part in new.chunk(P)]
        dist.scatter(rows, parts, src=dist.get_global_rank(group, owner), group=group)
    return own


def exchanged_update(update: Callable, shards: Sequence[torch.Tensor], group) -> list[torch.Tensor]:
    """P matrices at a time: one all-to-all brings each rank a whole one, another its rows back.

    Rank j owns the matrices j, P + j, ...; while it updates one, the next ones are on their way,
    and the rows of the last. Sends `owner_sent_bytes`, in two collectives for each P matrices.
    Arguments and result as for `gathered_update`.
    """
    rank, P = ranks_of(group)
    rounds = [shards[first : first + P] for first in range(0, len(shards), P)]

    def start(dealt: Sequence[torch.Tensor]) -> _Exchange:
        mine = [dealt[rank].shape] * P if rank < len(dealt) else []
        return _Exchange(dealt, mine, group)

    coming, going = [start(dealt) for dealt in rounds[:1]], []
    for t, dealt in enumerate(rounds):
        coming += [start(following) for following in rounds[t + 1 : t + 2]]
        rows = coming[t].wait()
        new = update(torch.cat(rows)).chunk(P) if rows else [dealt[0][:0]]
        going.append(_Exchange(new, [rows.shape for rows in dealt], group))
    return [rows for exchange in going for rows in exchange.wait()]


class _Exchange:
    """Tensor j goes to rank j, if there is one, and one of each shape comes from rank 0, 1, ..."""

    def __init__(self, parts: Sequence[torch.Tensor], shapes: Sequence[torch.Size], group):
        _, P = ranks_of(group)
        self._shapes = shapes
        self._sent = torch.cat([part.reshape(-1) for part in parts])  # kept until it has left
        self._came = self._sent.new_empty(sum(shape.numel() for shape in shapes))
        sent = [part.numel() for part in parts] + [0] * (P - len(parts))
        came = [shape.numel() for shape in shapes] + [0] * (P - len(shapes))
        self._work = dist.all_to_all_single(
            self._came, self._sent, came, sent, group=group, async_op=True
        )

    def wait(self) -> list[torch.Tensor]:
        """What has come."""
        self._work.wait()
        parts = self._came.split([shape.numel() for shape in self._shapes])
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]
