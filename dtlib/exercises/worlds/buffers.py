"""What the transport asks of a buffer, for numpy arrays and torch tensors alike."""

from typing import Any

import numpy as np


def require_buffer(buffer: Any) -> None:
    """Raise ``TypeError`` unless ``buffer`` could be handed to a real point-to-point call."""
    if hasattr(buffer, "is_contiguous"):
        contiguous = buffer.is_contiguous()
    elif isinstance(buffer, np.ndarray):
        contiguous = buffer.flags.c_contiguous
    else:
        raise TypeError(
            "a buffer must be a numpy array or a torch tensor, "
            f"got {type(buffer).__name__}: {buffer!r}"
        )
    if not contiguous:
        raise TypeError("a buffer must be contiguous: a stride of 1, or a copy of the slice")


def values(buffer: Any) -> np.ndarray:
    """A flat copy of what ``buffer`` holds now."""
    if hasattr(buffer, "detach"):
        buffer = buffer.detach().cpu().numpy()
    return buffer.flatten()


def copy(buffer: Any) -> Any:
    """A buffer of the same kind with the same content."""
    return buffer.clone() if hasattr(buffer, "clone") else np.array(buffer)


def fill(buffer: Any, content: np.ndarray) -> None:
    """Write flat ``content`` into ``buffer``."""
    shaped = content.reshape(tuple(buffer.shape))
    if hasattr(buffer, "new_tensor"):
        shaped = buffer.new_tensor(shaped)
    buffer[...] = shaped


def poison(buffer: Any) -> None:
    """Fill ``buffer`` with NaN, so that reading it too early shows; whole numbers have none."""
    if values(buffer).dtype.kind == "f":
        buffer[...] = float("nan")
