"""The toy reviews are what the grammar makes, and cannot be learned from one word alone."""

import pytest

from dtlib.micro_lab import sentiment
from dtlib.micro_lab.sentiment import (
    BLAME,
    FILES,
    LENGTH,
    NEGATORS,
    PRAISE,
    WORDS,
    encode,
    reviews,
    toy_sentiment,
    write_toy_sentiment,
)

BOTH = [*toy_sentiment("train"), *toy_sentiment("test")]


def verdict(text):
    """The grammar's own, read from the text by somebody who has not seen how it was made."""
    votes, sign = 0, 1
    for word in text.split():
        if word in NEGATORS:
            sign = -1
        elif word in PRAISE or word in BLAME:
            votes += sign * (1 if word in PRAISE else -1)
            sign = 1
    return int(votes > 0)


def test_the_generator_makes_the_shipped_files_byte_by_byte(tmp_path):
    for made in write_toy_sentiment(tmp_path):
        assert (
            made.read_bytes() == next(f for f in FILES.values() if f.name == made.name).read_bytes()
        )


def test_without_noise_the_majority_of_remarks_decides():
    assert all(review.label == verdict(review.text) for review in reviews(500, seed=1, noise=0))


def test_with_noise_about_15_of_100_labels_are_turned_round():
    turned = sum(review.label != verdict(review.text) for review in BOTH)
    assert 0.14 < turned / len(BOTH) < 0.16


def test_both_labels_are_as_frequent():
    assert 0.48 < sum(review.label for review in BOTH) / len(BOTH) < 0.52


def test_no_single_word_gives_the_label_away():
    for word in [*PRAISE, *BLAME]:
        labels = [review.label for review in BOTH if word in review.text.split()]
        assert 0.25 < sum(labels) / len(labels) < 0.75, word


def test_the_two_parts_share_no_review():
    train, test = ({r.text for r in toy_sentiment(part)} for part in ("train", "test"))
    assert len(train) == 4000 and len(test) == 1000 and not train & test


def test_every_review_fits_and_has_no_unknown_word():
    rows = encode(review.text for review in BOTH)
    assert {len(row) for row in rows} == {LENGTH}
    assert all(row[0] == 2 and 1 not in row and row.count(3) == 1 for row in rows)
    assert max(map(max, rows)) < len(WORDS) < 2000


def test_words_can_be_read_back():
    assert " ".join(WORDS[i] for i in encode(["not boring music"])[0][1:4]) == "not boring music"


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="noise = 2"):
        reviews(1, seed=0, noise=2)
    with pytest.raises(ValueError, match="part = 'dev'; allowed are 'train' and 'test'"):
        toy_sentiment("dev")
    with pytest.raises(ValueError, match="length = 4; 'not boring music' has 5"):
        encode(["not boring music"], length=4)


def test_another_seed_makes_other_reviews():
    assert reviews(5, seed=1) == reviews(5, seed=1) != reviews(5, seed=2)
    assert sentiment.tensors(BOTH[:3])[0].shape == (3, LENGTH)


def test_a_sentence_in_no_list_and_no_review_are_refused():
    with pytest.raises(TypeError, match="texts = 'never dull'; allowed is a list"):
        sentiment.encode("never dull")
    with pytest.raises(ValueError, match="at least one review"):
        sentiment.tensors([])
    with pytest.raises(ValueError, match="count is -1"):
        sentiment.reviews(-1, seed=1)
