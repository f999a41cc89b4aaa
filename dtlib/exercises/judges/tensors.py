"""Judge of tensors, and of the collectives that made them: what is missing, what is wrong."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dtlib.exercises.verdict import NotYet
from dtlib.later import torch


def same_tensor(
    found: Any,
    right: Any,
    where: str,
    slips: Mapping[str, Any] = MappingProxyType({}),
    tolerance: float = 1e-10,
) -> None:
    """Raise `NotYet` unless both are equal but for rounding.

    Arguments: ``where`` names the tensor in the verdict; ``slips`` maps a hint to the known wrong
    value that it explains (None: this slip cannot be told).

    >>> import torch
    >>> same_tensor(torch.ones(2), 2 * torch.ones(2), "dX", {"half of it": torch.ones(2)})
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: dX is wrong: half of it
    """
    if found is None:
        raise NotYet(f"{where} is missing: nothing flows back to it")
    as_tensor(found, where)
    if tuple(found.shape) != tuple(right.shape):
        raise NotYet(f"{where} has shape {list(found.shape)}, not {list(right.shape)}")
    if close(found, right, tolerance):
        return
    for hint, slip in slips.items():
        if slip is not None and close(found, slip, tolerance):
            raise NotYet(f"{where} is wrong: {hint}")
    if not bool(found.isfinite().all()):
        raise NotYet(f"{where} is not finite")
    raise NotYet(f"{where} differs from that of one process")


def close(found: Any, right: Any, tolerance: float = 1e-10) -> bool:
    """Of one shape, and equal but for rounding, relative to the largest entry?"""
    if found.shape != right.shape:
        return False
    found, right = found.detach().double(), right.detach().double()
    if not right.numel():
        return True
    return bool((found - right).abs().max() <= tolerance * right.abs().max())


def as_tensor(value: Any, where: str) -> Any:
    """``value`` if it is a tensor, else `NotYet`."""
    if not isinstance(value, torch.Tensor):
        raise NotYet(f"{where}: {type(value).__name__} where a tensor should be")
    return value


def normal(*shape: int, seed: int) -> Any:
    """Normal numbers in 64 bits, always the same."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def same_calls(where: str, found: tuple[int, int], right: tuple[int, int]) -> None:
    """Raise `NotYet` unless a rank has made so many collectives forwards and backwards."""
    for way, ours, due in zip(("forwards", "backwards"), found, right, strict=True):
        if ours != due:
            much = "more" if ours > due else "fewer"
            raise NotYet(f"{where}: right, but {much} collectives {way} than it takes")
