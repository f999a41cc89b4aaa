"""The language is what it says: its entropy rate is a sum, and every letter's law is known."""

from fractions import Fraction
from itertools import product
from math import log

import mpmath
import numpy as np
import pytest

from dtlib.scaling_laws.grid import ZipfWords

TINY = {"words": 6, "length": 2, "letters": 3, "exponent": 2.0, "shift": 1.0}


def exact_p(words: int = 6, exponent: int = 2, shift: int = 1) -> list[Fraction]:
    weights = [Fraction(1, (k + shift) ** exponent) for k in range(1, words + 1)]
    return [weight / sum(weights) for weight in weights]


def text_law(language: ZipfWords, words: int) -> dict[tuple[int, ...], Fraction]:
    """Every text of so many words and its exact probability, one by one."""
    law: dict[tuple[int, ...], Fraction] = {}
    spelled = [tuple(map(int, word)) for word in language.spelled_wl]
    for ranks in product(range(language.words), repeat=words):
        text = sum((spelled[rank] for rank in ranks), ())
        chance = Fraction(1)
        for rank in ranks:
            chance *= exact_p()[rank]
        law[text] = law.get(text, 0) + chance
    return law


def entropy(law: dict) -> float:
    return -sum(float(p) * log(p) for p in law.values())


@pytest.mark.parametrize("words", [1, 2, 3])
def test_a_letters_share_of_the_entropy_of_all_texts_is_E(words):
    language = ZipfWords(**TINY)
    letters = words * language.length
    assert entropy(text_law(language, words)) / letters == pytest.approx(language.E, rel=1e-14)


def test_E_is_the_sum_of_the_letters_conditional_entropies():
    language = ZipfWords(**TINY)
    law, found = text_law(language, 1), 0.0
    for known in range(language.length):
        for word, chance in law.items():
            begun = sum(p for other, p in law.items() if other[:known] == word[:known])
            longer = sum(p for other, p in law.items() if other[: known + 1] == word[: known + 1])
            found -= float(chance) * log(longer / begun)
    assert found / language.length == pytest.approx(language.E, rel=1e-14)


def hurwitz_entropy(words: int, exponent: float, shift: float) -> float:
    """H of p ~ (k + shift)^-s: log Z + s M / Z, by zeta functions and never by a sum over words."""

    def between(derivative: int):
        ends = (shift + 1, shift + words + 1)
        first, last = (mpmath.zeta(exponent, end, derivative) for end in ends)
        return first - last

    Z, M = between(0), -between(1)
    return float(mpmath.log(Z) + exponent * M / Z)


def test_the_books_E_is_that_of_two_zeta_functions():
    assert hurwitz_entropy(2**17, 1.5, 4) / 4 == pytest.approx(ZipfWords().E, rel=1e-13)


@pytest.mark.parametrize("other", [{"shift": 3.999}, {"words": 2**17 - 1}, {"exponent": 1.5001}])
def test_another_language_has_another_E(other):
    law = {"words": 2**17, "exponent": 1.5, "shift": 4.0}
    assert hurwitz_entropy(**law) != pytest.approx(4 * ZipfWords(**law | other).E, rel=1e-9)


def test_no_two_words_are_spelled_alike():
    spelled = ZipfWords().spelled_wl
    assert len(np.unique(spelled, axis=0)) == 2**17
    assert spelled.min() == 0 and spelled.max() == 31


def test_next_letter_is_what_counting_all_words_gives():
    language = ZipfWords(**TINY)
    law = text_law(language, 1)
    found = language.next_letter(np.arange(language.words))
    for rank, word in enumerate(map(tuple, language.spelled_wl)):
        for known in range(language.length):
            begun = sum(p for other, p in law.items() if other[:known] == word[:known])
            for letter in range(language.letters):
                after = (*word[:known], letter)
                longer = sum(p for other, p in law.items() if other[: known + 1] == after)
                assert found[rank, known, letter] == pytest.approx(float(longer / begun), abs=1e-15)


@pytest.mark.parametrize("count", [10, 37, 1000])
def test_quantile_words_are_within_one_of_their_expectation(count):
    language = ZipfWords(**TINY)
    found = np.bincount(language.quantile_words(count), minlength=language.words)
    assert found.sum() == count
    assert (abs(found - count * language.p) <= 1).all()


def test_words_drawn_at_random_are_not():
    language = ZipfWords(**TINY)
    drawn = np.random.default_rng(0).choice(language.words, 1000, p=language.p)
    assert (abs(np.bincount(drawn, minlength=6) - 1000 * language.p) > 1).any()


def test_a_text_follows_from_its_key_and_has_the_words_of_the_law():
    language, count = ZipfWords(**TINY), 20_000
    text = language.text(count, [1, 2])
    assert (text == language.text(count, [1, 2])).all()
    assert (text != language.text(count, [1, 3])).any()
    spelled = language.spelled_wl @ [3, 1]
    found = np.array([(text.reshape(-1, 2) @ [3, 1] == code).sum() for code in spelled])
    error = np.sqrt(count * language.p * (1 - language.p))
    assert found.sum() == count
    assert (abs(found - count * language.p) < 4 * error).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"words": 10}, "ZipfWords: words is 10, but must be at most letters^length = 9"),
        ({"letters": 0}, "letters is 0"),
        ({"exponent": -1.0}, "exponent is -1.0, but must be a positive number"),
        ({"shift": -0.5}, "shift is -0.5"),
    ],
)
def test_a_language_that_cannot_be_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message.replace("^", r"\^")):
        ZipfWords(**TINY | wrong)
