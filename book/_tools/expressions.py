"""The expressions behind the numbers in prose: formulas over named hardware, and nothing else.

An expression may also compare, which is how words such as 'at every size' are bound to numbers.

>>> Expression("message_time(n=1*MB, alpha=0, beta=50*GB)").value
2e-05
>>> Expression("__import__('os')").value
Traceback (most recent call last):
book._tools.expressions.ExpressionError: '__import__' is not a name that a number may use
"""

import ast
import importlib
from collections.abc import Mapping
from functools import cache, cached_property
from numbers import Real
from pathlib import Path

from book._tools.run import BOOK_RUN
from dtlib.formulas import poly, units
from dtlib.formulas.formula import Formula, formulas
from dtlib.formulas.notation import NOTATION
from dtlib.formulas.units import format_quantity
from dtlib.machines.hardware import catalog
from dtlib.recordings import load

PRINTED = {"us": "µs", "minute": "min", "hour": "h", "day": "d"}
GREEK = {"alpha": "α", "beta": "β", "gamma": "γ"}
UNITS = (
    *("KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "Gbit"),
    *("us", "ms", "minute", "hour", "day", "TFLOP", "PFLOP"),
)
MODELS = {
    "foundations": ("TransformerSpec", "gemm_time", "ping_pong_fit", "published_models"),
    "scaling_laws": ("LossSurface", "lifetime_optimum"),
}
HELPERS = ("ceil", "exp", "floor", "ln", "log2", "maximum", "minimum", "sqrt")
CALCULATING = (abs, all, any, len, max, min, range, round, sorted, sum, zip)
OPERATORS = {ast.Add: "+", ast.Sub: "−", ast.Mult: "×", ast.Div: "/", ast.FloorDiv: "//"}
OPERATORS |= {ast.Pow: "^"}
BINDS = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2, ast.FloorDiv: 2, ast.Pow: 3}
COMPARISONS = {ast.Lt: "<", ast.LtE: "≤", ast.Gt: ">", ast.GtE: "≥", ast.Eq: "=", ast.NotEq: "≠"}
ALLOWED = (
    *(ast.Expression, ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.USub),
    *(ast.Call, ast.keyword, ast.Attribute, ast.Subscript, ast.List, ast.Tuple, *OPERATORS),
    *(ast.Compare, ast.BoolOp, ast.And, ast.Or, ast.Not, *COMPARISONS),
    *(ast.GeneratorExp, ast.ListComp, ast.comprehension, ast.Store),
)


class ExpressionError(ValueError):
    """An expression that a number in prose may not have, or that has no value."""


@cache
def names() -> dict[str, object]:
    """Everything that an expression may name."""
    return {
        **{function.__name__: function for function in CALCULATING},
        **{unit: getattr(units, unit) for unit in UNITS},
        **{helper: getattr(poly, helper) for helper in HELPERS},
        **_models(),
        **all_formulas(),
        "catalog": catalog,
        "recording": load,
        "run": BOOK_RUN,
    }


@cache
def all_formulas() -> dict[str, Formula]:
    """Every formula of the library, after importing each module that defines one."""
    package = Path(importlib.import_module("dtlib").__file__).parent
    for file in sorted(package.rglob("*.py")):
        if "\n@formula(" in file.read_text(encoding="utf-8"):
            module = file.relative_to(package.parent).with_suffix("")
            importlib.import_module(".".join(module.parts))
    return {name: f for name, f in formulas().items() if f.__module__.startswith("dtlib.")}


def _models() -> dict[str, object]:
    return {
        name: getattr(importlib.import_module(f"dtlib.{room}"), name)
        for room, known in MODELS.items()
        for name in known
    }


class Expression:
    """One expression: its value, the unit it is known to have, and how a reader may see it."""

    def __init__(self, source: str):
        self.source = source
        try:
            self.tree = ast.parse(source.strip(), mode="eval")
        except SyntaxError as error:
            raise ExpressionError(f"{source!r} is no expression: {error.msg}") from None
        nodes = list(ast.walk(self.tree))
        running = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for node in nodes:
            self._check(node, running)

    def _check(self, node: ast.AST, running: set[str]) -> None:
        if not isinstance(node, ALLOWED):
            raise ExpressionError(f"{ast.unparse(node)!r}: {type(node).__name__} is not allowed")
        if isinstance(node, ast.Name) and node.id not in names() and node.id not in running:
            raise ExpressionError(f"{node.id!r} is not a name that a number may use")
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise ExpressionError(f"{node.attr!r} is private")

    @cached_property
    def value(self) -> float:
        """The number; raises ExpressionError when the evaluation fails or gives no real number."""
        value = _evaluate(self.tree.body)
        value = value.item() if hasattr(value, "item") else value  # numpy's own scalars
        if not isinstance(value, Real):
            raise ExpressionError(f"{self.source!r} is {value!r}, which is not a number")
        return value

    def evaluated(self, known: Mapping[str, object]):
        """What it gives where names mean something else; raises ExpressionError as `value` does."""
        return _evaluate(self.tree.body, known)

    @cached_property
    def is_comparison(self) -> bool:
        """Whether the expression says that something holds, instead of giving a number."""
        return isinstance(self.value, bool)

    @property
    def formula(self) -> Formula | None:
        """The formula that is called, where the expression is one call of a formula."""
        body = self.tree.body
        called = names().get(body.func.id) if _calls_a_name(body) else None
        return called if isinstance(called, Formula) else None

    def readable(self) -> str:
        """The expression with quantities in units, as a reader sees it.

        >>> Expression("message_time(n=1*MB, alpha=0, beta=50*GB) * 2").readable()
        'message_time(n = 1 MB, α = 0, β = 50 GB/s) × 2'
        """
        return _readable(self.tree.body)


def _calls_a_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def _evaluate(node: ast.expr, known: Mapping[str, object] | None = None):
    code = compile(ast.Expression(node), "<number>", "eval")
    try:
        return eval(code, {**(known or names()), "__builtins__": {}})
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ExpressionError(f"{ast.unparse(node)!r} has no value ({reason})") from error


def _readable(node: ast.expr) -> str:
    match node:
        case ast.Call(ast.Name(name), arguments, keywords) if isinstance(names()[name], Formula):
            given = dict(zip(names()[name].parameters, arguments, strict=False))
            given |= {keyword.arg: keyword.value for keyword in keywords}
            return f"{name}({', '.join(_argument(k, v) for k, v in given.items())})"
        case ast.BinOp(left, ast.Mult(), ast.Name(unit)) if unit in UNITS:
            return f"{_operand(left, ast.Mult())} {PRINTED.get(unit, unit)}"
        case ast.BinOp(left, operator, right):
            sign = OPERATORS[type(operator)]
            right_side = _operand(right, operator, right=True)
            return f"{_operand(left, operator)} {sign} {right_side}"
        case ast.Compare(left, operators, others):
            signs = [COMPARISONS[type(operator)] for operator in operators]
            rest = [f"{sign} {_readable(other)}" for sign, other in zip(signs, others, strict=True)]
            return " ".join([_readable(left), *rest])
        case ast.BoolOp(ast.And(), values):
            return " and ".join(_readable(value) for value in values)
        case _:
            return ast.unparse(node)


def _operand(node: ast.expr, outer: ast.operator, *, right: bool = False) -> str:
    text = _readable(node)
    if not isinstance(node, ast.BinOp):
        return text
    inner, around = BINDS[type(node.op)], BINDS[type(outer)]
    return f"({text})" if inner < around or (right and inner == around) else text


def _argument(name: str, node: ast.expr) -> str:
    value = _evaluate(node)
    shown = format_quantity(value, NOTATION[name].unit, digits=4) if value else "0"
    origin = next((key for key in _catalog_keys(node)), "")
    return f"{GREEK.get(name, name)} = {shown}" + (f" ({origin})" if origin else "")


def _catalog_keys(node: ast.expr) -> list[str]:
    return [
        inner.slice.value
        for inner in ast.walk(node)
        if isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant)
    ]
