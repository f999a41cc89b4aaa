"""Collectives that torch 2.13 renamed, under their new names with any torch.

PyTorch 2.13 calls `all_gather_into_tensor` `all_gather_single` and `reduce_scatter_tensor`
`reduce_scatter_single`; the old names warn there, and the new ones are missing before.
"""

from typing import Any


def all_gather_single(output: Any, input: Any, group: Any = None, async_op: bool = False) -> Any:
    """Gather the equal `input` tensors of all ranks, in rank order, into one `output` tensor.

    Args:
        output: tensor with the first dimension of `input` times the size of the group.
        input: tensor of the same shape on every rank.
        group: process group (None: all ranks).
        async_op: return a handle to wait on instead of waiting.

    Returns:
        The work handle if `async_op`, else None.
    """
    import torch.distributed as dist

    call = _first_of(dist, "all_gather_single", "all_gather_into_tensor")
    return call(output, input, group=group, async_op=async_op)


def reduce_scatter_single(
    output: Any, input: Any, op: Any = None, group: Any = None, async_op: bool = False
) -> Any:
    """Reduce the `input` tensors of all ranks and leave on rank r the r-th part, in `output`.

    Args:
        output: tensor that holds one part.
        input: tensor of the same shape on every rank, as long as all parts together.
        op: reduction (None: the sum).
        group: process group (None: all ranks).
        async_op: return a handle to wait on instead of waiting.

    Returns:
        The work handle if `async_op`, else None.
    """
    import torch.distributed as dist

    call = _first_of(dist, "reduce_scatter_single", "reduce_scatter_tensor")
    op = dist.ReduceOp.SUM if op is None else op
    return call(output, input, op=op, group=group, async_op=async_op)


def _first_of(module: Any, *names: str) -> Any:
    return next(getattr(module, name) for name in names if hasattr(module, name))
