"""Units: the constants that code multiplies with, and quantities as a sentence prints them.

Values are plain numbers in SI base units: seconds, bytes, FLOP, and ratios of these. A unit
appears only where a number is written (``5 * us``, ``1 * GB``) or read (`format_quantity`,
`parse_quantity`). KB, MB, GB, TB are powers of 1000; KiB, MiB, GiB, TiB are powers of 1024.
"""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from numbers import Rational

KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12
KiB, MiB, GiB, TiB = 2**10, 2**20, 2**30, 2**40
Gbit = 125 * MB  # 10**9 bits, in bytes: a 400 Gb/s port moves 400 * Gbit bytes per second
us, ms = 1e-6, 1e-3
minute, hour, day = 60, 3600, 86400
TFLOP, PFLOP = 10**12, 10**15

_DECIMAL = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_SECONDS = {
    "ps": Fraction(1, 10**12),
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": 1,
    "min": minute,
    "h": hour,
    "d": day,
    "years": Fraction(36525, 100) * day,
}
_NAMES = {
    "": ["", "ranks", "rounds", "messages", "chunks", "GPUs", "nodes", "tokens", "parameters"],
    "×": ["×", "x", "times"],
    "us": ["us", "µs", "μs", "microseconds"],
    "ms": ["ms", "milliseconds"],
    "s": ["s", "second", "seconds"],
    "min": ["min", "minute", "minutes"],
    "h": ["h", "hour", "hours", "GPU-hours"],
    "d": ["d", "day", "days"],
    "years": ["years", "year"],
    "B": ["B", "byte", "bytes"],
    "B/s": ["B/s", "bytes/s"],
    "KB": ["KB", "kB"],
    "KB/s": ["KB/s", "kB/s"],
    "FLOP": ["FLOP", "FLOPs"],
    "FLOP/B": ["FLOP/B", "FLOP/byte"],
    "tok/s": ["tok/s", "tokens/s"],
    "thousand tok/s": ["thousand tok/s", "thousand tokens/s"],
    "million tok/s": ["million tok/s", "million tokens/s"],
    "USD": ["USD", "dollars", "$"],
    "USD/h": ["USD/h", "dollars an hour"],
    "M USD": ["M USD", "million USD", "million dollars"],
    "G USD": ["G USD", "billion USD", "billion dollars"],
    "USD/kWh": ["USD/kWh", "dollars per kWh"],
}
_JOULES_PER_KWH = 3_600_000


def _known_units() -> dict[str, tuple[str, Rational]]:
    """Every unit as it is printed, with its base unit and its size in base units."""
    units = {"": ("", 1), "%": ("", Fraction(1, 100)), "×": ("", 1)}
    units |= {"million": ("", 10**6), "billion": ("", 10**9), "trillion": ("", 10**12)}
    units |= {name: ("s", size) for name, size in _SECONDS.items()}
    units |= {f"{name}/B": ("s/B", _SECONDS[name]) for name in ("ps", "ns", "us", "s")}
    for prefix, size in (_DECIMAL | _BINARY).items():
        units[f"{prefix}B"] = ("B", size)
        units[f"{prefix}B/s"] = ("B/s", size)
    for prefix, size in _DECIMAL.items():
        units[f"{prefix}b/s"] = units[f"{prefix}bit/s"] = ("B/s", Fraction(size, 8))
    for prefix, size in (_DECIMAL | {"Z": 10**21, "Y": 10**24}).items():
        for base in ("FLOP", "FLOP/s", "FLOP/B"):
            units[f"{prefix}{base}"] = (base, size)
    units |= {"USD": ("USD", 1), "M USD": ("USD", 10**6), "G USD": ("USD", 10**9)}
    for word, size in {"": 1, "thousand ": 10**3, "million ": 10**6}.items():
        units[f"{word}tok/s"] = ("tok/s", size)
    units |= {"USD/s": ("USD/s", 1), "USD/h": ("USD/s", Fraction(1, hour))}
    units |= {"USD/J": ("USD/J", 1), "USD/kWh": ("USD/J", Fraction(1, _JOULES_PER_KWH))}
    for prefix in ("", "K", "M", "G"):
        watts = prefix.lower() if prefix == "K" else prefix
        units[f"{watts}W"] = ("W", _DECIMAL[prefix])
        units[f"{watts}Wh"] = ("J", hour * _DECIMAL[prefix])
    units["J"] = ("J", 1)
    return {
        spelling: scale for name, scale in units.items() for spelling in _NAMES.get(name, [name])
    }


_UNITS = _known_units()

# The units among which `format_quantity` chooses, smallest first. A quantity moves up to the
# next unit at 1 of it; minutes and longer wait until 2, because '90 s' reads better than '1.5 min'.
_LADDERS = {
    "s": ["ns", "µs", "ms", "s", "min", "h", "d", "years"],
    "s/B": ["ps/B", "ns/B", "us/B", "s/B"],
    "B": [f"{prefix}B" for prefix in _DECIMAL],
    "B/s": [f"{prefix}B/s" for prefix in _DECIMAL],
    "FLOP": [f"{prefix}FLOP" for prefix in (*_DECIMAL, "Z", "Y")],
    "FLOP/s": [f"{prefix}FLOP/s" for prefix in _DECIMAL],
    "FLOP/B": ["FLOP/B"],
    "tok/s": ["tok/s", "thousand tok/s", "million tok/s"],
    "USD": ["USD", "M USD", "G USD"],
    "USD/s": ["USD/h"],
    "USD/J": ["USD/kWh"],
    "J": ["J", "Wh", "kWh", "MWh", "GWh"],
    "W": ["W", "kW", "MW", "GW"],
}
_LATE = {"min", "h", "d", "years"}
_TIGHT = {"", "×", "x"}

BASE_UNITS = ("", *_LADDERS)

_QUANTITY = re.compile(
    r"(?P<sign>[-+−]?)(?P<digits>\d{1,3}(?:,\d{3})+|\d+)?(?P<decimals>\.\d+)?"
    r"(?:[eE](?P<exponent>[-+]?\d+))?\s*(?P<unit>.*)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Quantity:
    """A printed quantity: value in its base unit, and half a unit of its last printed digit."""

    value: float
    unit: str
    half_step: float

    def agrees_with(self, value: float) -> bool:
        """Whether `value` would be printed as this quantity, at its printed precision.

        >>> parse_quantity("35 ms").agrees_with(0.0352)
        True
        >>> parse_quantity("35 ms").agrees_with(0.0356)
        False
        """
        return abs(value - self.value) <= self.half_step * (1 + 1e-9)


def parse_quantity(text: str) -> Quantity:
    """Read a quantity as a sentence prints it.

    Knows times (ns to years), bytes and bytes/s (decimal and binary), bits per second, FLOP and
    FLOP/s, percent, factors (``7.35×``), counts (``1,024``, ``14 rounds``, ``2.1 million``), money
    (``2.1 million dollars``, ``4 USD/h``), energy (``12 MWh``) and power (``700 W``).
    Raises ValueError for a number or unit that it does not know.

    >>> parse_quantity("35 ms")
    Quantity(value=0.035, unit='s', half_step=0.0005)
    >>> parse_quantity("400 Gb/s").value
    50000000000.0
    >>> parse_quantity("1,024").value, parse_quantity("16 %").value, parse_quantity("9x").value
    (1024.0, 0.16, 9.0)
    """
    match = _QUANTITY.fullmatch(text.strip())
    if not match or not (match["digits"] or match["decimals"]):
        raise ValueError(f"quantity {text!r}: expected a number and a unit, such as '35 ms'")
    unit = match["unit"].strip()
    if unit not in _UNITS:
        raise ValueError(
            f"quantity {text!r}: unknown unit {unit!r}; known are {', '.join(filter(None, _UNITS))}"
        )
    base, size = _UNITS[unit]
    decimals = match["decimals"] or ""
    number = Fraction((match["digits"] or "0").replace(",", "") + decimals)
    last_digit = Fraction(10) ** (int(match["exponent"] or 0) - len(decimals[1:]))
    value = number * Fraction(10) ** int(match["exponent"] or 0) * size
    sign = 1 if match["sign"] in ("", "+") else -1
    return Quantity(float(sign * value), base, float(last_digit * size / 2))


def spellings(unit: str) -> dict[str, float]:
    """How a quantity that is asked for in a unit may be written: each unit, and its size in it.

    A unit that is not known, such as a noun, is its own only spelling.

    >>> spellings("s")["ms"], spellings("GB")["MiB"], spellings("hops")
    (0.001, 0.001048576, {'hops': 1.0})
    """
    if unit not in _UNITS:
        return {unit: 1.0}
    base, size = _UNITS[unit]
    return {name: float(other / size) for name, (kind, other) in _UNITS.items() if kind == base}


def ladder(unit: str) -> list[str]:
    """The units, smallest first, in which a sentence prints what is asked for in ``unit``.

    A unit that is not known, such as a noun, is the only one; a plain number has none.

    >>> ladder("ms")[:3], ladder("hops"), ladder("%")
    (['ns', 'µs', 'ms'], ['hops'], [])
    """
    return _LADDERS.get(_UNITS[unit][0], []) if unit in _UNITS else [unit]


def format_quantity(value: float, unit: str = "", digits: int = 2) -> str:
    """Print a value given in base units, with at least `digits` significant digits.

    A base unit ("s", "B", "B/s", "FLOP", "FLOP/s") is given the prefix that keeps the number
    readable; any other unit ("ms", "GiB", "%", "×") is used as it stands. Digits before the
    decimal point are never rounded away, and zeros that say nothing are not printed, so that
    `parse_quantity` of the result is within half of its last digit of `value`.
    Raises ValueError for an unknown unit, for `digits` below 1 and for a value that is not finite.

    >>> format_quantity(0.0352, "s"), format_quantity(1.2754e6, "B", digits=3)
    ('35 ms', '1.28 MB')
    >>> format_quantity(450e9, "B/s"), format_quantity(1024), format_quantity(0.164, "%")
    ('450 GB/s', '1,024', '16 %')
    >>> format_quantity(0.2914, "ms", digits=4), format_quantity(7.352, "×", digits=3)
    ('291.4 ms', '7.35×')
    """
    if unit not in _UNITS:
        raise ValueError(f"unit {unit!r} is unknown; known are {', '.join(filter(None, _UNITS))}")
    if digits < 1:
        raise ValueError(f"digits {digits!r}: at least 1 is needed")
    exact = value if isinstance(value, Rational) else float(value)
    if not math.isfinite(exact):
        raise ValueError(f"value {value!r}: only a finite number can be printed as a quantity")
    exact = Fraction(exact)
    unit = _readable_unit(exact, unit, digits)
    number = _significant(float(exact / _UNITS[unit][1]), digits)
    return number + (unit if unit in _TIGHT else f" {unit}")


def _readable_unit(value: Fraction, unit: str, digits: int) -> str:
    """The unit of `unit`'s ladder in which the printed number is neither tiny nor huge."""
    ladder = _LADDERS.get(unit)
    if ladder is None or value == 0:
        return unit
    for smaller, larger in pairwise(ladder):
        limit = (2 if larger in _LATE else 1) * _UNITS[larger][1] / _UNITS[smaller][1]
        number = float(value / _UNITS[smaller][1])
        if abs(round(number, _decimals(number, digits))) < limit:
            return smaller
    return ladder[-1]


def _significant(number: float, digits: int) -> str:
    """`number` in at least `digits` significant digits, without zeros that say nothing."""
    if number and not 1e-4 <= abs(number) < 1e15:
        decimals = _fewest_decimals(number, digits - 1, "e")
        mantissa, exponent = f"{number:.{decimals}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    decimals = _decimals(round(number, _decimals(number, digits)), digits)
    return f"{number:,.{_fewest_decimals(number, decimals, 'f')}f}"


def _fewest_decimals(number: float, most: int, style: str) -> int:
    """The fewest decimals that print `number` exactly, or `most` where none up to that do."""
    for decimals in range(most):
        if math.isclose(float(f"{number:.{decimals}{style}}"), number, rel_tol=1e-12):
            return decimals
    return most


def _decimals(number: float, digits: int) -> int:
    """How many decimals show `digits` significant digits of `number`."""
    return max(0, digits - 1 - math.floor(math.log10(abs(number)))) if number else 0


def readable(value: float, unit: str = "", digits: int = 3) -> str:
    """A quantity as `format_quantity` prints it, and a large count in words.

    >>> readable(30e9), readable(0.0126, "s"), readable(128)
    ('30 billion', '12.6 ms', '128')
    """
    if unit == "":
        for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
            if abs(value) >= size * (1 - 1e-12):
                return f"{format_quantity(value / size, '', digits)} {word}"
    return format_quantity(value, unit, digits)
