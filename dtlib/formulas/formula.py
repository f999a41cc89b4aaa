r"""Formulas: one plain Python function that evaluates, typesets itself and runs in a page.

    >>> @formula(r"T_\text{pair}", "s", "this docstring")
    ... def pair_time(n, alpha, beta):
    ...     return 2 * (alpha + n / beta)
    >>> pair_time(n=1000, alpha=1e-6, beta=1e9)
    4e-06
    >>> print(pair_time.equation)
    T_\text{pair} = 2\,\left( \alpha+\frac{n}{\beta} \right)
    >>> pair_time.expression()
    2*alpha + 2*n/beta
    >>> pair_time.js(alpha=0)
    '2*n/beta'

The body is one return expression over the parameters, numbers, other formulas and the helpers of
`dtlib.formulas.poly`. So it takes numbers, numpy arrays and sympy symbols alike.
"""

import ast
import functools
import inspect
import re
import sys
import textwrap
from collections import ChainMap
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.resources import as_file, files
from numbers import Real

from dtlib.errors import DtlibError
from dtlib.formulas.javascript import javascript
from dtlib.formulas.notation import NOTATION
from dtlib.formulas.symbol import Symbol
from dtlib.formulas.typeset import ATOM, PRODUCT, SUM, NotTypesettable, Piece, Typesetter
from dtlib.formulas.units import BASE_UNITS, format_quantity


class FormulaError(DtlibError, ValueError):
    """A formula that cannot be one: says which formula and line, what it met, what to write."""


_REGISTRY: dict[str, "Formula"] = {}


def formulas() -> dict[str, "Formula"]:
    """Every formula of the library, and those that the reader has defined, by name.

    >>> formulas()["message_time"].unit
    's'
    """
    for module in _modules_with_formulas():
        import_module(module)
    return dict(_REGISTRY)


@cache
def _modules_with_formulas() -> tuple[str, ...]:
    """The library's modules in which the decorator stands, by name."""
    with as_file(files("dtlib")) as folder:
        return tuple(
            ".".join(("dtlib", *file.relative_to(folder).with_suffix("").parts))
            for file in sorted(folder.rglob("*.py"))
            if re.search(r"^@formula\b", file.read_text(encoding="utf-8"), re.MULTILINE)
        )


def formula(
    symbol: str, unit: str, source: str = "", conditions: str = ""
) -> Callable[[Callable], "Formula"]:
    """Turn a plain function into a `Formula` and register it under its name.

    Arguments: the LaTeX of what it computes; its unit (a base unit: "s", "B", "B/s", "FLOP",
    "FLOP/s", "FLOP/B", "s/B", or "" for a count or a ratio); who published it (author and year);
    the conditions under which it holds. The docstring says what it computes and why it is so, and
    ends with an example: arguments, unit, conditions and source are added to it.
    Raises FormulaError when the function's body has no equation, when a parameter is not in the
    notation, when the unit is unknown, and when another module has a formula of that name.
    """
    return lambda function: _register(Formula(function, symbol, unit, source, conditions))


class Formula:
    """A function that carries its equation; see `formula`, which makes it.

    `name`, `symbol`, `unit`, `source` and `conditions` are what the decorator was given,
    `parameters` the names of the arguments and `latex` the right-hand side as written.
    """

    def __init__(self, function: Callable, symbol: str, unit: str, source: str, conditions: str):
        functools.update_wrapper(self, function)
        self.name: str = function.__name__
        self.symbol, self.unit, self.source, self.conditions = symbol, unit, source, conditions
        self.parameters: tuple[str, ...] = tuple(inspect.signature(function).parameters)
        self._check_names()
        self._names = _namespace(function)
        self._body = _return_expression(function)
        self.latex: str = self._typeset(Typesetter(self._as_symbol, self._names))
        self.__doc__ = self._documented()

    def __call__(self, *args, **kwargs):
        for name, value in (*zip(self.parameters, args, strict=False), *kwargs.items()):
            if name in NOTATION:
                NOTATION[name].check(self.name, value)
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        arguments = ", ".join(self.parameters)
        unit = f" [{self.unit}]" if self.unit else ""
        return f"{self.name}({arguments}) = {ast.unparse(self._body)}{unit}"

    def __reduce_ex__(self, protocol):
        """A library's formula is pickled by name, one of a notebook (with cloudpickle) whole."""
        module = sys.modules.get(self.__module__)
        if self.__module__ != "__main__" and getattr(module, self.__name__, None) is self:
            return self.__name__
        return super().__reduce_ex__(protocol)

    def _repr_markdown_(self) -> str:
        return self.card()

    @property
    def equation(self) -> str:
        """The LaTeX of the whole equation."""
        return f"{self.symbol} = {self.latex}"

    @property
    def label(self) -> str:
        """The label of the numbered equation on a page, such as eq-message-time."""
        return "eq-" + self.name.replace("_", "-")

    def expression(self):
        """The sympy expression over `NOTATION[name].sympy()` of every parameter."""
        return self(**{name: NOTATION[name].sympy() for name in self.parameters})

    def js(self, **fixed: float) -> str:
        """A JavaScript expression over the parameters' names; those in `fixed` get a value."""
        self._check_given(fixed)
        values = {NOTATION[name].sympy(): value for name, value in fixed.items()}
        return javascript(self.expression().subs(values))

    def substituted(self, **values: float) -> str:
        r"""The right-hand side with numbers filled in for the parameters that are given.

        >>> print(formulas()["message_time"].substituted(n=10**6, alpha=2e-6, beta=50e9))
        2\,\text{µs} + \frac{1\,\text{MB}}{50\,\text{GB/s}}
        """
        self._check_given(values)

        def variable(name: str) -> Piece | None:
            if name not in values:
                return self._as_symbol(name)
            return _quantity(values[name], NOTATION[name].unit)

        def called(inner: "Formula", arguments: dict[str, ast.expr]) -> Piece | None:
            used = {n.id for node in arguments.values() for n in ast.walk(node) if _is_name(n)}
            if used & set(self.parameters) - set(values):
                return None
            given = {name: self._evaluate(node, values) for name, node in arguments.items()}
            return _quantity(inner(**given), inner.unit)

        return self._typeset(Typesetter(variable, self._names, called, times=r" \cdot "))

    def card(self) -> str:
        """Markdown: the equation, what its symbols mean, when it holds, and who published it."""
        where = [f"- ${s.latex}${_in_unit(s.unit)}: {s.meaning}" for s in self._symbols()]
        facts = [f"**{title}:** {text}" for title, text in self._facts()]
        equation = f"$$\n{self.equation}\n$$"
        return "\n\n".join([equation, "\n".join(where), "  \n".join(facts)])

    def _documented(self) -> str:
        """The docstring, with what notation and decorator know before its example."""
        words, example, rest = (inspect.getdoc(self.__wrapped__) or "").partition(">>>")
        where = [f"    `{s.name}`{_in_unit(s.unit)}: {s.meaning}" for s in self._symbols()]
        facts = [f"{title}: {text}." for title, text in self._facts()]
        known = "\n".join(["Arguments:", *where, *facts])
        return "\n\n".join(filter(None, (words.strip(), known, example + rest)))

    def _symbols(self) -> list[Symbol]:
        return [NOTATION[name] for name in self.parameters]

    def _facts(self) -> list[tuple[str, str]]:
        facts = (
            ("Unit", self.unit or "none: a count or a ratio"),
            ("Holds when", self.conditions),
            ("Source", self.source),
        )
        return [(title, text) for title, text in facts if text]

    def _as_symbol(self, name: str) -> Piece | None:
        if name not in self.parameters:
            return None
        latex = NOTATION[name].latex
        return Piece(latex, PRODUCT if "^" in latex else ATOM)

    def _evaluate(self, node: ast.expr, values: dict[str, float]):
        code = compile(ast.Expression(node), f"<{self.name}>", "eval")
        return eval(code, {"__builtins__": {}}, ChainMap(values, self._names))

    def _typeset(self, typesetter: Typesetter) -> str:
        try:
            return typesetter.latex(self._body)
        except NotTypesettable as error:
            shown = ast.unparse(error.node)
            raise self._error(
                error.node.lineno, f"'{shown}' cannot be traced: {error.rule}"
            ) from None

    def _error(self, line: int | None, problem: str) -> FormulaError:
        return _error(self.__wrapped__, line, problem)

    def _check_names(self) -> None:
        unknown = [name for name in self.parameters if name not in NOTATION]
        if unknown:
            raise self._error(
                None,
                f"parameter {unknown[0]!r} is not in the notation; add it to "
                "dtlib.formulas.notation, or use the symbol that has this meaning",
            )
        if self.unit not in BASE_UNITS:
            allowed = ", ".join(repr(unit) for unit in BASE_UNITS)
            raise self._error(None, f"unit {self.unit!r} is no base unit; allowed are {allowed}")

    def _check_given(self, values: dict[str, float]) -> None:
        unknown = [name for name in values if name not in self.parameters]
        if unknown:
            raise self._error(
                None, f"no parameter {unknown[0]!r}; it has {', '.join(self.parameters)}"
            )


def _register(new: Formula) -> Formula:
    known = _REGISTRY.get(new.name)
    if known is not None and known.__module__ != new.__module__:
        raise new._error(
            None, f"{known.__module__} already has a formula of this name; choose another"
        )
    _REGISTRY[new.name] = new
    return new


def _error(function: Callable, line: int | None, problem: str) -> FormulaError:
    place = function.__code__.co_filename
    line = function.__code__.co_firstlineno + (line - 1 if line else 0)
    return FormulaError(f"formula {function.__name__} ({place}, line {line}): {problem}")


def _namespace(function: Callable) -> ChainMap:
    """What the names in the function's body mean, apart from its parameters."""
    return ChainMap(dict(inspect.getclosurevars(function).nonlocals), function.__globals__)


def _return_expression(function: Callable) -> ast.expr:
    """The expression that the function returns, the only statement besides its docstring."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:
        raise _error(
            function, None, "its source cannot be read; define it in a file or a notebook cell"
        ) from None
    definition = ast.parse(source).body[0]
    statements = definition.body
    if ast.get_docstring(definition) is not None:
        statements = statements[1:]
    if not (len(statements) == 1 and isinstance(statements[0], ast.Return) and statements[0].value):
        odd = next((s for s in statements if not isinstance(s, ast.Return)), statements[0])
        first = ast.unparse(odd).splitlines()[0]
        raise _error(
            function,
            odd.lineno,
            f"'{first}' is no equation; after its docstring the body is one return expression "
            "(where(condition, a, b) chooses, another formula names an intermediate result)",
        )
    return statements[0].value


def _in_unit(unit: str) -> str:
    return f" ({unit})" if unit else ""


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def _quantity(value: float, unit: str) -> Piece:
    """A number with its unit as LaTeX; a value that is no single number stays a symbol's job."""
    if not isinstance(value, Real):
        raise FormulaError(f"value {value!r}: only single numbers can be written into an equation")
    number, _, name = format_quantity(value, unit, digits=4).partition(" ")
    number = number.replace(",", "{,}")
    if "e" in number:
        mantissa, exponent = number.split("e")
        number = rf"{mantissa} \cdot 10^{{{exponent}}}"
    latex = rf"{number}\,\text{{{name}}}" if name else number
    tightness = ATOM if not name and "cdot" not in number else PRODUCT
    return Piece(latex, SUM if number.startswith("-") else tightness)
