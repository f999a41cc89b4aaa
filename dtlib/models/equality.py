"""Whether two runs of a model did the same: every gradient, by its largest difference."""

from math import inf, isfinite

import torch
from torch import nn


def gradients(module: nn.Module) -> dict[str, torch.Tensor]:
    """A copy of each parameter's gradient, by name; parameters without a gradient are left out."""
    named = module.named_parameters()
    return {name: p.grad.detach().clone() for name, p in named if p.grad is not None}


def relative_errors(found: dict, reference: dict) -> dict[str, float]:
    """For each name, max |found - reference| / max |reference|, computed in 64 bits.

    A gradient that is 0 but for rounding has no scale of its own: the bias of keys that are not
    rotated is one, for adding a number to all scores changes no softmax. What is smaller than 64
    roundings of the largest reference is therefore measured against that largest one.
    Arguments: two dicts from names to tensors, or single tensors under a name that you choose.
    Returns a dict of floats; a NaN anywhere counts as infinite.
    Raises ValueError for other names, and for shapes that differ.

    >>> relative_errors({"w": torch.tensor([1.0, 2.5])}, {"w": torch.tensor([1.0, 2.0])})
    {'w': 0.25}
    """
    _check_names(found, reference)
    sizes = {name: _largest(tensor) for name, tensor in reference.items()}
    most = max(sizes.values(), default=0.0)
    errors = {}
    for name, tensor in reference.items():
        only_rounding = sizes[name] <= 64 * torch.finfo(tensor.dtype).eps * most
        scale = most if only_rounding else sizes[name]
        gap = _largest(found[name].double() - tensor.double())
        errors[name] = _ratio(gap, scale)
    return errors


def worst(errors: dict[str, float]) -> tuple[str, float]:
    """The name with the largest error, and the error.

    >>> worst({"a": 1e-16, "b": 0.5})
    ('b', 0.5)
    """
    if not errors:
        raise ValueError("worst: errors is empty, but must name at least one tensor")
    return max(errors.items(), key=lambda item: item[1])


def _ratio(gap, scale) -> float:
    if gap == 0:
        return 0.0
    return gap / scale if scale and isfinite(gap) else inf


def _largest(tensor) -> float:
    size = float(tensor.detach().double().abs().max()) if tensor.numel() else 0.0
    return size if isfinite(size) else inf


def _check_names(found, reference):
    if missing := sorted(set(reference) - set(found)):
        raise ValueError(f"relative_errors: found lacks {missing}, which reference has")
    if extra := sorted(set(found) - set(reference)):
        raise ValueError(f"relative_errors: found has {extra}, which reference lacks")
    for name, tensor in reference.items():
        if found[name].shape != tensor.shape:
            shapes = f"{tuple(found[name].shape)}, but must be {tuple(tensor.shape)}"
            raise ValueError(f"relative_errors: the shape of {name!r} is {shapes}")
