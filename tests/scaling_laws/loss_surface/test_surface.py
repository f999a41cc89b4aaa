"""The law, its valley and its frontier, against walks and against exact algebra."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from dtlib.scaling_laws import (
    LossSurface,
    best_params,
    excess_compute_factor,
    frontier_power,
    isoloss_tokens,
    optimal_tokens,
    run_loss,
    sized_excess,
)

PUBLISHED = (LossSurface.hoffmann(), LossSurface.hoffmann(rounded=False), LossSurface.besiroglu())
POWERS = st.floats(0.1, 1.5)
SURFACES = st.builds(
    LossSurface, st.floats(0, 3), st.floats(1, 1e4), POWERS, st.floats(1, 1e4), POWERS
)
BUDGETS = st.floats(15, 27).map(lambda power: 10**power)


def walked(surface: LossSurface, C: float) -> float:
    """The best size, by looking at the loss only, ever closer."""
    low, high = -80.0, 120.0
    for _ in range(85):
        a, b = low + 0.382 * (high - low), high - 0.382 * (high - low)
        loss = [surface(np.exp(u), C / 6 / np.exp(u)) - surface.E for u in (a, b)]
        low, high = (low, b) if loss[0] < loss[1] else (a, high)
    return float(np.exp(low))


@given(surface=SURFACES, C=BUDGETS)
def test_the_best_division_is_the_lowest_place_of_its_valley(surface, C):
    best = surface.optimum(C)
    assert pytest.approx(C, rel=1e-12) == best.N * best.D * 6
    assert np.log(walked(replace(surface, E=0.0), C) / best.N) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("wrong", [0.9, 1.1])
def test_sabotage_another_size_is_not_the_lowest(wrong):
    for surface in PUBLISHED:
        assert abs(np.log(walked(surface, 1e22) / (wrong * surface.optimum(1e22).N))) > 0.05


@given(surface=SURFACES, C=BUDGETS)
def test_the_tokens_of_a_given_size_are_those_of_the_budget_whose_best_it_is(surface, C):
    best = surface.optimum(C)
    constants = (surface.A, surface.alpha, surface.B, surface.beta)
    assert optimal_tokens(best.N, *constants) == pytest.approx(best.D, rel=1e-9)


def test_sabotage_the_tokens_of_another_size_are_not():
    law = LossSurface.besiroglu()
    best = law.optimum(1e22)
    other = optimal_tokens(1.1 * best.N, law.A, law.alpha, law.B, law.beta)
    assert other > 1.05 * best.D


def test_at_the_optimum_both_terms_fall_equally_fast_exactly():
    N, C, A, B, E = sp.symbols("N C A B E", positive=True)
    a, b = sp.symbols("a b", positive=True)
    slope = sp.diff(run_loss(N, C / (6 * N), E, A, a, B, b), N)
    at = {A: 3, B: 5, a: sp.Rational(1, 3), b: sp.Rational(1, 2), C: 600}
    there = best_params(C, A, a, B, b).subs(at)
    assert abs(sp.N(slope.subs(at).subs(N, there), 60)) < 1e-50


@given(surface=SURFACES, C=BUDGETS, times=st.floats(1.1, 1e4))
def test_the_excess_along_the_frontier_is_one_power_of_compute(surface, C, times):
    bare = replace(surface, E=0.0)
    power = frontier_power(surface.alpha, surface.beta)
    assert bare.frontier(C) / bare.frontier(C * times) == pytest.approx(times**power, rel=1e-9)
    half = excess_compute_factor(surface.alpha, surface.beta)
    assert bare.frontier(C * half) == pytest.approx(bare.frontier(C) / 2, rel=1e-9)


def test_sabotage_the_loss_itself_is_no_power_of_compute():
    law = LossSurface.besiroglu()
    slopes = [np.log(law.frontier(C) / law.frontier(10 * C)) for C in (1e18, 1e24)]
    assert slopes[0] > 2 * slopes[1]


def test_the_powers_of_the_two_best_sizes_add_up_to_one():
    for surface in PUBLISHED:
        near, far = surface.optimum(1e20), surface.optimum(1e23)
        of_N, of_D = np.log10(far.N / near.N) / 3, np.log10(far.D / near.D) / 3
        assert of_N == pytest.approx(surface.beta / (surface.alpha + surface.beta))
        assert of_N + of_D == pytest.approx(1)


def test_the_valley_is_flat():
    for surface in (LossSurface.hoffmann(), LossSurface.besiroglu()):
        best = surface.optimum(1e22)
        rise = {k: surface(k * best.N, best.D / k) - best.loss for k in (0.25, 0.5, 2, 4)}
        assert max(rise[0.5], rise[2]) < 0.0115 and max(rise[0.25], rise[4]) < 0.05
        bend = surface.alpha * surface.terms(best.N, best.D)[1] * (surface.alpha + surface.beta) / 2
        assert rise[2] == pytest.approx(bend * np.log(2) ** 2, rel=0.1)


@pytest.mark.parametrize(
    ("surface", "N", "ratio"),
    [(LossSurface.hoffmann(), 32e9, 93), (LossSurface.hoffmann(False), 40e9, 59),
     (LossSurface.besiroglu(), 72e9, 18)],
)  # fmt: skip
def test_the_best_of_chinchillas_budget_by_three_published_fits(surface, N, ratio):
    best = surface.optimum(5.76e23)
    assert pytest.approx(N, rel=0.02) == best.N and round(best.tokens_per_param) == ratio


@given(surface=SURFACES, N=st.floats(1e6, 1e12), D=st.floats(1e7, 1e13))
def test_isoloss_leads_back_to_the_loss(surface, N, D):
    bare = replace(surface, E=0.0)  # of a large E the difference is lost in rounding
    loss = bare(N, D)
    data = bare.terms(N, D)[2]
    if data > 1e-6 * loss:
        assert bare.isoloss(N, loss) == pytest.approx(D, rel=1e-6)
        constants = (bare.A, bare.alpha, bare.B, bare.beta)
        assert isoloss_tokens(N, loss, 0.0, *constants) == pytest.approx(D, rel=1e-6)


def test_a_loss_that_a_size_never_reaches_takes_endless_tokens():
    law = LossSurface.besiroglu()
    least = (law.A / (1.974 - law.E)) ** (1 / law.alpha)
    assert (
        law.isoloss(0.999 * least, 1.974) == np.inf and law.isoloss(1.001 * least, 1.974) < np.inf
    )
    assert law.isoloss(np.array([1e9, 1e12]), 1.974)[0] == np.inf


def test_terms_add_up_and_runs_of_one_size_keep_the_term_of_size():
    law = LossSurface.besiroglu()
    E, size, data = law.terms(7e9, 2e12)
    assert E + size + data == pytest.approx(law(7e9, 2e12), rel=1e-15)
    assert sized_excess(2e12, size, law.B, law.beta) == pytest.approx(size + data, rel=1e-15)


def test_many_surfaces_at_once_are_each_of_them():
    both = LossSurface(*(np.array(pair) for pair in zip(
        *((s.E, s.A, s.alpha, s.B, s.beta) for s in PUBLISHED), strict=True)))  # fmt: skip
    for k, surface in enumerate(PUBLISHED):
        assert both(1e10, 1e11)[k] == surface(1e10, 1e11)
        assert both.optimum(1e22).N[k] == surface.optimum(1e22).N


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"alpha": 0.0}, "alpha is 0.0, but must be above 0"), ({"E": -0.1}, "E is -0.1"),
     ({"B": float("nan")}, "B is nan"), ({"A": float("inf")}, "A is inf")],
)  # fmt: skip
def test_what_is_no_surface_is_refused_by_name(wrong, says):
    with pytest.raises(ValueError, match=says):
        replace(LossSurface.besiroglu(), **wrong)


def test_a_budget_must_be_positive():
    with pytest.raises(ValueError, match="C is 0, but must be above 0"):
        LossSurface.besiroglu().optimum(0)
