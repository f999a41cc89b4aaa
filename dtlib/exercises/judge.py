"""Judges of numbers and of functions: what is wrong, in which term, by what kind of factor."""

import inspect
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from dtlib.exercises.verdict import NotYet


class Limit(NamedTuple):
    """A corner of a formula's inputs that isolates one of its terms."""

    name: str
    inputs: Mapping[str, float]
    hint: str


_BINARY = "decimal or binary prefixes? (GB is 10^9, GiB is 2^30)"
_FACTORS = {
    8.0: "bits or bytes?",
    1e3: "check the prefixes",
    1e6: "check the prefixes",
    1e9: "check the prefixes",
    2.0: "one direction or both, one phase or both?",
    1.024: _BINARY,
    1.024**2: _BINARY,
    1.024**3: _BINARY,
    1.024**4: _BINARY,
}
_PERCENT = {100.0: "in percent, or as a number between 0 and 1?"}


def real(answer: Any, what: str, unit: str = "") -> float:
    """``answer`` as a finite float, or `NotYet` that says which kind of thing came instead."""
    asked = f"{what} must be a number{f' in {unit}' if unit else ''}"
    if isinstance(answer, str | bool | complex) or answer is None or answer is Ellipsis:
        raise NotYet(f"{asked}, got {answer!r}")
    if getattr(answer, "shape", ()) not in ((), []):
        raise NotYet(f"{asked}, got an array of shape {tuple(answer.shape)}")
    try:
        value = float(answer)
    except (TypeError, ValueError, OverflowError):
        raise NotYet(f"{asked}, got {type(answer).__name__}") from None
    if not math.isfinite(value):
        raise NotYet(f"{what} must be a finite number, got {value}")
    return value


def number(
    answer: Any,
    expected: float,
    what: str,
    unit: str = "",
    *,
    tolerance: float = 0.01,
    mistakes: Mapping[float, str] = MappingProxyType({}),
) -> float:
    """Pass a number within ``tolerance`` (relative) of ``expected``; else say what kind of wrong.

    Values that readers are known to arrive at (``mistakes``: value -> hint) are tried first, then
    factors that units explain; the rest learns its direction and whether the magnitude is right.

    >>> number(35.2, 35.0, "T", "ms")
    35.2
    >>> number(280, 35.0, "T", "ms")
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: T is too large by about a factor of 8: bits or bytes?
    """
    value = real(answer, what, unit)
    if math.isclose(value, expected, rel_tol=tolerance):
        return value
    for mistake, hint in mistakes.items():
        if math.isclose(value, mistake, rel_tol=0.003):
            raise NotYet(f"{what}: {hint}")
    if expected == 0:
        raise NotYet(f"{what} is wrong")
    share = not unit and 0 < expected <= 1
    raise NotYet(f"{what} {_kind_of_wrong(value / expected, _PERCENT if share else {})}")


def whole(answer: Any, what: str) -> int:
    """``answer`` as a whole number."""
    value = real(answer, what)
    if value != int(value):
        raise NotYet(f"{what} must be a whole number, got {value}")
    return int(value)


def items(answer: Any, what: str, count: int) -> list:
    """``answer`` as a list of ``count`` items."""
    try:
        given = list(answer)
    except TypeError:
        raise NotYet(f"{what} must have {count} items, got {answer!r}") from None
    if len(given) != count or isinstance(answer, str | dict | set):
        raise NotYet(f"{what} must have {count} items in order, got {answer!r}")
    return given


def _kind_of_wrong(ratio: float, more: Mapping[float, str] = MappingProxyType({})) -> str:
    if ratio <= 0:
        return "has the wrong sign" if ratio < 0 else "must not be zero"
    side = "large" if ratio > 1 else "small"
    ratio = max(ratio, 1 / ratio)
    for factor, question in (_FACTORS | dict(more)).items():
        if math.isclose(ratio, factor, rel_tol=0.004):
            shown = f"{factor:,.0f}" if factor >= 2 else f"{factor:.3g}"
            return f"is too {side} by about a factor of {shown}: {question}"
    if ratio < 1.1:
        return f"is close, but a little too {side}: a small term is missing, or rounded too early"
    if ratio < 3:
        return f"has the right order of magnitude, but is too {side}"
    return f"is too {side}, by {'more' if ratio > 10 else 'less'} than a factor of ten"


def function(answer: Any, signature: str) -> Callable:
    """``answer`` if it is a function that takes the arguments of ``signature``, else `NotYet`."""
    if not callable(answer):
        raise NotYet(f"pass your function {signature}, got {type(answer).__name__}: {answer!r}")
    wanted = signature[signature.index("(") + 1 : -1].split(", ")
    try:
        parameters = inspect.signature(answer)
        parameters.bind(*wanted)
    except ValueError:
        return answer
    except TypeError:
        raise NotYet(f"your function must take {signature}, but it takes {parameters}") from None
    return answer


def functions(answer: Any, *signatures: str) -> list[Callable]:
    """``answer`` as one function for each signature, in order, each of which takes what it must."""
    names = ", ".join(signature.partition("(")[0] for signature in signatures)
    given = items(answer, f"({names})", len(signatures))
    return [function(one, says) for one, says in zip(given, signatures, strict=True)]


def call(answer: Callable, *args: Any, passing: tuple[type[Exception], ...] = ()) -> Any:
    """What the reader's function returns: something, or it is a `NotYet`, as what it raises."""
    result = perform(answer, *args, passing=passing)
    if result is None or result is Ellipsis:
        raise NotYet("the function returns nothing yet")
    return result


def perform(answer: Callable, *args: Any, passing: tuple[type[Exception], ...] = ()) -> Any:
    """Run the reader's function; what it raises, but for ``passing``, becomes a `NotYet`."""
    try:
        return answer(*args)
    except NotImplementedError:
        raise NotYet("there is nothing here yet: the function raises NotImplementedError") from None
    except (NotYet, *passing):
        raise
    except Exception as error:
        inputs = ", ".join(map(_brief, args))
        raise NotYet(f"({inputs}) raises {type(error).__name__}: {error}") from None


def _brief(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if inspect.isfunction(value):
        return value.__name__  # its repr would name an address
    line = " ".join(repr(value).split())
    return line if len(line) < 50 else f"{line[:40]} ..."
