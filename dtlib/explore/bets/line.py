"""The line on which a bet is made and answered: its ends, its unit, a value of it in words."""

import math

from dtlib.formulas.units import format_quantity, parse_quantity

_LOWEST, _HIGHEST = 0.01, 1000  # how far the line reaches around the anchor


def line(
    key: str, unit: str, anchor: float | None, low: float | None, high: float | None
) -> dict:  # fmt: skip
    """What a script needs to know of a line; see `dtlib.explore.bet`.

    The line of a share, in % and up to 100 at most, is linear; every other one is logarithmic.

    >>> line("9.1", "ms", 35.0, None, None)["high"], line("9.2", "%", None, 1, 100)["scale"]
    (10000.0, 'linear')
    """
    for name, value in {"anchor": anchor, "low": low, "high": high}.items():
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"bet {key!r}: {name} {value!r} is not a positive number")
    if anchor is None and (low is None or high is None):
        raise ValueError(f"bet {key!r}: give an anchor, or low and high")
    low = _decade(anchor * _LOWEST) if low is None else low
    high = _decade(anchor * _HIGHEST) if high is None else high
    if not low < high:
        raise ValueError(f"bet {key!r}: low {low!r} must be below high {high!r}")
    if anchor is not None and not low <= anchor <= high:
        raise ValueError(f"bet {key!r}: anchor {anchor!r} is not between {low!r} and {high!r}")
    scale = "linear" if unit == "%" and high <= 100 else "log"
    ends = {"low": low, "high": high, "anchor": anchor, "scale": scale}
    return {"key": key, **ends, **unit_facts(unit)}


def unit_facts(unit: str) -> dict:
    """A unit with its base unit and its size; one that the library does not know is a count.

    >>> unit_facts("ms"), unit_facts("rounds")["size"]
    ({'unit': 'ms', 'base': 's', 'size': 0.001}, 1.0)
    """
    try:
        quantity = parse_quantity(f"1 {unit}")
    except ValueError:
        return {"unit": unit, "base": "", "size": 1.0}
    return {"unit": unit, "base": quantity.unit, "size": quantity.value}


def text_of(value: float, on: dict) -> str:
    """A value of a line as a sentence prints it.

    >>> text_of(0.5, unit_facts("ms")), text_of(7.353, unit_facts("times"))
    ('500 µs', '7.4 times')
    """
    if on["base"]:
        return format_quantity(value * on["size"], on["base"])
    space = "" if on["unit"] == "×" else " "
    return f"{format_quantity(value)}{space}{on['unit']}".strip()


def _decade(value: float) -> float:
    return float(f"{10.0 ** math.floor(math.log10(value)):.0e}")
