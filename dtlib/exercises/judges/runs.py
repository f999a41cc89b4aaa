"""Laws of exercises about training runs: how a budget is divided, which runs a resample has."""

from typing import Any

from dtlib.exercises.judge import number
from dtlib.exercises.verdict import NotYet


def same_division(given: Any, right: tuple[float, float], *args: Any) -> None:
    """Parameters and tokens are the right ones but for rounding."""
    try:
        N, D = given
    except (TypeError, ValueError):
        raise NotYet("return two numbers: parameters and tokens") from None
    number(N, right[0], "the parameters", tolerance=1e-9)
    number(D, right[1], "the tokens", tolerance=1e-9)


def same_counts(given: Any, right: list[int], *args: Any) -> None:
    """Each run counts as often as it should; the first that does not is named."""
    try:
        counts = [int(one) for one in given]
    except (TypeError, ValueError):
        raise NotYet("return a list of whole numbers, one for each run") from None
    if len(counts) != len(right):
        raise NotYet(f"{len(counts)} numbers for {len(right)} runs")
    for place, (one, other) in enumerate(zip(counts, right, strict=True)):
        if one != other:
            raise NotYet(f"run {place} counts another number of times")
