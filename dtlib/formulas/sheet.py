r"""A sheet: named lines of formulas, each fed by quantities or by lines above it, units checked.

    >>> from dtlib.models.spec import training_flops, training_time
    >>> given = {"params": 30e9, "tokens": 4e6, "P": 128, "peak": 989e12, "mfu": 0.45}
    >>> sheet = Sheet(given, {"work": training_flops, "step": training_time})
    >>> from dtlib.formulas.units import format_quantity
    >>> format_quantity(sheet["step"], "s", 3)
    '12.6 s'

A parameter is fed by the quantity or the line of its own name, or by what `line` names instead.
One description, many interpreters: `values` evaluates it, `exponents` differentiates it, `interval`
draws its inputs, and the Worksheet of `dtlib.explore` runs it in a page.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dtlib.errors import DtlibError
from dtlib.formulas.formula import Formula
from dtlib.formulas.notation import NOTATION
from dtlib.formulas.sheet_table import sheet_tables
from dtlib.formulas.units import BASE_UNITS


class UnitError(DtlibError, ValueError):
    """Quantities of different kinds were added, compared, or put in each other's place."""


class SheetError(DtlibError, ValueError):
    """A sheet that cannot be evaluated: says which line, what it lacks, and what there is."""


@dataclass(frozen=True)
class Given:
    """A quantity that a sheet starts from. `source` says who knows it."""

    value: float
    unit: str = ""
    label: str = ""
    source: str = ""


@dataclass(frozen=True)
class Line:
    """One line: a formula and what feeds it, or a sum of `parts`.

    `inputs` maps a parameter to the name of a quantity or of a line above, or to a number.
    `within` names a quantity of the same unit that the line should not exceed.
    """

    formula: Formula | None
    inputs: Mapping[str, str | float] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    label: str = ""
    within: str = ""
    unit: str = ""


def line(formula: Formula, *, label: str = "", within: str = "", **inputs: str | float) -> Line:
    """A line of `formula`; `inputs` says what feeds a parameter that is not called like its feed.

    Raises SheetError for a parameter that the formula does not have.

    >>> from dtlib.machines.alpha_beta import message_time
    >>> line(message_time, n="gradient", alpha=5e-6).inputs
    {'n': 'gradient', 'alpha': 5e-06}
    """
    unknown = [name for name in inputs if name not in formula.parameters]
    if unknown:
        known = ", ".join(formula.parameters)
        raise SheetError(f"{formula.name} has no parameter {unknown[0]!r}; it has {known}")
    return Line(formula, inputs, label=label, within=within, unit=formula.unit)


def total(*parts: str, label: str = "", within: str = "") -> Line:
    """A line that adds lines above it, or quantities. They must have one unit."""
    return Line(None, parts=parts, label=label, within=within)


class Sheet(Mapping):
    """Lines over given quantities. A mapping from every name to its value.

    Arguments: `given`, a name and its `Given`, or a plain number for a name of the notation;
    `lines`, a name and its `line`, its `total`, or just a Formula, in the order of use.
    Raises UnitError where a unit does not match, SheetError for a name that is not there (yet).
    """

    def __init__(self, given: Mapping[str, Given | float], lines: Mapping[str, Line | Formula]):
        self.given = {name: _given(name, value) for name, value in given.items()}
        self.lines: dict[str, Line] = {}
        for name, entry in lines.items():
            if name in self.given:
                raise SheetError(f"{name!r} is given and cannot be a line as well")
            entry = line(entry) if isinstance(entry, Formula) else entry
            self.lines[name] = self._checked(name, entry)

    def __getitem__(self, name: str) -> float:
        if name not in self.given and name not in self.lines:
            raise KeyError(f"no {name!r} in this sheet; there are {', '.join(self)}")
        return self.values_at()[name]

    def __iter__(self):
        return iter((*self.given, *self.lines))

    def __len__(self) -> int:
        return len(self.given) + len(self.lines)

    def values_at(self, **changes) -> dict[str, float]:
        """Every name's value, with other numbers (or arrays) for some of the given quantities.

        Raises SheetError for a name that is not given.
        """
        unknown = [name for name in changes if name not in self.given]
        if unknown:
            raise SheetError(f"{unknown[0]!r} is not given; given are {', '.join(self.given)}")
        found = {name: given.value for name, given in self.given.items()} | changes
        for name, entry in self.lines.items():
            found[name] = _evaluate(entry, found)
        return found

    def unit(self, name: str) -> str:
        """The unit of a quantity or line."""
        return (self.given.get(name) or self.lines[name]).unit

    def label(self, name: str) -> str:
        """What it is called in words."""
        entry = self.given.get(name) or self.lines[name]
        if entry.label or name in self.lines or name not in NOTATION:
            return entry.label or name.replace("_", " ")
        return NOTATION[name].meaning.split(",")[0]

    def inputs(self, name: str) -> dict[str, str | float]:
        """What feeds each parameter of a line: a name, or a number."""
        entry = self.lines[name]
        if entry.formula is None:
            return {part: part for part in entry.parts}
        return {p: entry.inputs.get(p, p) for p in entry.formula.parameters}

    def feeds(self, name: str) -> list[str]:
        """The given quantities that a line depends on, in the order in which they are given."""
        pending, seen = [name], set()
        while pending:
            at = pending.pop()
            if at not in seen:
                seen.add(at)
                if at in self.lines:
                    pending += [x for x in self.inputs(at).values() if isinstance(x, str)]
        return [name for name in self.given if name in seen]

    def shares(self, name: str) -> dict[str, float]:
        """The share of each part of a total, the largest first."""
        found = self.values_at()
        parts = {part: found[part] / found[name] for part in self.lines[name].parts}
        return dict(sorted(parts.items(), key=lambda item: -item[1]))

    def exponents(self, name: str, step: float = 1e-4) -> dict[str, float]:
        """How a line grows with each given quantity: d log(line) / d log(quantity).

        An exponent of 1 says: twice the input, twice the output; 0 says that it does not matter.
        What is a whole number by its nature, as the stage of ZeRO, has none.
        Equation: the logarithm of a ratio of two values, over that of their inputs.
        Arguments: `name` of a line; `step`, how far each input is moved, relatively.
        Returns the exponents, the largest first. Raises nothing.

        >>> from dtlib.machines.alpha_beta import message_time
        >>> sheet = Sheet({"n": 1e5, "alpha": 2e-6, "beta": 50e9}, {"time": message_time})
        >>> {name: round(x, 2) for name, x in sheet.exponents("time").items()}
        {'n': 0.5, 'alpha': 0.5, 'beta': -0.5}
        """
        width = math.log1p(step) - math.log1p(-step)
        found = {}
        for feed in self.feeds(name):
            if feed in NOTATION and NOTATION[feed].whole:
                continue
            around = self.given[feed].value * np.array([1 + step, 1 - step])
            high, low = np.broadcast_to(self.values_at(**{feed: around})[name], 2)
            same = high == low
            found[feed] = 0.0 if same else float(math.log(high) - math.log(low)) / width
        return dict(sorted(found.items(), key=lambda item: -round(abs(item[1]), 6)))

    def interval(
        self,
        name: str,
        factors: Mapping[str, float],
        *,
        share: float = 0.8,
        draws: int = 20_000,
        seed: int = 0,
    ) -> tuple[float, float]:
        """The interval that holds a line with probability `share`, when inputs are uncertain.

        Equation: each input is drawn log-normally around its value, so that it lies between
        value / factor and value x factor with probability `share`; quantiles of the results.
        Arguments: `name` of a line; `factors`, how many times each input may be off (1.2 for
        20 %); `share`; `draws`; `seed`. Returns (low, high).
        Raises ValueError for a factor below 1 or a share outside (0, 1), SheetError for a name
        that is not given.
        """
        from statistics import NormalDist

        if not 0 < share < 1:
            raise ValueError(f"share {share!r}: a probability between 0 and 1")
        generator, changes = np.random.default_rng(seed), {}
        reach = NormalDist().inv_cdf((1 + share) / 2)
        for feed, factor in factors.items():
            if feed not in self.given:
                raise SheetError(f"{feed!r} is not given; given are {', '.join(self.given)}")
            if factor < 1:
                raise ValueError(f"factor {factor!r} of {feed!r}: at least 1, such as 1.2 for 20 %")
            width = math.log(factor) / reach
            changes[feed] = self.given[feed].value * np.exp(width * generator.normal(size=draws))
        results = np.broadcast_to(self.values_at(**changes)[name], draws)
        low, high = np.quantile(results, [(1 - share) / 2, (1 + share) / 2])
        return float(low), float(high)

    def replaced(self, **values: float) -> "Sheet":
        """The same sheet with other values of some given quantities."""
        self.values_at(**values)
        given = {
            name: replace(entry, value=values.get(name, entry.value))
            for name, entry in self.given.items()
        }
        return Sheet(given, self.lines)

    def __repr__(self) -> str:
        return repr(sheet_tables(self))

    def _repr_markdown_(self) -> str:
        return sheet_tables(self)._repr_markdown_()

    def _checked(self, name: str, entry: Line) -> Line:
        """The line, with its unit, after every feed was found and has the unit that is asked."""
        known = {**self.given, **self.lines}
        if entry.formula is None:
            return self._checked_total(name, entry, known)
        for parameter in entry.formula.parameters:
            feed = entry.inputs.get(parameter, parameter)
            if not isinstance(feed, str):
                continue
            if feed not in known:
                raise SheetError(
                    f"line {name!r}: {entry.formula.name} needs {parameter!r}, and there is no "
                    f"{feed!r} above it; there are {', '.join(known)}"
                )
            wanted = NOTATION[parameter].unit
            if known[feed].unit != wanted:
                raise UnitError(
                    f"line {name!r}: {parameter!r} of {entry.formula.name} is {_kind(wanted)}, "
                    f"but {feed!r} is {_kind(known[feed].unit)}"
                )
        self._check_limit(name, entry, known)
        return entry

    def _checked_total(self, name: str, entry: Line, known: Mapping) -> Line:
        missing = [part for part in entry.parts if part not in known]
        if missing or not entry.parts:
            what = repr(missing[0]) if missing else "nothing"
            raise SheetError(f"line {name!r} adds {what}; there are {', '.join(known)}")
        first, *others = entry.parts
        for other in others:
            if known[other].unit != known[first].unit:
                raise UnitError(
                    f"line {name!r} adds {first!r} ({_short(known[first].unit)}) "
                    f"and {other!r} ({_short(known[other].unit)})"
                )
        entry = replace(entry, unit=known[first].unit)
        self._check_limit(name, entry, known)
        return entry

    @staticmethod
    def _check_limit(name: str, entry: Line, known: Mapping) -> None:
        if not entry.within:
            return
        if entry.within not in known:
            raise SheetError(f"line {name!r} cannot stay within {entry.within!r}: it is not there")
        if known[entry.within].unit != entry.unit:
            raise UnitError(
                f"line {name!r} is {_kind(entry.unit)} and cannot stay within {entry.within!r}, "
                f"which is {_kind(known[entry.within].unit)}"
            )


def _evaluate(entry: Line, found: Mapping[str, float]):
    if entry.formula is None:
        return sum(found[part] for part in entry.parts)
    feeds = {p: entry.inputs.get(p, p) for p in entry.formula.parameters}
    return entry.formula(**{p: found[x] if isinstance(x, str) else x for p, x in feeds.items()})


def _given(name: str, value: Given | float) -> Given:
    if not isinstance(value, Given):
        if name not in NOTATION:
            raise SheetError(
                f"{name!r} is not in the notation, so its unit is not known: "
                "give it as Given(value, unit)"
            )
        return Given(value, NOTATION[name].unit)
    if value.unit not in BASE_UNITS:
        allowed = ", ".join(map(repr, BASE_UNITS))
        raise UnitError(f"{name!r}: unit {value.unit!r} is no base unit; allowed are {allowed}")
    return value


def _kind(unit: str) -> str:
    return f"in {unit}" if unit else "a count"


def _short(unit: str) -> str:
    return unit or "a count"
