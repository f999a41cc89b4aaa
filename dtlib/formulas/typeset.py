r"""Typeset a Python expression as LaTeX, in the order in which it was written.

sympy reorders what it prints; a reader compares the equation with the code beside it. So the
LaTeX comes from the syntax tree. A product is printed factor by factor, and a division applies
to the factor before it: ``2 * (P - 1) / P * n / beta`` is 2, then (P-1)/P, then n/beta.
"""

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dtlib.errors import DtlibError
from dtlib.formulas import poly

# How tightly a piece of LaTeX holds together. A piece is put in parentheses where it meets
# a neighbour that binds tighter.
CASES, SUM, PRODUCT, POWER, ATOM = range(5)

_SUMS = {ast.Add: "+", ast.Sub: "-"}
_COMPARISONS = {ast.Lt: "<", ast.LtE: r"\le", ast.Gt: ">", ast.GtE: r"\ge"}
_HELPERS = {
    getattr(poly, name): name
    for name in ("ceil", "floor", "log2", "ln", "exp", "sqrt", "maximum", "minimum", "where")
}
_INSTEAD = {
    "int": "use floor(x) from dtlib.formulas.poly",
    "round": "use floor(x + 1 / 2) from dtlib.formulas.poly",
    "max": "use maximum(a, b) from dtlib.formulas.poly",
    "min": "use minimum(a, b) from dtlib.formulas.poly",
    "abs": "use maximum(x, -x) from dtlib.formulas.poly",
    "log": "use ln(x) or log2(x) from dtlib.formulas.poly",
    "pow": "use a ** b",
    "sum": "write the sum in closed form",
    "range": "a symbol has no range; write the sum in closed form",
    "float": "leave it out: a formula takes numbers as they come",
} | {name: f"use {name}(...) from dtlib.formulas.poly" for name in _HELPERS.values()}
_CHOICE = "use where(condition, a, b) from dtlib.formulas.poly to choose"
_CONSTRUCTS = {
    ast.IfExp: _CHOICE,
    ast.BoolOp: f"{_CHOICE}, one comparison each",
    ast.Compare: "a comparison stands in where(condition, a, b) only",
    ast.FloorDiv: "use floor(a / b) from dtlib.formulas.poly",
    ast.Mod: "use a - b * floor(a / b), with floor from dtlib.formulas.poly",
    ast.Attribute: "use a plain name: a parameter, a constant, a formula or a poly helper",
}
_ALLOWED = "a formula is made of + - * / **, comparisons in where(), poly helpers and formulas"


class NotTypesettable(DtlibError):
    """A construct that has no equation: the node and what to write instead."""

    def __init__(self, node: ast.AST, rule: str):
        super().__init__(rule)
        self.node, self.rule = node, rule


@dataclass(frozen=True)
class Piece:
    """LaTeX, how tightly it binds, and how it reads when something follows it in a product."""

    latex: str
    binding: int
    followed: str = ""

    def within(self, binding: int) -> str:
        """The LaTeX in a place that needs at least this binding."""
        return self.latex if self.binding >= binding else bracket("(", self.latex, ")")


def bracket(opening: str, latex: str, closing: str) -> str:
    """LaTeX between delimiters that are as tall as it is."""
    if r"\frac" in latex or r"\begin" in latex:
        return rf"\left{opening} {tight(latex)} \right{closing}"
    space = " " if opening.startswith("\\") and latex[0].isalpha() else ""
    return f"{opening}{space}{tight(latex)}{closing}"


def tight(latex: str) -> str:
    """A nested expression without the spaces that a line of its own has around + and -."""
    return latex.replace(" + ", "+").replace(" - ", "-")


class Typesetter:
    """Turns an expression's syntax tree into pieces of LaTeX.

    `variable(name)` gives the piece of a parameter, `called(formula, arguments)` a piece that
    replaces the call of another formula, or None to print the formula's symbol. `names` resolves
    every other name. `times` stands between two factors.
    """

    def __init__(
        self,
        variable: Callable[[str], Piece | None],
        names: Mapping[str, object],
        called: Callable[[object, dict[str, ast.expr]], Piece | None] = lambda *_: None,
        times: str = r"\,",
    ):
        self.variable, self.names, self.called, self.times = variable, names, called, times

    def latex(self, node: ast.expr) -> str:
        """The LaTeX of a whole expression. Raises NotTypesettable."""
        return self.piece(node).latex

    def piece(self, node: ast.expr) -> Piece:
        match node:
            case ast.Constant(value=bool()):
                raise NotTypesettable(node, _ALLOWED)
            case ast.Constant(value=int() | float() as value):
                return number(value)
            case ast.Name():
                return self._name(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Piece(f"-{self.piece(operand).within(PRODUCT)}", SUM)
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return self._sum(node)
            case ast.BinOp(op=ast.Mult() | ast.Div()):
                return self._product(node)
            case ast.BinOp(op=ast.Pow(), left=base, right=exponent):
                power = tight(self.piece(exponent).latex)
                return Piece(f"{self.piece(base).within(ATOM)}^{{{power}}}", POWER)
            case ast.Call():
                return self._call(node)
            case ast.BinOp(op=op) if type(op) in _CONSTRUCTS:
                raise NotTypesettable(node, _CONSTRUCTS[type(op)])
        raise NotTypesettable(node, _CONSTRUCTS.get(type(node), _ALLOWED))

    def _name(self, node: ast.Name) -> Piece:
        piece = self.variable(node.id)
        if piece is not None:
            return piece
        value = self.names.get(node.id)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return number(value)
        raise NotTypesettable(node, "it is neither a parameter nor the name of a number")

    def _sum(self, node: ast.BinOp) -> Piece:
        left, right = self.piece(node.left).within(SUM), self.piece(node.right)
        bare = isinstance(node.op, ast.Add) and not right.latex.startswith("-")
        return Piece(f"{left} {_SUMS[type(node.op)]} {right.within(SUM if bare else PRODUCT)}", SUM)

    def _product(self, node: ast.BinOp) -> Piece:
        negative, factors = _factors(node)
        pieces = [self._factor(numerator, below) for numerator, below in factors]
        if negative:
            return Piece(f"-{self._joined(pieces)}", SUM)
        if len(pieces) == 1:
            return pieces[0]
        return Piece(self._joined(pieces), PRODUCT, self._joined(pieces, followed=True))

    def _factor(self, numerator: ast.expr, below: list[ast.expr]) -> Piece:
        if not below:
            return self.piece(numerator)
        above = tight(self.piece(numerator).within(SUM))
        pieces = [self.piece(node) for node in below]
        under = pieces[0].within(SUM) if len(pieces) == 1 else self._joined(pieces)
        return Piece(rf"\frac{{{above}}}{{{tight(under)}}}", PRODUCT)

    def _joined(self, pieces: list[Piece], followed: bool = False) -> str:
        text = ""
        for position, piece in enumerate(pieces):
            last = position == len(pieces) - 1 and not followed
            factor = piece.within(PRODUCT) if last else piece.followed or piece.within(PRODUCT)
            if position:
                text += r" \cdot " if factor[0].isdigit() else self.times
            text += factor
        return text

    def _call(self, node: ast.Call) -> Piece:
        if not isinstance(node.func, ast.Name):
            name = getattr(node.func, "attr", "")
            raise NotTypesettable(node, _INSTEAD.get(name, _CONSTRUCTS[ast.Attribute]))
        function = self.names.get(node.func.id)
        if hasattr(function, "symbol") and hasattr(function, "parameters"):
            return self._formula(node, function)
        helper = _HELPERS.get(function) if callable(function) else None
        if helper is None:
            raise NotTypesettable(node, _INSTEAD.get(node.func.id, _ALLOWED))
        self._bind(node, function)
        return getattr(self, f"_{helper}")(*node.args)

    @staticmethod
    def _bind(node: ast.Call, function) -> dict[str, ast.expr]:
        if any(isinstance(a, ast.Starred) for a in node.args):
            raise NotTypesettable(node, "pass the arguments one by one")
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if None in keywords or (keywords and function in _HELPERS):
            raise NotTypesettable(node, "pass the arguments one by one, by position")
        try:
            return dict(inspect.signature(function).bind(*node.args, **keywords).arguments)
        except TypeError as error:
            raise NotTypesettable(node, str(error)) from None

    def _formula(self, node: ast.Call, formula) -> Piece:
        arguments = self._bind(node, formula)
        piece = self.called(formula, arguments)
        if piece is not None:
            return piece
        same = all(
            isinstance(arguments.get(name), ast.Name) and arguments[name].id == name
            for name in formula.parameters
        )
        binding = POWER if "^" in formula.symbol else ATOM
        if same:
            return Piece(formula.symbol, binding)
        shown = r",\, ".join(self.latex(argument) for argument in arguments.values())
        return Piece(formula.symbol + bracket("(", shown, ")"), binding)

    def _ceil(self, x) -> Piece:
        return Piece(bracket(r"\lceil", self.latex(x), r"\rceil"), ATOM)

    def _floor(self, x) -> Piece:
        return Piece(bracket(r"\lfloor", self.latex(x), r"\rfloor"), ATOM)

    def _log2(self, x) -> Piece:
        return self._logarithm(r"\log_2", x)

    def _ln(self, x) -> Piece:
        return self._logarithm(r"\ln", x)

    def _logarithm(self, function: str, x) -> Piece:
        argument = self.piece(x)
        closed = function + bracket("(", argument.latex, ")")
        bare = argument.binding == ATOM
        return Piece(f"{function} {argument.latex}" if bare else closed, PRODUCT, closed)

    def _exp(self, x) -> Piece:
        return Piece(f"e^{{{tight(self.latex(x))}}}", POWER)

    def _sqrt(self, x) -> Piece:
        return Piece(rf"\sqrt{{{tight(self.latex(x))}}}", ATOM)

    def _maximum(self, x, y) -> Piece:
        return Piece(r"\max" + bracket("(", rf"{self.latex(x)},\, {self.latex(y)}", ")"), ATOM)

    def _minimum(self, x, y) -> Piece:
        return Piece(r"\min" + bracket("(", rf"{self.latex(x)},\, {self.latex(y)}", ")"), ATOM)

    def _where(self, condition, x, y) -> Piece:
        match condition:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                sides = self.latex(left), _COMPARISONS[type(op)], self.latex(right)
                rows = rf"{self.latex(x)} & \text{{if }} {' '.join(sides)}"
                rows += rf" \\ {self.latex(y)} & \text{{otherwise}}"
                return Piece(rf"\begin{{cases}} {rows} \end{{cases}}", CASES)
        raise NotTypesettable(condition, "where() takes one comparison with <, <=, > or >=")


def number(value: int | float) -> Piece:
    """A number: 12, 0.5, 10^{9}, 5 \\cdot 10^{-6}."""
    if value < 0:
        positive = number(-value)
        return Piece(f"-{positive.within(PRODUCT)}", SUM)
    if value and (value >= 10**6 or value < 1e-3):
        mantissa, exponent = f"{value:e}".split("e")
        short = f"{float(mantissa):g}"
        if float(f"{short}e{exponent}") == value:
            ten = f"10^{{{int(exponent)}}}"
            return Piece(ten, POWER) if short == "1" else Piece(rf"{short} \cdot {ten}", PRODUCT)
    text = f"{value:,}" if value >= 10**4 else repr(value)
    return Piece(text.removesuffix(".0").replace(",", "{,}"), ATOM)


def _factors(node: ast.expr) -> tuple[bool, list[tuple[ast.expr, list[ast.expr]]]]:
    """The factors of a product in written order, each with the nodes that divide it."""
    match node:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            negative, factors = _factors(left)
            if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Mult | ast.Div):
                turned, more = _factors(right)
                return negative != turned, factors + more
            return negative, [*factors, (right, [])]
        case ast.BinOp(op=ast.Div(), left=left, right=right):
            negative, factors = _factors(left)
            *before, (numerator, below) = factors
            return negative, [*before, (numerator, [*below, right])]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            negative, factors = _factors(operand)
            return not negative, factors
    return False, [(node, [])]
