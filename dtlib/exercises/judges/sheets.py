"""Judges of sheets, and of what is read off them."""

from itertools import pairwise
from typing import Any

from dtlib.exercises.judge import number
from dtlib.exercises.verdict import NotYet


def same_line(given: Any, right: Any, name: str) -> None:
    """Raise `NotYet` unless ``given`` is a sheet whose line ``name`` is that of ``right``.

    >>> same_line(3.5, None, "exchange")
    Traceback (most recent call last):
    ...
    dtlib.exercises.verdict.NotYet: return a Sheet that has a line 'exchange'
    """
    if not hasattr(given, "lines") or name not in given.lines:
        raise NotYet(f"return a Sheet that has a line {name!r}")
    found, wanted = given.unit(name), right.unit(name)
    if found != wanted:
        raise NotYet(f"the line {name!r} must be in {wanted}, but is in {found}")
    number(given[name], right[name], name, wanted, tolerance=1e-6)


def same_ends(given: Any, right: list[tuple], *args: Any) -> None:
    """Raise `NotYet` unless ``given`` has the rows (input, when_low, when_high), widest first."""
    try:
        rows = {feed: (float(low), float(high)) for feed, low, high in given}
    except (TypeError, ValueError):
        raise NotYet("return a list of (input, when_low, when_high)") from None
    wanted = {feed: ends for feed, *ends in right}
    wrong = ", ".join(sorted(map(str, rows.keys() ^ wanted.keys())))
    if wrong:
        raise NotYet(f"list the inputs that change the line and no others: {wrong}?")
    for feed, ends in rows.items():
        if any(abs(a / b - 1) > 1e-9 for a, b in zip(ends, wanted[feed], strict=True)):
            raise NotYet(f"{feed!r}: move only this input, by the share that is asked")
    widths = [abs(high - low) for low, high in rows.values()]
    if any(after > before * (1 + 1e-9) for before, after in pairwise(widths)):
        raise NotYet("the widest comes first")
