"""A helper means the same for a number, an array and a symbol."""

import numpy as np
import pytest
import sympy as sp

from dtlib.formulas import poly

X = sp.Symbol("x", positive=True)
POINTS = [0.3, 1.0, 2.5, 8.0, 2.0**29]


@pytest.mark.parametrize("name", ["ceil", "floor", "log2", "ln", "sqrt"])
def test_a_function_of_one_value(name):
    helper = getattr(poly, name)
    numbers = [helper(x) for x in POINTS]
    assert helper(np.array(POINTS)).tolist() == pytest.approx(numbers, rel=1e-15)
    symbolic = helper(X)
    assert [float(symbolic.subs(X, x)) for x in POINTS] == pytest.approx(numbers, rel=1e-12)


def test_exp_undoes_ln():
    assert poly.exp(poly.ln(3.0)) == pytest.approx(3.0)
    assert poly.exp(poly.ln(X)) == X
    assert poly.exp(np.zeros(2)).tolist() == [1, 1]


@pytest.mark.parametrize(("name", "expected"), [("maximum", [2, 5]), ("minimum", [1, 2])])
def test_a_function_of_two_values(name, expected):
    helper = getattr(poly, name)
    assert [helper(1, 2), helper(5, 2)] == expected
    assert helper(np.array([1, 5]), 2).tolist() == helper(2, np.array([1, 5])).tolist() == expected
    assert [helper(X, 2).subs(X, x) for x in (1, 5)] == expected


def test_where_chooses():
    assert [poly.where(x > 2, x, 0) for x in (1, 5)] == [0, 5]
    values = np.array([1, 5])
    assert poly.where(values > 2, values, 0).tolist() == [0, 5]
    assert [poly.where(X > 2, X, 0).subs(X, x) for x in (1, 5)] == [0, 5]


def test_a_logarithm_stays_whole_and_can_be_differentiated():
    assert poly.ceil(poly.log2(X)).has(sp.ceiling)
    assert sp.simplify(sp.diff(poly.log2(X), X) - 1 / (X * sp.log(2))) == 0
    assert sp.limit(poly.log2(X) / X, X, sp.oo) == 0


@pytest.mark.parametrize("power", [29, 31, 39, 47, 51, 55, 58, 59])
def test_ceil_of_log2_is_exact_where_a_quotient_of_logarithms_is_one_too_many(power):
    assert poly.ceil(poly.log2(2**power)) == power
    assert poly.ceil(poly.log2(X)).subs(X, 2**power) == power
    assert poly.ceil(poly.ln(2**29) / poly.ln(2)) == 30
