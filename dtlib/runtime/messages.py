"""What travels between the notebook and a rank process: one Request, then one Reply.

Functions, arguments and results are packed with cloudpickle, which also takes functions and
classes that exist only in a notebook cell.
"""

import functools
import io
import pickle
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle

from dtlib.runtime.frames import Frame, frames_of

# How a peer that has left the group looks from the other side: a consequence, never the cause.
_SIGNS_OF_A_LOST_PEER = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Socket closed",
    "Read error",
    "Write error",
    "Timed out waiting",
)


@dataclass(frozen=True)
class Request:
    """An order to every rank; `action` names a method of the rank process that takes `body`.

    The ranks follow the notebook into its working directory and import from where it imports.
    """

    action: str
    body: Any
    session: int = 0
    debug: bool = False
    directory: str = ""
    import_path: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()  # their process ids


@dataclass(frozen=True)
class Failure:
    """An exception inside a rank, in words, since the exception itself may not travel."""

    error: str
    frames: tuple[Frame, ...]
    traceback: str
    time: float
    is_consequence: bool


@dataclass(frozen=True)
class Reply:
    """A packed result, or a failure. `has_group`: the rank still is in its process group."""

    packed: bytes | None
    failure: Failure | None
    has_group: bool


def describe_failure(error: BaseException, time: float) -> Failure:
    """Put an exception into words."""
    text = "".join(traceback.format_exception_only(error)).strip()
    text = text.removeprefix(f"{type(error).__module__}.")
    lost_peer = isinstance(error, RuntimeError) and any(s in text for s in _SIGNS_OF_A_LOST_PEER)
    return Failure(
        error=text,
        frames=tuple(frames_of(error)),
        traceback="".join(traceback.format_exception(error)),
        time=time,
        is_consequence=lost_peer or isinstance(error, KeyboardInterrupt),
    )


def pack_call(function: Callable, args: Sequence, kwargs: Mapping[str, Any]) -> bytes:
    """Pack a call for the ranks; a part that cannot be packed is named."""
    try:
        return cloudpickle.dumps((function, args, kwargs))
    except Exception as error:
        name = getattr(function, "__name__", repr(function))
        parts = {f"the function {name}": function}
        parts |= {f"argument {i} of {name}": value for i, value in enumerate(args, start=1)}
        parts |= {f"argument {key!r} of {name}": value for key, value in kwargs.items()}
        raise _cannot_be_sent(parts, error) from None


def pack_names(values: Mapping[str, Any]) -> bytes:
    """Pack named values for the namespaces of the ranks."""
    try:
        return cloudpickle.dumps(dict(values))
    except Exception as error:
        parts = {f"the value of {key!r}": value for key, value in values.items()}
        raise _cannot_be_sent(parts, error) from None


def _cannot_be_sent(parts: Mapping[str, Any], error: Exception) -> TypeError:
    for name, value in parts.items():
        try:
            cloudpickle.dumps(value)
        except Exception as reason:
            return TypeError(f"{name} cannot be sent to the ranks: {reason}")
    return TypeError(f"the call cannot be sent to the ranks: {error}")


def pack_result(value: Any) -> bytes:
    """Pack a result inside a rank. GPU tensors come back on the CPU, where the notebook is."""
    buffer = io.BytesIO()
    try:
        _ResultPickler(buffer).dump(value)
    except Exception as reason:
        kind = type(value).__name__
        raise TypeError(f"a result of type {kind} cannot be sent back: {reason}") from None
    return buffer.getvalue()


class _ResultPickler(cloudpickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor) and value.is_cuda:
            return value.detach().cpu().__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return super().reducer_override(value)


encode = functools.partial(pickle.dumps, protocol=pickle.HIGHEST_PROTOCOL)
decode = pickle.loads
