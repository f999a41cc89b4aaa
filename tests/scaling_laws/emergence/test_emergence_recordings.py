"""What chapter 9 says of its recorded runs holds of all of them."""

import math
from itertools import pairwise

import pytest

from dtlib import recordings
from dtlib.scaling_laws import exact_match, local_exponents


@pytest.fixture(scope="module")
def words():
    recording = recordings.load("emergence-words")
    columns = {name: recording.values(name) for name in recording.spread}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def trunks(words):
    for key in {(run["width"], run["seed"]) for run in words}:
        yield [run for run in words if (run["width"], run["seed"]) == key]


def test_every_loss_falls_with_the_letters(words):
    for trunk in trunks(words):
        for name in ("excess", "answer loss, common"):
            values = [run[name] for run in trunk]
            assert values == sorted(values, reverse=True)


def test_eight_right_is_never_less_than_the_mean_loss_says(words):
    for run in words:
        assert run["8 right, common"] >= exact_match(run["answer loss, common"], 8) * 0.999
        assert run["8 right, common"] <= run["1 right, common"]


def test_a_hundred_tries_would_show_none_where_the_loss_has_halved_already(words):
    for trunk in trunks(words):
        unseen = [run for run in trunk if run["8 right, common"] < 0.01]
        assert unseen[-1]["8 right, common"] < 0.01 and trunk[-1]["8 right, common"] > 0.3
    below = [run["answer loss, common"] for run in words if run["8 right, common"] < 0.01]
    assert max(below) > 2 * min(below)


def test_two_widths_of_one_loss_answer_alike(words):
    pairs = [
        (a["answer loss, common"], b["answer loss, common"])
        for a in words
        for b in words
        if a["width"] < b["width"]
        and abs(math.log(a["excess"] / b["excess"])) < 0.03
        and a["excess"] < 0.4
    ]
    assert len(pairs) >= 5
    for one, other in pairs:
        assert abs(math.log(one / other)) < 0.5
    # at one budget, five widths differ by far more
    same = [run["answer loss, common"] for run in words if run["tokens"] == 2**20]
    assert max(same) > 5 * min(same)


def test_the_rule_is_the_later_the_less_decay_and_never_without():
    late = recordings.load("emergence-grokking")
    by_decay = [
        sorted(late.values(f"test loss below chance, decay {decay:g}"))
        for decay in (2, 1, 0.5, 0.25)
    ]
    for early, later in pairwise(by_decay):
        assert all(a < b for a, b in zip(early, later, strict=True))
    assert set(late.values("test loss below chance, decay 0")) == {-1}
    assert all(late.values("test right at the end, decay 1")[seed] == 1 for seed in range(3))


def test_the_loss_of_two_layers_bends_at_every_seed_and_that_of_one_does_not():
    copying = recordings.load("emergence-induction")

    def steepest(layers, seed):
        steps, losses = (
            copying.values(f"{what}, {layers}, seed {seed}")[5::5] for what in ("step", "repeated")
        )
        return max(local_exponents(steps, losses))

    assert all(steepest("2 layers", seed) > 4 for seed in (0, 1, 2))
    assert all(steepest("1 layer", seed) < 0.3 for seed in (0, 1))
