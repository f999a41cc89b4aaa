"""Repeated tokens: a sum of a falling series, its border, and the surface that it bends."""

import numpy as np
import pytest

from dtlib.scaling_laws import LossSurface, RepeatedSurface, effective_tokens


@pytest.mark.parametrize("decay", [5.0, 15.387756, 60.0])
def test_repetitions_are_the_sum_of_a_series_in_which_each_is_worth_the_same_share_of_the_last(
    decay,
):
    # Of small pieces of a pass each is worth exp(-1/(decay * pieces)) of the one before.
    pieces, repetitions = 1000, 7
    share = np.exp(-1 / (decay * pieces))
    series = sum(share**k for k in range(repetitions * pieces)) / pieces
    assert effective_tokens(1 + repetitions, 1, decay) == pytest.approx(1 + series, rel=1e-3)


def test_all_repetitions_are_worth_a_bounded_number_of_passes():
    worth = [effective_tokens(epochs, 1, 15.4) for epochs in (1, 2, 10, 100, 1e6)]
    assert worth == sorted(worth) and worth[-1] == pytest.approx(16.4)
    assert worth[1] < 2


def test_a_first_pass_counts_in_full():
    assert effective_tokens(3e9, 1e10, 15.4) == 3e9
    law = LossSurface.besiroglu()
    plenty = RepeatedSurface(law, unique=1e13)
    assert plenty(1e9, 2e10) == pytest.approx(float(law(1e9, 2e10)))


def test_the_text_feeds_the_model_for_which_it_is_compute_optimal():
    law = LossSurface.besiroglu()
    scarce = RepeatedSurface(law, unique=law.optimum(1e21).D)
    assert scarce.fed == pytest.approx(law.optimum(1e21).N)


def test_with_scarce_text_the_optimum_has_fewer_parameters_and_a_higher_loss():
    scarce = RepeatedSurface.muennighoff(1e11)
    for C in (1e22, 1e23, 1e24):
        N, D = scarce.optimum(C)
        fresh = scarce.surface.optimum(C)
        assert N < fresh.N and scarce.unique < D and scarce(N, D) > fresh.loss
        for factor in (0.8, 1.25):
            assert scarce(N * factor, D / factor) > scarce(N, D)


def test_without_decay_a_repeated_token_is_a_fresh_one():
    law = LossSurface.besiroglu()
    kind = RepeatedSurface(law, 1e10, tokens_decay=1e9, params_decay=1e9)
    assert kind(1e10, 1e12) == pytest.approx(float(law(1e10, 1e12)), rel=1e-4)


def test_numbers_that_are_none_are_refused_by_name():
    with pytest.raises(ValueError, match="unique"):
        RepeatedSurface(LossSurface.besiroglu(), unique=0)
    with pytest.raises(ValueError, match="C"):
        RepeatedSurface.muennighoff(1e11).optimum(-1)
