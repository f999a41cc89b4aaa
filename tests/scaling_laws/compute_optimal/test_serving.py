"""Smaller models and longer lives, against searches that know nothing of the formulas."""

from itertools import pairwise

import numpy as np
import pytest

from dtlib.scaling_laws import (
    LossSurface,
    least_params,
    least_shrink,
    lifetime_flops,
    lifetime_optimum,
    over_training_factor,
)

LAWS = {"hoffmann": LossSurface.hoffmann(), "besiroglu": LossSurface.besiroglu()}
EACH = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


@EACH
@pytest.mark.parametrize("shrink", [0.2, 0.5, 0.9, 1.0, 3.0])
def test_what_a_smaller_model_costs_is_the_same_at_every_budget(law, shrink):
    due = over_training_factor(shrink, law.alpha, law.beta)
    for C in (1e19, 1e24):
        best = law.optimum(C)
        N = shrink * best.N
        assert 6 * N * law.isoloss(N, best.loss) / C == pytest.approx(due, rel=1e-6)


@EACH
def test_the_compute_optimal_model_is_the_cheapest_to_train(law):
    shrinks = np.linspace(0.3, 3, 2701)
    costs = [over_training_factor(k, law.alpha, law.beta) for k in shrinks]
    assert min(costs) >= 1 and shrinks[int(np.argmin(costs))] == pytest.approx(1)


@EACH
def test_below_the_least_share_no_number_of_tokens_is_enough(law):
    share, best = least_shrink(law.alpha, law.beta), law.optimum(1e23)
    assert least_params(law, best.loss) == pytest.approx(share * best.N)
    assert np.isinf(law.isoloss(0.99 * share * best.N, best.loss))
    assert np.isfinite(law.isoloss(1.01 * share * best.N, best.loss))
    with pytest.raises(ZeroDivisionError):
        over_training_factor(0.99 * share, law.alpha, law.beta)


@EACH
@pytest.mark.parametrize("served", [0, 1e11, 1e13, 1e16])
def test_no_other_size_has_a_cheaper_life(law, served):
    loss = law(70e9, 1.4e12)
    found = lifetime_optimum(law, loss, served)
    assert law(found.N, found.D) == pytest.approx(loss)
    for N in found.N * np.array([0.5, 0.9, 0.99, 1.01, 1.1, 2]):
        assert lifetime_flops(N, law.isoloss(N, loss), served) > found.flops


@EACH
def test_a_model_that_serves_nothing_is_the_compute_optimal_one(law):
    best = law.optimum(1e22)
    found = lifetime_optimum(law, best.loss)
    assert (found.N, found.training) == pytest.approx((best.N, 1e22))


def test_the_more_it_serves_the_smaller_it_is_and_the_more_tokens_it_reads():
    law = LAWS["besiroglu"]
    lives = [lifetime_optimum(law, 2.0, served) for served in (0, 1e12, 1e14, 1e18)]
    assert all(a.N > b.N and a.D < b.D for a, b in pairwise(lives))
    assert least_params(law, 2.0) < lives[-1].N


def test_numbers_that_no_model_has_are_refused_by_name():
    law = LAWS["besiroglu"]
    with pytest.raises(ValueError, match="above E"):
        lifetime_optimum(law, 1.8)
    with pytest.raises(ValueError, match="served"):
        lifetime_optimum(law, 2.0, -1)
