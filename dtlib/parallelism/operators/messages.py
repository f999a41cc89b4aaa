"""What the operators of `adjoint` send: tensors in, new tensors out, no gradients.

Every function takes the group explicitly, leaves its input alone and returns a tensor of its own.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist

from dtlib.runtime.names import all_gather_single, reduce_scatter_single
from dtlib.runtime.process_group import ranks_of


def all_reduce(x: torch.Tensor, group) -> torch.Tensor:
    """The sum over the ranks."""
    ranks_of(group)
    total = x.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


def all_gather(x: torch.Tensor, group, dim: int = 0) -> torch.Tensor:
    """The ranks' tensors, concatenated along ``dim``."""
    _, P = ranks_of(group)
    dim = _checked_dim(x, dim)
    shard = x.detach().movedim(dim, 0).contiguous()
    whole = shard.new_empty((P * shard.shape[0], *shard.shape[1:]))
    all_gather_single(whole, shard, group=group)
    return whole.movedim(0, dim).contiguous()


def reduce_scatter(x: torch.Tensor, group, dim: int = 0) -> torch.Tensor:
    """This rank's part, along ``dim``, of the sum over the ranks."""
    _, P = ranks_of(group)
    dim = _divided(x, P, dim)
    whole = x.detach().movedim(dim, 0).contiguous()
    part = whole.new_empty((whole.shape[0] // P, *whole.shape[1:]))
    reduce_scatter_single(part, whole, group=group)
    return part.movedim(0, dim).contiguous()


def all_to_all(x: torch.Tensor, group, send_counts=None, receive_counts=None) -> torch.Tensor:
    """The rows that the ranks have for this one, in the order of the ranks."""
    sent, received = checked_counts(x, group, send_counts, receive_counts)
    x = x.detach().contiguous()
    arrived = x.new_empty((sum(received), *x.shape[1:]))
    dist.all_to_all_single(arrived, x, list(received), list(sent), group=group)
    return arrived


def shift(tensors, group, by: int = 1):
    """What the rank that lies ``by`` before this one has; one batch for all tensors of a tuple."""
    rank, P = ranks_of(group)
    leaving = [x.detach().contiguous() for x in tensors]
    if by % P == 0:
        return _unpacked([x.clone() for x in leaving])
    arriving = [torch.empty_like(x) for x in leaving]
    to, source = (dist.get_global_rank(group, (rank + step) % P) for step in (by, -by))
    batch = [dist.P2POp(dist.isend, x, to, group) for x in leaving]
    batch += [dist.P2POp(dist.irecv, x, source, group) for x in arriving]
    for message in dist.batch_isend_irecv(batch):
        message.wait()
    return _unpacked(arriving)


def _unpacked(results: list):
    return tuple(results) if len(results) > 1 else results[0]


def own_slice(x: torch.Tensor, group, dim: int) -> torch.Tensor:
    """This rank's part of ``x`` along ``dim``."""
    rank, P = ranks_of(group)
    dim = _divided(x, P, dim)
    return x.detach().chunk(P, dim)[rank].clone(memory_format=torch.contiguous_format)


def checked_counts(
    x: torch.Tensor, group, send_counts, receive_counts
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows to send to and to receive from each rank; equal parts where none are given."""
    _, P = ranks_of(group)
    if (send_counts is None) != (receive_counts is None):
        missing = "send_counts" if send_counts is None else "receive_counts"
        raise ValueError(f"{missing} = None; give the counts of both directions, or neither")
    if send_counts is None:
        equal = (x.shape[_divided(x, P, 0)] // P,) * P
        return equal, equal
    sent = _whole_numbers("send_counts", send_counts, P)
    received = _whole_numbers("receive_counts", receive_counts, P)
    if sum(sent) != x.shape[0]:
        raise ValueError(
            f"send_counts = {list(sent)} add up to {sum(sent)}; x has {x.shape[0]} rows, "
            "and every row goes to one rank"
        )
    return sent, received


def _whole_numbers(name: str, counts: Sequence[int], P: int) -> tuple[int, ...]:
    listed = counts.tolist() if isinstance(counts, torch.Tensor) else list(counts)
    if len(listed) != P:
        raise ValueError(f"{name} = {listed}; one count for each of the {P} ranks of the group")
    if any(count != int(count) or count < 0 for count in listed):
        raise ValueError(f"{name} = {listed}; counts are whole numbers from 0 on")
    return tuple(map(int, listed))


def _checked_dim(x: torch.Tensor, dim: int) -> int:
    if not -x.dim() <= dim < x.dim():
        raise ValueError(
            f"dim = {dim}; a tensor of shape {list(x.shape)} has dimensions 0 to {x.dim() - 1}"
        )
    return dim % x.dim()


def _divided(x: torch.Tensor, P: int, dim: int) -> int:
    dim = _checked_dim(x, dim)
    if x.shape[dim] % P:
        raise ValueError(
            f"x.shape[{dim}] = {x.shape[dim]} is not a multiple of P = {P}; "
            "every rank takes an equal part"
        )
    return dim
