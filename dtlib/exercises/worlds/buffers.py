"""What the transport asks of a buffer, for numpy arrays and torch tensors alike."""

import sys
from typing import Any

from dtlib.later import np, torch


def require_buffer(buffer: Any) -> None:
    """Raise ``TypeError`` unless ``buffer`` could be handed to a real point-to-point call."""
    if hasattr(buffer, "is_contiguous"):
        contiguous = buffer.is_contiguous()
    elif is_array(buffer):
        contiguous = buffer.flags.c_contiguous
    else:
        raise TypeError(
            "a buffer must be a numpy array or a torch tensor, "
            f"got {type(buffer).__name__}: {buffer!r}"
        )
    if not contiguous:
        raise TypeError("a buffer must be contiguous: a stride of 1, or a copy of the slice")


def is_array(x: Any) -> bool:
    """Whether it is numpy's."""
    return isinstance(x, np.ndarray)


def is_tensor(x: Any) -> bool:
    """Whether it is torch's; nothing is where nobody has imported torch."""
    return bool(sys.modules.get("torch")) and isinstance(x, torch.Tensor)


def values(buffer: Any) -> Any:
    """A flat copy of what ``buffer`` holds now."""
    if hasattr(buffer, "detach"):
        buffer = buffer.detach().cpu().numpy()
    return buffer.flatten()


def copy(buffer: Any) -> Any:
    """A buffer of the same kind with the same content."""
    return buffer.clone() if hasattr(buffer, "clone") else np.array(buffer)


def fill(buffer: Any, content: Any) -> None:
    """Write flat ``content`` into ``buffer``."""
    shaped = content.reshape(tuple(buffer.shape))
    if hasattr(buffer, "new_tensor"):
        shaped = buffer.new_tensor(shaped)
    buffer[...] = shaped


def poison(buffer: Any) -> None:
    """Fill ``buffer`` with NaN, so that reading it too early shows; whole numbers have none."""
    if values(buffer).dtype.kind == "f":
        buffer[...] = float("nan")


def detached(x: Any) -> Any:
    """The same numbers, without the operations that made them."""
    return x.detach() if is_tensor(x) else x


def stacked(parts: list) -> Any:
    """Buffers of one shape, one upon the other."""
    return _library(parts[0]).stack(parts)


def joined(parts: list, dim: int) -> Any:
    """Buffers end to end, or side by side, along ``dim``."""
    return _library(parts[0]).concatenate(parts, dim)


def largest(stack: Any) -> Any:
    """The largest number in each place of what is stacked."""
    return _library(stack).amax(stack, 0)


def split(x: Any, rows: list[int]) -> list:
    """So many rows, then so many, in order."""
    ends = [sum(rows[: i + 1]) for i in range(len(rows))]
    return [x[end - count : end] for end, count in zip(ends, rows, strict=True)]


def _library(x: Any) -> Any:
    return np if is_array(x) else torch
