"""A batch in micro-batches: what goes through the stages, and how much each part counts."""

from collections.abc import Callable, Sequence

import torch

from dtlib.formulas.require import require_type


class Batch:
    """The ``inputs``, ``keywords``, ``targets`` and ``weights`` of m micro-batches.

    Arguments: see `run`. Every micro-batch's inputs are a tuple; ``kinds`` are equal where the
    shapes and dtypes of all that goes into the stages are. Raises ValueError for numbers that do
    not fit, TypeError for an input that is no tensor and for targets of which no share is known.
    """

    def __init__(self, m: int, inputs, targets, loss: Callable | None, weights, keywords):
        self.loss = loss
        self.inputs = [_as_tuple(x) for x in _parts("inputs", inputs, m)]
        for x in (x for part in self.inputs for x in part):
            require_type("run", torch.Tensor, **{"an input": x})
        named = {name: _parts(name, given, m) for name, given in (keywords or {}).items()}
        self.keywords = [
            {name: _constant(part[i]) for name, part in named.items()} for i in range(m)
        ]
        self.kinds = [
            tuple((x.dtype, x.shape) for x in (*given, *named.values()) if torch.is_tensor(x))
            for given, named in zip(self.inputs, self.keywords, strict=True)
        ]
        self.targets = [None] * m if loss is None else _parts("targets", targets, m)
        self.weights = [1.0] * m if loss is None else _weights(self.targets, weights, m)

    def loss_of(self, y, i: int) -> torch.Tensor:
        """A micro-batch's part of the loss; one without a target that counts has no mean."""
        if self.weights[i]:
            return self.weights[i] * self.loss(y, self.targets[i])
        return sum(x.flatten()[:0].sum() for x in _as_tuple(y))  # zero, whatever y is


def _as_tuple(x) -> tuple:
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def _constant(x):
    return x.detach() if torch.is_tensor(x) else x


def _parts(name: str, batch, m: int) -> list:
    """A batch as m micro-batches."""
    if isinstance(batch, torch.Tensor):
        if len(batch) < m:
            raise ValueError(f"{name} must have a row for each of m = {m} parts; got {len(batch)}")
        return list(batch.tensor_split(m))
    if len(batch) != m:
        raise ValueError(f"{name} must be m = {m} micro-batches; got {len(batch)}")
    return list(batch)


def _weights(targets: list, weights: Sequence[float] | None, m: int) -> list[float]:
    if weights is None:
        return _shares(targets)
    if len(weights) != m:
        raise ValueError(f"weights must be m = {m} numbers; got {len(weights)}")
    return list(weights)


def _shares(targets: list[torch.Tensor]) -> list[float]:
    """Each micro-batch's share of the targets that count: a mean of means would be another loss."""
    if not all(map(torch.is_tensor, targets)):
        raise TypeError("weights are None, but must be given where targets are no tensors")
    counts = [int((y != -100).sum()) if not y.is_floating_point() else y.numel() for y in targets]
    if not sum(counts):
        raise ValueError("targets must have one that counts; all of them are -100")
    return [count / sum(counts) for count in counts]
