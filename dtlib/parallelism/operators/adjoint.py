r"""Communication that a gradient can pass: every operator beside its transpose.

A collective is a linear map from what the ranks hold before to what they hold after. The backward
pass needs its transpose, the map A' with <Ax, y> = <x, A'y> for all x and y; and a communication
operator is differentiable as soon as it knows which operator that is. Each function below says so
in its second line.

What the transpose is depends on how a tensor counts in the inner product, and so on how the *loss*
counts. There are two conventions, and mixing them is the classic silent error of this field.

**Partitioned loss**: L = L_0 + L_1 + ... Every rank has a loss of its own and calls `backward` on
it; the loss that is meant is the sum. Data, context and expert parallelism work like this, and so
does Megatron's sequence parallelism. A tensor that lies on all ranks is then P copies, each with
users of its own, and every rank holds only its share of the gradient. The transposes are those of
the collectives: all-reduce with itself, all-gather with reduce-scatter, all-to-all with the
counts swapped, a shift with the shift back. Gradients of replicated parameters are added over the
ranks at the end.

**Replicated loss**: every rank computes the same L, and calls `backward` on it; it is one number,
not P of them. Plain tensor parallelism works like this. A replicated tensor is one vector, which
counts once, although P ranks hold it. Where such a vector fans out into work that differs from rank
to rank, its gradient must be added up (`copy_to_ranks`, Megatron's f); where partial results are
added into one vector, every rank already has the whole gradient (`sum_over_ranks`, Megatron's g).

So a placement (`dtlib.mesh`) says how a tensor counts: `Replicate` once; `Shard`, `Partial` and
`Copies` once per rank. `dtlib.parallelism.certify` holds every line of `ADJOINTS` to this on real
ranks.

Whole tensors go in and come out; a group is always given. Gradients of gradients work as well.
Ranks of one group must call the same operators in the same order, backwards too.
"""

from collections.abc import Callable, Sequence

import torch

from dtlib.parallelism.operators import messages


class _Linear(torch.autograd.Function):
    """A linear map of some tensors with its transpose: what autograd has to know of it."""

    @staticmethod
    def forward(ctx, operator, transpose, *tensors):
        ctx.transpose = transpose
        return operator(*tensors)

    @staticmethod
    def backward(ctx, *gradients):
        back = ctx.transpose(*gradients)
        return None, None, *(back if isinstance(back, tuple) else (back,))


def linear(x, operator: Callable, transpose: Callable):
    """``operator(x)``, whose gradient is ``transpose`` of the gradient that comes back.

    Arguments: ``x``, a tensor, or a tuple of tensors, which then are several arguments of both;
    ``operator`` and ``transpose``, functions that return as many tensors as they take. To be
    differentiated twice, ``transpose`` must itself be a function of this module.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> linear(x, lambda x: 3 * x, transpose=lambda y: 3 * y).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """
    return _Linear.apply(operator, transpose, *(x if isinstance(x, tuple) else (x,)))


def copy_to_ranks(x: torch.Tensor, group) -> torch.Tensor:
    """f: one replicated vector becomes P copies, one for each rank's own work. Sends nothing.

    Backwards the ranks' shares of its gradient are added. Replicated loss; in front of a
    column-parallel layer (Shoeybi and others, 2019).
    """
    return linear(x, torch.clone, transpose=lambda y: sum_over_ranks(y, group))


def sum_over_ranks(x: torch.Tensor, group) -> torch.Tensor:
    """g: partial sums become one vector, which all ranks hold and which counts once.

    Backwards every rank has the whole gradient already. Replicated loss; behind a row-parallel
    layer (Shoeybi and others, 2019).
    """
    add = messages.all_reduce
    return linear(x, lambda x: add(x, group), transpose=lambda y: copy_to_ranks(y, group))


def all_reduce(x: torch.Tensor, group) -> torch.Tensor:
    """The sum over the ranks, of which every rank makes a use of its own. Its own transpose.

    Partitioned loss; statistics that enter every rank's loss, such as a synchronised batch norm.
    """
    add = messages.all_reduce
    return linear(x, lambda x: add(x, group), transpose=lambda y: all_reduce(y, group))


def all_gather(x: torch.Tensor, group, dim: int = 0) -> torch.Tensor:
    """The ranks' shards, one after the other along ``dim``, on every rank. Back: reduce_scatter.

    Partitioned loss; parameters of ZeRO-3, keys and values of context parallelism, the sequence in
    front of a column-parallel layer. Shards have one shape on all ranks.
    """
    gather = messages.all_gather
    return linear(
        x, lambda x: gather(x, group, dim), transpose=lambda y: reduce_scatter(y, group, dim)
    )


def reduce_scatter(x: torch.Tensor, group, dim: int = 0) -> torch.Tensor:
    """The sum over the ranks, of which every rank keeps its part along ``dim``. Back: all_gather.

    Partitioned loss. Raises ValueError where P does not divide ``x.shape[dim]``.
    """
    scatter = messages.reduce_scatter
    return linear(
        x, lambda x: scatter(x, group, dim), transpose=lambda y: all_gather(y, group, dim)
    )


def all_to_all(
    x: torch.Tensor,
    group,
    send_counts: Sequence[int] | None = None,
    receive_counts: Sequence[int] | None = None,
) -> torch.Tensor:
    """Rows of ``x``: the first ``send_counts[0]`` go to rank 0, the next to rank 1, and so on.

    Backwards the counts change places. Arguments: ``send_counts`` and ``receive_counts``, rows for
    and from each rank, 0 allowed; None for both: equal parts. What rank i sends to rank j is what
    j receives from i. Returns what arrived, in the order of the ranks. Partitioned loss; experts,
    and the change from a split sequence to split heads. Raises ValueError for counts that are not
    P numbers from 0 on, do not add up to the rows, or come alone.
    """
    counts = messages.checked_counts(x, group, send_counts, receive_counts)
    exchange = messages.all_to_all
    return linear(
        x,
        lambda x: exchange(x, group, *counts),
        transpose=lambda y: all_to_all(y, group, *counts[::-1]),
    )


def shift(x, group, by: int = 1):
    """``x`` moves to rank + ``by``, around the ring of ranks. Back: the shift by -``by``.

    Arguments: ``x``, a tensor, or a tuple of tensors that travel together; same shapes on all
    ranks. Returns what rank - ``by`` had. Partitioned loss; context parallelism. A rank that makes
    no use of what it got has no gradient to send back, and the others wait for it: let it enter the
    loss with weight 0.
    """
    move = messages.shift
    return linear(x, lambda *x: move(x, group, by), transpose=lambda *y: shift(y, group, -by))


def own_slice(x: torch.Tensor, group, dim: int) -> torch.Tensor:
    """This rank's part of a replicated tensor along ``dim``. Sends nothing. Back: gather_slices.

    Replicated loss. Raises ValueError where P does not divide ``x.shape[dim]``.
    """
    cut = messages.own_slice
    return linear(x, lambda x: cut(x, group, dim), transpose=lambda y: gather_slices(y, group, dim))


def gather_slices(x: torch.Tensor, group, dim: int) -> torch.Tensor:
    """The ranks' shards as one replicated tensor, which counts once. Back: own_slice.

    The same messages as `all_gather`, another inner product: here every rank has the whole
    gradient, and adding it up would make it P times too large. Replicated loss.
    """
    gather = messages.all_gather
    return linear(x, lambda x: gather(x, group, dim), transpose=lambda y: own_slice(y, group, dim))
