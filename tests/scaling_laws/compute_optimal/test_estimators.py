"""Parabolas and envelopes on runs whose truth is known, and what they refuse to say."""

import numpy as np
import pytest

from dtlib.scaling_laws import (
    LossCurve,
    LossSurface,
    NoEnvelope,
    NoOptimum,
    Runs,
    at_budgets,
    fit_envelope,
    fit_isoflop,
    isoflop_runs,
    surface_curves,
)

LAW = LossSurface.hoffmann()
BUDGETS = [1e18, 1e19, 1e20, 1e21]
POWER = LAW.beta / (LAW.alpha + LAW.beta)


@pytest.mark.parametrize("span", [2, 4, 8])
def test_the_foot_is_off_by_what_the_cubic_says_and_the_power_is_right(span):
    runs = isoflop_runs(LAW, BUDGETS, sizes=81, span=span)
    found = fit_isoflop(runs, window=span**2, resamples=1)
    due = -(LAW.beta - LAW.alpha) * np.log(span) ** 2 / 10
    for one in found.used:
        assert np.log(one.best / LAW.optimum(one.budget).N) == pytest.approx(due, rel=0.1)
    assert found.law.exponent == pytest.approx(POWER, abs=2e-4)


def test_a_grid_whose_middle_drifts_bends_the_power_and_one_that_is_off_does_not():
    def power(off):
        runs = isoflop_runs(LAW, BUDGETS, sizes=41, span=8, off=off)
        return fit_isoflop(runs, window=64, resamples=1).law.exponent

    assert abs(power(2.0) - POWER) < 3e-4
    assert abs(power(np.array([1.0, 2.0, 3.0, 4.0])) - POWER) > 3e-3


def test_an_exact_parabola_is_found_exactly():
    foot = {1e15: 1e6, 1e17: 1e7, 1e19: 1e8}
    N = np.concatenate([best * 2.0 ** np.arange(-2, 3) for best in foot.values()])
    C = np.repeat(list(foot), 5)
    loss = 2 * np.exp(0.01 * np.log(N / np.repeat(list(foot.values()), 5)) ** 2)
    found = fit_isoflop(Runs(N, C / 6 / N, loss), window=4)
    assert [one.best for one in found.used] == pytest.approx(list(foot.values()))
    assert (found.law.exponent, found.law.coefficient) == pytest.approx((0.5, 10**-1.5))
    assert found.used[0].lowest == pytest.approx(2)


def refusals(losses, sizes=(1e6, 2e6, 4e6, 8e6, 16e6), window=4.0):
    """What is said of one budget with these losses, beside two that are well."""
    well = isoflop_runs(LAW, [1e20, 1e21], sizes=33)
    N = np.array(sizes)
    D = 1e17 / 6 / N
    runs = Runs(np.append(well.N, N), np.append(well.D, D), np.append(well.loss, losses))
    return fit_isoflop(runs, window=window, resamples=10).refused.get(1e17)


def test_a_budget_that_does_not_show_its_best_model_is_refused_with_its_reason():
    assert refusals([3.2, 3.1, 3.0, 3.1, 3.2]) is None
    assert "smallest model" in refusals([3.0, 3.1, 3.2, 3.3, 3.4])
    assert "largest model" in refusals([3.4, 3.3, 3.2, 3.1, 3.0])
    assert "3 points near" in refusals([3.2, 3.1, 3.0, 3.1, 3.2], window=2)
    sizes = (1e6, 2e6, 2.1e6, 4e6, 4.2e6)
    found = refusals([3.41, 3.16, 3.17, 2.96, 2.97], sizes, window=2.1)
    assert "outside of its points" in found


def test_a_single_budget_is_no_line_and_the_error_says_so():
    with pytest.raises(NoOptimum, match="1 of 1 budgets show a best model; a line needs 2"):
        fit_isoflop(isoflop_runs(LAW, [1e20]))


def test_a_refused_parabola_has_no_foot():
    runs = isoflop_runs(LAW, BUDGETS, off=[0.02, 1.0, 1.0, 1.0])
    refused = fit_isoflop(runs, resamples=10).parabolas[0]
    with pytest.raises(NoOptimum, match="the largest model has the lowest loss"):
        _ = refused.best


def test_seeds_of_one_size_count_as_their_mean():
    once = isoflop_runs(LAW, BUDGETS, noise=0.01, seed=1)
    twice = isoflop_runs(LAW, BUDGETS, noise=0.01, seed=2)
    both = Runs(*(np.append(a, b) for a, b in ((once.N, twice.N), (once.D, twice.D),
                                               (once.loss, twice.loss))))  # fmt: skip
    mean = Runs(once.N, once.D, (once.loss + twice.loss) / 2)
    assert fit_isoflop(both, resamples=1).law.exponent == pytest.approx(
        fit_isoflop(mean, resamples=1).law.exponent
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_holds_the_true_power_and_shrinks_with_the_noise(seed):
    widths = []
    for noise in (0.02, 0.002):
        runs = isoflop_runs(LAW, BUDGETS, sizes=13, noise=noise, seed=seed)
        low, high = fit_isoflop(runs, window=9).law.interval
        assert low < POWER < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 3


def test_an_envelope_of_many_sizes_finds_the_power_and_few_make_it_a_staircase():
    fine = surface_curves(LAW, np.geomspace(1e7, 1e10, 60))
    coarse = surface_curves(LAW, np.geomspace(1e7, 1e10, 6))
    errors = [abs(fit_envelope(some, resamples=5).law.exponent - POWER) for some in (fine, coarse)]
    assert errors[0] < 0.01
    assert errors[1] > 3 * errors[0]


def test_the_winners_are_those_of_a_comparison_of_all_with_all():
    curves = surface_curves(LAW, np.geomspace(1e7, 1e9, 8), tokens_per_param=(0.1, 5000))
    found = fit_envelope(curves, resamples=5)
    sizes = np.array([curve.N for curve in curves])
    for C, winner in zip(found.budgets[::20], found.winners[::20], strict=True):
        assert winner == sizes[LAW(sizes, C / 6 / sizes).argmin()]
    assert not {sizes.min(), sizes.max()} & set(found.winners)


def test_curves_of_which_only_the_ends_win_have_no_envelope():
    flat = [LossCurve(N, (1e8, 1e10), (3 + k / 10, 2 + k / 10)) for k, N in enumerate(
        (1e6, 2e6, 4e6, 8e6))]  # fmt: skip
    with pytest.raises(NoEnvelope, match="of 4 sizes"):
        fit_envelope(flat)
    with pytest.raises(ValueError, match="at least 4 sizes"):
        fit_envelope(flat[:3])


@pytest.mark.parametrize(
    ("tokens", "losses", "said"),
    [((1, 2), (3.0, float("nan")), "losses"), ((2, 1), (3, 2), "growing"), ((1,), (3,), "two")],
)
def test_a_curve_that_is_none_is_refused(tokens, losses, said):
    with pytest.raises(ValueError, match=said):
        LossCurve(1e6, tokens, losses)


def test_budgets_between_runs_are_met_and_none_is_extrapolated():
    N, D = np.meshgrid(np.geomspace(1e7, 1e9, 7), np.geomspace(1e9, 1e11, 15))
    runs = Runs(N.ravel(), D.ravel(), LAW(N, D).ravel())
    found = at_budgets(runs, [1e18, 1e19], floor=LAW.E)
    assert found.loss == pytest.approx(LAW(found.N, found.D), rel=2e-3)
    assert (found.D >= 0.99e9).all() and (found.D <= 1.01e11).all()
    assert len(found) < 2 * 7
    with pytest.raises(ValueError, match="floor"):
        at_budgets(runs, [1e18], floor=3.0)
    with pytest.raises(ValueError, match="between runs of one size"):
        at_budgets(runs, [1e30])
