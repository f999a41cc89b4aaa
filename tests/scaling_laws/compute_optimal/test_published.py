"""Porian's runs: the authors' powers from our own procedure, step by step."""

import numpy as np
import pytest

from dtlib.scaling_laws import PORIAN_SETTINGS, Runs, fit_isoflop, porian_runs


@pytest.mark.parametrize("name", PORIAN_SETTINGS)
def test_the_authors_powers_lie_within_our_intervals(name):
    low, high = fit_isoflop(porian_runs(name)).law.interval
    assert low < PORIAN_SETTINGS[name].exponent < high
    assert high - low < 0.1


def test_the_intervals_would_notice_another_settings_power():
    others = {"kaplan": "head", "head": "warmup", "warmup": "tuned", "tuned": "warmup"}
    for name, other in others.items():
        low, high = fit_isoflop(porian_runs(name)).law.interval
        assert not low < PORIAN_SETTINGS[other].exponent < high


@pytest.mark.parametrize("window", [2.5, 3, 4])
def test_each_step_lowers_the_power_whatever_the_window(window):
    powers = [
        fit_isoflop(porian_runs(name), window, resamples=1).law.exponent
        for name in ("kaplan", "head", "warmup", "decay", "tuned")
    ]
    assert (np.diff(powers) < -0.02).all()


def test_counting_the_last_layer_adds_width_times_vocabulary_to_the_same_models():
    bare, whole = (np.unique(porian_runs(name).N) for name in ("kaplan", "head"))
    added = {round((b - a) / 50_432) for a in bare for b in whole if (b - a) % 50_432 == 0}
    assert len(added) >= 10 and all(width % 32 == 0 for width in added)
    assert (bare[0], whole[0]) == (331_776, 331_776 + 96 * 50_432)


def test_another_setting_is_refused_by_name():
    with pytest.raises(ValueError, match="'kaplan' or 'head'"):
        porian_runs("chinchilla")


def test_a_row_without_a_number_is_refused():
    runs = porian_runs("tuned")
    loss = runs.loss.copy()
    loss[3] = float("nan")
    with pytest.raises(ValueError, match="loss of row 3"):
        Runs(runs.N, runs.D, loss)
