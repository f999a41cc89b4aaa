"""What 245 published points say of two published fits."""

import numpy as np
import pytest

from dtlib.scaling_laws import (
    LossSurface,
    fit_parametric,
    frontier_power,
    hoffmann_runs,
    lifetime_optimum,
)
from dtlib.scaling_laws.loss_surface import huber

CONSTANTS = ("E", "A", "alpha", "B", "beta")


@pytest.fixture(scope="module")
def fit():
    return fit_parametric(hoffmann_runs())


def off(law, runs):
    return np.log(runs.loss / law(runs.N, runs.D))


def test_the_published_fit_lies_in_our_intervals(fit):
    published = LossSurface.besiroglu()
    for name in CONSTANTS:
        low, high = fit.interval[name]
        assert low <= getattr(published, name) <= high
    assert pytest.approx(published.E, abs=5e-4) == fit.surface.E
    assert fit.surface.alpha == pytest.approx(published.alpha, abs=2e-3)
    assert fit.surface.beta == pytest.approx(published.beta, abs=4e-3)


def test_the_published_fit_is_ours_with_a_width_that_is_fitted_too(fit):
    """Besiroglu et al. fit the errors' width; then the border of the penalty is 0.001 of that."""
    runs = hoffmann_runs()
    x, y = np.log(runs.N), np.log(runs.D)
    centred = x - x.mean(), y - y.mean(), np.log(runs.loss)
    s = fit.surface
    start = [[np.log(s.A) - s.alpha * x.mean(), s.alpha,
              np.log(s.B) - s.beta * y.mean(), s.beta, np.log(s.E)]]  # fmt: skip
    theirs = LossSurface.besiroglu()

    def distance(delta):
        t, _ = huber.descend(start, *centred, np.ones((1, len(runs))), delta)
        return abs(t[0, 1] - theirs.alpha) + abs(t[0, 3] - theirs.beta)

    assert distance(1e-4) < distance(1e-3) / 2


def test_the_printed_constants_lie_above_their_own_points(fit):
    runs, printed = hoffmann_runs(), LossSurface.hoffmann()
    assert np.mean(off(printed, runs) < 0) > 0.95
    assert np.sqrt(np.mean(off(printed, runs) ** 2)) > 2 * np.sqrt(np.mean(fit.residuals**2))
    low, _ = fit.interval["E"]
    assert low > printed.E


def test_sabotage_the_longer_digits_do_not_lie_to_one_side():
    assert 0.2 < np.mean(off(LossSurface.hoffmann(rounded=False), hoffmann_runs()) < 0) < 0.8


def test_the_five_that_are_left_out_have_the_fewest_tokens_for_a_parameter():
    every, kept = hoffmann_runs(outliers=True), hoffmann_runs()
    assert (len(every), len(kept)) == (245, 240)
    left = ~np.isin(every.loss * every.N, kept.loss * kept.N)
    assert left.sum() == 5 and every.tokens_per_param[left].max() < kept.tokens_per_param.min()
    assert every.loss[left].min() > kept.loss.max()
    assert np.allclose(every.C, 6 * every.N * every.D, rtol=1e-4)


def test_five_points_move_the_ratio_by_more_than_a_factor_of_two(fit):
    whole = fit_parametric(hoffmann_runs(outliers=True))
    ratios = [one.surface.optimum(5.76e23).tokens_per_param for one in (fit, whole)]
    assert ratios[0] > 2 * ratios[1]


def test_hidden_budgets_are_foretold_in_loss_and_not_in_ratio(fit):
    runs = hoffmann_runs()
    past = fit_parametric(runs[runs.C < 1e20], draws=200)
    hidden = runs[runs.C >= 1e20]
    assert len(hidden) > 100 and hidden.C.max() > 100e20
    assert np.sqrt(np.mean(off(past.surface, hidden) ** 2)) < 0.013
    ratio = fit.surface.optimum(5.76e23).tokens_per_param
    assert past.surface.optimum(5.76e23).tokens_per_param < ratio / 4
    drawn = past.drawn.optimum(5.76e23).tokens_per_param
    assert np.quantile(drawn, 0.975) < ratio


def share_of_the_best(law, N, D):
    """The least compute that reaches the loss of N and D, over theirs: a power of two excesses."""
    excess, least = law(N, D) - law.E, law.frontier(6 * N * D) - law.E
    return (least / excess) ** (1 / frontier_power(law.alpha, law.beta))


def test_half_to_four_fifths_of_gpt_3s_arithmetic_reach_its_loss(fit):
    """What the front page says of the law; the exact share is that of the cheapest run."""
    law, run = LossSurface.besiroglu(), (175e9, 300e9)
    cheapest = lifetime_optimum(law, law(*run))
    assert share_of_the_best(law, *run) == pytest.approx(
        cheapest.training / (6 * 175e9 * 300e9), rel=1e-6
    )
    low, high = np.quantile(share_of_the_best(fit.drawn, *run), [0.025, 0.975])
    assert (round(low, 2), round(high, 2)) == (0.46, 0.80)


def test_sabotage_a_run_that_is_divided_well_has_nothing_to_save():
    law = LossSurface.besiroglu()
    best = law.optimum(3.15e23)
    assert share_of_the_best(law, best.N, best.D) == pytest.approx(1, abs=1e-9)
