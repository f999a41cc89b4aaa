"""The best division of a budget: by calculus, by walking, and what rounding does to it."""

import numpy as np
import pytest
import sympy as sp

from dtlib.scaling_laws import LossSurface, best_params, run_loss

LAWS = {
    "printed": LossSurface.hoffmann(),
    "unrounded": LossSurface.hoffmann(rounded=False),
    "besiroglu": LossSurface.besiroglu(),
    "steep": LossSurface(E=1.2, A=35.0, alpha=0.65, B=190.0, beta=0.35),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("C", [1e18, 1e24])
def test_the_best_division_is_where_a_walk_along_the_budget_ends(law, C):
    sizes = law.optimum(C).N * np.geomspace(0.1, 10, 20_001)
    walked = sizes[law(sizes, C / 6 / sizes).argmin()]
    assert walked == pytest.approx(law.optimum(C).N, rel=1e-3)


def test_the_slope_along_the_budget_is_zero_there_in_symbols():
    N, C, A, B, E, a, b = sp.symbols("N C A B E a b", positive=True)
    at = {
        A: 482,
        B: 2085,
        E: 1.8,
        a: sp.Rational(1, 3),
        b: sp.Rational(2, 5),
        C: sp.Integer(10) ** 22,
    }
    slope = sp.diff(run_loss(N, C / (6 * N), E, A, a, B, b), N)
    best = best_params(C, A, a, B, b)
    assert abs((slope * N).subs(N, best).subs(at).evalf(40)) < 1e-30
    assert abs((slope * N).subs(N, 2 * best).subs(at).evalf(40)) > 1e-4  # elsewhere it is not


def test_rounding_the_powers_moves_the_ratio_at_chinchillas_budget_by_half():
    printed, unrounded = (LAWS[name].optimum(5.76e23).tokens_per_param
                          for name in ("printed", "unrounded"))  # fmt: skip
    assert 1.5 < printed / unrounded < 1.6
