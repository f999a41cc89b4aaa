"""Every formula of the library: its LaTeX, its JavaScript and its arrays say what its Python says.

A module that defines formulas is found by its import of `formula`, so a new one is covered when it
is written.
"""

import ast
import importlib
import itertools
import json
import random
from pathlib import Path

import mpmath
import numpy as np
import pytest
import quickjs
import sympy as sp
from latex_reader import Reader

import dtlib
from dtlib.formulas import poly
from dtlib.foundations import NOTATION, formulas

LIBRARY = Path(dtlib.__file__).parent


def defines_formulas(source: str) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("dtlib.foundations")
        and any(alias.name == "formula" for alias in node.names)
        for node in ast.parse(source).body
    )


for path in sorted(LIBRARY.rglob("*.py")):
    if path.name != "__init__.py" and defines_formulas(path.read_text()):
        importlib.import_module(
            ".".join(["dtlib", *path.relative_to(LIBRARY).with_suffix("").parts])
        )

FORMULAS = {name: f for name, f in sorted(formulas().items()) if f.__module__.startswith("dtlib.")}
MOST_POINTS = 3000
SURE = 12  # points at which an equation is read
PRECISE = {"log2": lambda x: mpmath.log(x, 2)}
each_formula = pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)


def grid(formula) -> list[tuple[float, ...]]:
    """Points from the notation's typical values; a fixed choice where there are too many."""
    points = list(itertools.product(*(NOTATION[name].sample for name in formula.parameters)))
    return random.Random(0).sample(points, min(len(points), MOST_POINTS))


def in_javascript(formula, points) -> list[float]:
    names = ",".join(formula.parameters)
    program = f"JSON.stringify({json.dumps(points)}.map(([{names}]) => ({formula.js()})))"
    return json.loads(quickjs.Context().eval(program))


def read(latex: str):
    """The sympy expression that a reader of the equation would write down."""
    symbols = {symbol.latex: symbol.sympy() for symbol in NOTATION.values()}
    functions = {name: getattr(poly, name) for name in dir(poly) if not name.startswith("_")}
    functions |= {"number": lambda x: sp.Rational(x.numerator, x.denominator), "ln": logarithm}

    def applied(formula):
        def value(*arguments):
            return exact(formula(*arguments) if arguments else formula.expression())

        return value

    return Reader(
        latex, symbols, functions, {f.symbol: applied(f) for f in FORMULAS.values()}
    ).read()


def logarithm(x):
    """The logarithm of a number is the float that Python makes of it, as in a formula's body."""
    return sp.Float(poly.ln(float(x))) if x.is_number else poly.ln(x)


def exact(expression):
    return sp.nsimplify(expression, rational=True)


def agree(latex: str, formula, digits: int = 30) -> bool:
    """Whether the equation and the function say the same number at a dozen points, to many digits.

    Two different expressions of this kind meet in a few points only; whether `simplify` finds that
    equal ones are equal depends on luck, and so does how long it takes.
    """
    symbols = [NOTATION[name].sympy() for name in formula.parameters]
    sides = exact(read(latex)), exact(formula.expression())
    written, meant = (sp.lambdify(symbols, side, [PRECISE, "mpmath"]) for side in sides)
    points = grid(formula)
    few = random.Random(1).sample(points, min(len(points), SURE))
    with mpmath.workdps(digits):
        near = mpmath.mpf(10) ** (8 - digits)
        precise = ([mpmath.mpf(value) for value in point] for point in few)
        return all(mpmath.almosteq(written(*at), meant(*at), rel_eps=near) for at in precise)


@each_formula
def test_the_equation_on_the_page_is_the_function(formula):
    assert agree(formula.latex, formula)


@each_formula
def test_javascript_gives_the_numbers_of_python(formula):
    points = grid(formula)
    assert in_javascript(formula, points) == pytest.approx(
        [formula(*point) for point in points], rel=1e-12
    )


@each_formula
def test_an_array_gives_the_numbers_of_python(formula):
    points = grid(formula)
    columns = np.array(points, dtype=float).T
    expected = [formula(*map(float, point)) for point in points]
    assert np.broadcast_to(formula(*columns), len(points)) == pytest.approx(expected, rel=1e-12)


@each_formula
def test_a_formula_says_where_it_comes_from_and_when_it_holds(formula):
    assert formula.source and formula.conditions and formula.__doc__
    assert ">>>" in formula.__doc__
    assert formula.symbol in formula.card()


def test_one_symbol_stands_for_one_formula():
    symbols = [formula.symbol for formula in FORMULAS.values()]
    assert sorted(symbols) == sorted(set(symbols))
    for formula in FORMULAS.values():
        same = [s for s in NOTATION.values() if s.latex == formula.symbol]
        assert all(s.unit == formula.unit for s in same), formula.name


def test_sabotage_the_javascript_of_another_formula_is_refuted():
    best, unpipelined = FORMULAS["pipelined_chain_best_time"], FORMULAS["pipelined_chain_time"]
    points = grid(best)
    one_chunk = [unpipelined(n, 1, h, alpha, beta) for n, h, alpha, beta in points]
    assert in_javascript(best, points) != pytest.approx(one_chunk, rel=1e-12)


@pytest.mark.parametrize(
    ("written", "wrong"),
    [("(h+k-1)", "h+k-1"), (r"\frac{n}{k\,\beta}", r"\frac{n}{k}\,\beta"), ("k-1", "k+1")],
)
def test_sabotage_a_changed_equation_is_refuted(written, wrong):
    formula = FORMULAS["pipelined_chain_time"]
    assert written in formula.latex
    assert not agree(formula.latex.replace(written, wrong), formula)


def test_log2_is_exact_in_the_browser_where_a_quotient_of_logarithms_is_not():
    context = quickjs.Context()
    for power in range(64):
        assert context.eval(f"Math.log2({2**power})") == power
    assert context.eval(f"Math.ceil(Math.log({2**29}) / Math.log(2))") == 30
