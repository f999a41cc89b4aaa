"""What the reader moves: the values a slider or a probe can take, and the task it is set.

A control is a list of values. Everything else (the step, the keyboard, the text that is read
aloud) follows from the list, and a value is never an ugly one: a logarithmic control steps through
the preferred numbers 1, 1.1, 1.3, 1.4, 1.6, 1.8, 2, ... , twenty to a decade.
"""

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dtlib.formulas.units import format_quantity

SCALES = ("log", "linear", "powers of two")
_STEPS_PER_DECADE = 20
_LINEAR_STEPS = 100


@dataclass(frozen=True)
class Control:
    """The values that a variable can take, where it starts, and how its axis is scaled."""

    values: tuple[float, ...]
    start: float
    scale: str

    @property
    def index(self) -> int:
        """The position of the start among the values."""
        return self.values.index(self.start)


def between(
    low: float, high: float, start: float, *, scale: str | None = None, step: float | None = None
) -> Control:
    """A control from `low` to `high` that starts at `start`.

    `scale` is "log", "linear" or "powers of two". Left out, it is "powers of two" when all three
    numbers are, else "log" when `high` is at least 30 times a positive `low`, else "linear".
    `step` belongs to a linear scale. Values are whole numbers when the three numbers are.
    Raises ValueError when the range is empty, the start is outside, or the scale does not fit.

    >>> between(2, 64, start=8).values
    (2, 4, 8, 16, 32, 64)
    >>> between(1, 10, start=7, scale="log").values
    (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    >>> between(0.0, 1.0, start=0.5, step=0.25).values
    (0.0, 0.25, 0.5, 0.75, 1.0)
    """
    if not low < high:
        raise ValueError(f"between({low!r}, {high!r}): the second number must be the larger one")
    if not low <= start <= high:
        raise ValueError(f"start {start!r} is outside {low!r} to {high!r}")
    whole = all(isinstance(value, int) for value in (low, high, start))
    low, high, start = (v if whole else _clean(v) for v in (low, high, start))
    doubling = whole and all(map(_is_power_of_two, (low, high, start))) and high >= 8 * low
    usual = "powers of two" if doubling else "log" if 0 < 30 * low <= high else "linear"
    scale = scale or usual
    if scale not in SCALES:
        raise ValueError(f"scale {scale!r}; allowed are {', '.join(map(repr, SCALES))}")
    if scale != "linear" and low <= 0:
        raise ValueError(f"scale {scale!r} needs a range above 0, not one from {low!r}")
    if scale == "powers of two" and not all(_is_power_of_two(v) for v in (low, high, start)):
        raise ValueError(f"{low!r}, {high!r} and start {start!r} must be powers of two")
    grid = {"log": _preferred, "linear": _even, "powers of two": _powers}[scale]
    inside = {low, high, start, *(v for v in grid(low, high, step) if low <= v <= high)}
    return Control(tuple(sorted({round(v) for v in inside} if whole else inside)), start, scale)


def control(given) -> Control:
    """A Control as it is; a tuple (low, high, start) as `between` reads it; a list of choices,
    which starts at its first member."""
    if isinstance(given, Control):
        return given
    if isinstance(given, tuple) and len(given) == 3:
        return between(*given)
    if isinstance(given, list) and len(given) > 1:
        return Control(tuple(sorted(given)), given[0], "linear")
    raise ValueError(f"{given!r}: expected between(low, high, start=...) or a list of values")


def slider_over(name: str, label: str, unit: str, values: Sequence[float], start: float) -> dict:
    """What a script needs to know of a slider over these values, with no symbol of its own.

    >>> slider_over("latency", "latency", "s", [0, 0.01, 0.02], 0)["plain"]
    '0 s to 20 ms'
    """
    ends = (format_quantity(v, unit, 3) if unit else f"{v}" for v in (values[0], values[-1]))
    return {
        "name": name,
        "label": label,
        "symbol": "",
        "plain": " to ".join(ends),
        "unit": unit,
        "values": list(values),
        "index": list(values).index(start),
    }


def _preferred(low: float, high: float, step) -> list[float]:
    first = math.floor(math.log10(low) * _STEPS_PER_DECADE)
    last = math.ceil(math.log10(high) * _STEPS_PER_DECADE)
    return [float(f"{10 ** (k / _STEPS_PER_DECADE):.1e}") for k in range(first, last + 1)]


def _even(low: float, high: float, step: float | None) -> list[float]:
    step = step or (high - low) / _LINEAR_STEPS
    return [_clean(low + k * step) for k in range(math.floor((high - low) / step) + 1)]


def _powers(low: float, high: float, step) -> list[int]:
    return [2**k for k in range(math.floor(math.log2(low)), math.ceil(math.log2(high)) + 1)]


def _clean(value: float) -> float:
    """The value without the last digits that arithmetic leaves: 5 * us is 5e-06."""
    return float(f"{value:.12g}")


def _is_power_of_two(value: float) -> bool:
    return value > 0 and math.frexp(value)[0] == 0.5


@dataclass(frozen=True)
class Task:
    """Something for the reader to bring about, which the widget notices.

    `text` says what; `condition` is a Python expression over the names that the widget offers,
    such as ``"ring < tree and P >= 64"``, false at the start; `solution` names values of controls
    for which it is true, so that an impossible task cannot be built; `found` is what the
    widget answers when it is done.
    """

    text: str
    condition: str
    solution: Mapping[str, float]
    found: str = ""

    def holds(self, values: Mapping[str, float]) -> bool:
        """Whether the condition is true for these values of its names."""
        code = compile(self._tree(values), "<condition>", "eval")
        return bool(eval(code, {"__builtins__": {}}, _FUNCTIONS | dict(values)))

    def js(self, names) -> str:
        """The condition in JavaScript. Raises ValueError for a name that is not in `names`."""
        return _js(self._tree(names).body)

    def checked(self, names: Callable[..., Mapping[str, float]]) -> dict:
        """The task as a widget's script needs it, once it is known to be one.

        `names` gives the names of the condition with their values: at the start, or with those of
        the solution as keyword arguments. Raises ValueError when the condition holds at the start,
        or does not hold for the solution.
        """
        if self.holds(names()):
            raise ValueError(f"task {self.condition!r} is met already at the start")
        if not self.holds(names(**self.solution)):
            raise ValueError(f"task {self.condition!r} is not met by its solution {self.solution}")
        return {"text": self.text, "js": self.js(list(names())), "found": self.found}

    def _tree(self, names) -> ast.Expression:
        tree = ast.parse(self.condition, mode="eval")
        used = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
        unknown = [name for name in used if name not in names and name not in _FUNCTIONS]
        if unknown:
            raise ValueError(
                f"condition {self.condition!r}: no {unknown[0]!r}; there are {', '.join(names)}"
            )
        return tree


_FUNCTIONS = {"abs": abs, "min": min, "max": max}
_SYMBOLS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "===", ast.NotEq: "!==",
    ast.And: "&&", ast.Or: "||", ast.Not: "!", ast.USub: "-",
}  # fmt: skip


def _js(node: ast.expr) -> str:
    """A condition's syntax tree as JavaScript; every operation in parentheses."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
        case ast.Name(id=name):
            return name if name not in _FUNCTIONS else f"Math.{name}"
        case ast.BoolOp(op=op, values=values):
            return "(" + f" {_SYMBOLS[type(op)]} ".join(map(_js, values)) + ")"
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _SYMBOLS:
            return f"({_SYMBOLS[type(op)]}{_js(operand)})"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SYMBOLS:
            return f"({_js(left)} {_SYMBOLS[type(op)]} {_js(right)})"
        case ast.Compare(left=left, ops=ops, comparators=others) if set(map(type, ops)) <= set(
            _SYMBOLS
        ):
            sides = [_js(side) for side in (left, *others)]
            pairs = zip(sides, ops, sides[1:], strict=False)
            return "(" + " && ".join(f"{a} {_SYMBOLS[type(op)]} {b}" for a, op, b in pairs) + ")"
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return f"Math.{name}({', '.join(map(_js, arguments))})"
    raise ValueError(
        f"condition: {ast.unparse(node)!r} is not allowed; use numbers, names, + - * / **, "
        "comparisons, and, or, not, abs, min, max"
    )
