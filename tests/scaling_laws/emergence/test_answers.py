"""Questions that have one answer: which they are, and that a product needs no drawing."""

import math

import numpy as np
import pytest
import torch

from dtlib.scaling_laws import (
    all_right,
    answer_log_probs,
    certain_words,
    counted_right,
    question_windows,
)
from dtlib.scaling_laws.grid.language import ZipfWords

LANGUAGE = ZipfWords()
RANKS = certain_words(LANGUAGE, 0, 128)


class Knows(torch.nn.Module):
    """A model that gives the answer's letter the probability `chance`, and all others the rest."""

    def __init__(self, text_bs, chance):
        super().__init__()
        self.text_bs, self.logit = text_bs, math.log(chance / ((1 - chance) / LANGUAGE.letters))

    def forward(self, x_bs):
        logits = torch.zeros(*x_bs.shape, LANGUAGE.letters + 1)
        return logits.scatter(-1, self.text_bs[..., None], self.logit)


def test_the_last_letter_follows_from_the_others():
    by_begin = {}
    for rank in range(LANGUAGE.words):
        by_begin.setdefault(tuple(LANGUAGE.spelled_wl[rank, :3]), []).append(rank)
        if rank > 20_000:
            break
    for rank in RANKS[:40]:
        alike = by_begin[tuple(LANGUAGE.spelled_wl[rank, :3])]
        assert LANGUAGE.p[rank] >= 0.9 * LANGUAGE.p[alike].sum() * (1 - 1e-9)


def test_a_model_that_knows_so_much_is_measured_so():
    windows = question_windows(LANGUAGE, RANKS, 20)
    log_probs = answer_log_probs(Knows(windows, 0.8), windows, LANGUAGE)
    assert log_probs.shape == (20, 8)
    assert np.exp(log_probs) == pytest.approx(0.8, abs=1e-5)
    for k in (1, 3, 8):
        assert all_right(log_probs, k) == pytest.approx(0.8**k, rel=1e-4)


def test_the_product_is_what_drawing_finds():
    draw = np.random.default_rng(0)
    log_probs = np.log(draw.uniform(0.3, 1, (200, 4)))
    drawn = [(draw.random((200, 4)) < np.exp(log_probs)).all(axis=1).mean() for _ in range(500)]
    error = np.std(drawn) / len(drawn) ** 0.5
    assert np.mean(drawn) == pytest.approx(all_right(log_probs, 4), abs=5 * error)


def test_hard_items_and_easy_ones_are_more_often_right_than_their_mean_loss_says():
    draw = np.random.default_rng(1)
    log_probs = -draw.uniform(0.1, 2, (300, 1)) * np.ones((1, 8))
    assert all_right(log_probs, 8) > 10 * math.exp(8 * log_probs.mean())
    alike = np.full((300, 8), -0.5)
    assert all_right(alike, 8) == pytest.approx(math.exp(-4))


def test_a_small_test_shows_nothing_of_what_the_product_measures():
    assert counted_right([1e-4], items=50) == 0.0
    assert counted_right([1e-4], items=400_000) == pytest.approx(1e-4, rel=0.5)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: certain_words(LANGUAGE, 5000, 5003, least=1.1), "least is 1.1"),
        (lambda: all_right(np.zeros((2, 3)), 4), "in_a_row is 4, but must be from 1 to 3"),
        (lambda: counted_right([0.5], 0), "items is 0"),
        (lambda: question_windows(LANGUAGE, RANKS, 0), "count is 0"),
    ],
)
def test_bad_input_is_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()
