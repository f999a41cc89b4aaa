"""A flat tensor: parameters end to end, so that one message carries them all.

The nouns:

- **Kind**: dtype, device, and whether it is trained; one flat tensor holds tensors of one kind.
- **Bucket**: neighbouring parameters that travel together, in one flat tensor.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import nn

from dtlib.formulas.require import require


class Flat:
    """Where parameters of one kind lie in one tensor, which is cut in so many equal parts.

    It has no memory: `lay_out` makes a tensor of such a length, and `cut` finds the parameters'
    places in one. Arguments: `parameters`, at least one; `parts`, their number.
    Attributes: `parameters`, their `shapes` and `sizes`; `part`, the numbers of a part.
    Raises ValueError for parameters of several kinds or none.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], parts: int = 1):
        self.parameters = list(parameters)
        kinds = len(by_kind(self.parameters))
        allowed = "one: at least one parameter, all of one dtype and device, all trained or none"
        require(kinds == 1, "Flat", "the number of kinds of parameters", kinds, allowed)
        self.shapes = [parameter.shape for parameter in self.parameters]
        self.sizes = [parameter.numel() for parameter in self.parameters]
        self.part = -(-sum(self.sizes) // parts)
        self.length = parts * self.part

    @property
    def bytes(self) -> int:
        """Of the whole, in the dtype of the parameters."""
        return self.length * self.parameters[0].itemsize

    def cut(self, whole: torch.Tensor) -> list[torch.Tensor]:
        """One view for each parameter, in its shape; what only fills up is left over."""
        pieces = whole[: sum(self.sizes)].split(self.sizes)
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def lay_out(
        self, tensors: Sequence[torch.Tensor | None], factor=1.0, dtype=None, into=None
    ) -> torch.Tensor:
        """Tensors like the parameters, end to end, times ``factor``; None counts as zeros.

        In a new tensor or, where they may lie already, ``into`` one. Raises TypeError for a sparse
        tensor.
        """
        if into is None:
            like = self.parameters[0]
            into = torch.zeros(self.length, dtype=dtype or like.dtype, device=like.device)
        for view, tensor in zip(self.cut(into), tensors, strict=True):
            if tensor is None:
                view.zero_()
            else:
                _check_dense(tensor)
                torch.mul(tensor.detach(), factor, out=view)
        return into

    def gradients(self) -> list[torch.Tensor | None]:
        """Of each parameter, what it has collected."""
        return [parameter.grad for parameter in self.parameters]

    def has_gradients(self) -> bool:
        """Whether a gradient waits to be sent."""
        return any(gradient is not None for gradient in self.gradients())

    def drop_gradients(self) -> None:
        """No gradient is kept."""
        for parameter in self.parameters:
            parameter.grad = None


def kind_of(tensor: torch.Tensor) -> tuple[torch.dtype, torch.device, bool]:
    """What the tensors of one flat tensor have in common."""
    return tensor.dtype, tensor.device, tensor.requires_grad


def by_kind(tensors: Iterable[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Tensors in lists of one kind each."""
    kinds: dict[tuple, list[torch.Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault(kind_of(tensor), []).append(tensor)
    return list(kinds.values())


def buckets_of(
    parameters: Iterable[nn.Parameter],
    bucket_bytes: int,
    first_bucket_bytes: int | None = None,
    kind: Callable = kind_of,
) -> list[list[nn.Parameter]]:
    """Parameters in this order, in buckets of at most so many bytes; a large one has its own.

    The first bucket may be smaller, so that it is ready early. A bucket ends where the ``kind``
    changes. Raises ValueError for a size that is not positive.

    >>> weights = [nn.Parameter(torch.zeros(n)) for n in (1, 2, 5, 1, 1)]
    >>> [[p.numel() for p in bucket] for bucket in buckets_of(weights, bucket_bytes=16)]
    [[1, 2], [5], [1, 1]]
    """
    first = bucket_bytes if first_bucket_bytes is None else first_bucket_bytes
    for name, size in (("bucket_bytes", bucket_bytes), ("first_bucket_bytes", first)):
        if size <= 0:
            raise ValueError(f"{name} = {size}; a bucket needs a positive number of bytes")
    buckets: list[list[nn.Parameter]] = []
    room = 0.0
    for parameter in parameters:
        if not buckets or parameter.nbytes > room or kind(parameter) != kind(buckets[-1][0]):
            room = bucket_bytes if buckets else first
            buckets.append([])
        buckets[-1].append(parameter)
        room -= parameter.nbytes
    return buckets


def _check_dense(tensor: torch.Tensor) -> None:
    if tensor.is_sparse:
        raise TypeError(
            f"a gradient of shape {tuple(tensor.shape)} is sparse, and a flat tensor is dense; the "
            "module must give dense ones (sparse=False)"
        )
