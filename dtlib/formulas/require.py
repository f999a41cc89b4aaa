"""Refusing an argument: one sentence that names its owner, its value and what is allowed."""

import math
from numbers import Real


def require(condition: bool, owner: str, argument: str, value, allowed: str) -> None:
    """Raise ValueError unless the condition holds.

    >>> require(False, "Model 'm'", "layers", 0, "at least 1")
    Traceback (most recent call last):
    ValueError: Model 'm': layers is 0, but must be at least 1
    """
    if not condition:
        raise ValueError(f"{owner}: {argument} is {value!r}, but must be {allowed}")


def require_count(owner: str, least: int = 1, **values: int) -> None:
    """Raise ValueError unless every value is a whole number of at least `least`."""
    for argument, value in values.items():
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        require(good, owner, argument, value, f"a whole number of at least {least}")


def require_positive(owner: str, **values: float) -> None:
    """Raise ValueError unless every value is a positive, finite number."""
    for argument, value in values.items():
        good = isinstance(value, int | float) and math.isfinite(value) and value > 0
        require(good, owner, argument, value, "a positive number")


def require_not_negative(owner: str, **values: float) -> None:
    """Raise ValueError unless every value is a finite number of at least 0."""
    for argument, value in values.items():
        good = is_number(value) and value >= 0
        require(good, owner, argument, value, "a number of at least 0")


def require_divisor(owner: str, argument: str, value: int, of: str, whole: int) -> None:
    """Raise ValueError unless `value` divides the whole."""
    good = isinstance(value, int) and value >= 1 and whole % value == 0
    require(good, owner, argument, value, f"a divisor of {of}, which is {whole}")


def require_type(owner: str, kind: type, **values) -> None:
    """Raise TypeError unless every value is of the kind.

    >>> require_type("estimate", bool, flash="no")
    Traceback (most recent call last):
    TypeError: estimate: flash is 'no', but must be a bool
    """
    for argument, value in values.items():
        if not isinstance(value, kind):
            raise TypeError(f"{owner}: {argument} is {value!r}, but must be a {kind.__name__}")


def is_number(value) -> bool:
    """Whether it is a finite real number; True and False are none.

    >>> [is_number(value) for value in (3, 0.5, True, "3", float("nan"))]
    [True, True, False, False, False]
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    return real and math.isfinite(value)
