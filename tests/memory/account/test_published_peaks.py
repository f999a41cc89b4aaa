"""The cited peaks: how far the textbook and the account are off, and on which side."""

from statistics import mean

import pytest

from dtlib.memory import AllocatorModel
from dtlib.memory.account.published import published_peaks


def missed(predict):
    return mean(abs(predict(run) / run.bytes - 1) for run in published_peaks)


def test_on_eight_cited_runs_counting_halves_the_textbooks_error():
    textbook = missed(lambda run: run.textbook())
    counted = missed(lambda run: run.account(None))
    reserved = missed(lambda run: run.account(AllocatorModel()))
    assert textbook > 0.25 and counted < textbook / 2 and reserved < counted


def test_the_textbook_promises_too_little_on_every_one_of_them():
    assert all(run.textbook() < run.bytes for run in published_peaks)


@pytest.mark.parametrize("run", published_peaks, ids=lambda run: f"{run.name}-{run.bytes:.0f}")
def test_a_reserve_is_added_and_takes_nothing_away(run):
    assert run.account(None) < run.account(AllocatorModel()) < 2 * run.bytes


def test_sabotage_a_recipe_without_passing_gradients_is_further_off():
    careless = missed(lambda run: run.account(None, recipe="mixed"))
    assert careless > 1.5 * missed(lambda run: run.account(None))
