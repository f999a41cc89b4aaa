"""Refusing an argument: one sentence that names its owner, its value and what is allowed."""


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
        good = isinstance(value, int) and value >= least
        require(good, owner, argument, value, f"a whole number of at least {least}")


def require_divisor(owner: str, argument: str, value: int, of: str, whole: int) -> None:
    """Raise ValueError unless `value` divides the whole."""
    good = isinstance(value, int) and value >= 1 and whole % value == 0
    require(good, owner, argument, value, f"a divisor of {of}, which is {whole}")
