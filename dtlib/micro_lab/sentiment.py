"""A toy set of film reviews, made by a grammar, so that an encoder has something to learn offline.

A review is five remarks, such as "never boring music". A remark speaks for the film or against it;
a negator turns it round. The majority decides, and then 15 in 100 labels are turned round as well,
as reviewers are: no model is right in much more than 85 of 100 cases.

The set is shipped as two files, and `write_toy_sentiment` makes the same files again, byte by byte.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from dtlib.files import write_whole
from dtlib.formulas.require import require, require_count

PRAISE = (
    "superb",
    "charming",
    "clever",
    "moving",
    "funny",
    "lovely",
    "fresh",
    "bold",
    "vivid",
    "warm",
)
BLAME = ("boring", "dull", "clumsy", "stale", "flat", "awful", "hollow", "cheap", "messy", "grim")
NEGATORS = ("not", "never", "hardly")
THINGS = (
    "plot",
    "acting",
    "music",
    "cast",
    "ending",
    "script",
    "camera",
    "jokes",
    "scenes",
    "hero",
)
JOINS = (",", ",", "and", "but", ";")
REMARKS, NEGATED, NOISE = 5, 0.1, 0.15
PAD, START, END = "[PAD]", "[CLS]", "[SEP]"
WORDS = [PAD, "[UNK]", START, END, *sorted({*PRAISE, *BLAME, *NEGATORS, *THINGS, *JOINS})]
LENGTH = 24  # two words and a join for each remark, a negator for each, and both ends: 21 at most

_FOLDER = Path(__file__).with_name("data")
FILES = {name: _FOLDER / f"toy_sentiment_{name}.tsv" for name in ("train", "test")}
SIZES = {"train": 4000, "test": 1000}


class Review(NamedTuple):
    """A sentence, and 1 if it praises the film, 0 if it does not."""

    text: str
    label: int


def reviews(count: int, seed: int, noise: float = NOISE) -> list[Review]:
    """So many reviews of the grammar; `noise`, the share of labels that are turned round.

    >>> print(*reviews(1, seed=3, noise=0)[0], sep=" -> ")
    fresh plot , warm ending but hollow scenes but cheap script ; never bold scenes -> 0
    """
    require_count("reviews", 0, count=count)
    if not (isinstance(noise, int | float) and 0 <= noise <= 1):
        raise ValueError(f"noise = {noise}; a share is from 0 to 1")
    random = Random(seed)
    return [_review(random, noise) for _ in range(count)]


def write_toy_sentiment(folder: Path) -> list[Path]:
    """Write the shipped files into another folder."""
    made = reviews(sum(SIZES.values()), seed=2019)
    parts = {"train": made[: SIZES["train"]], "test": made[SIZES["train"] :]}
    for name, part in parts.items():
        lines = ["label\tsentence", *(f"{review.label}\t{review.text}" for review in part)]
        write_whole(folder / FILES[name].name, "\n".join(lines) + "\n")
    return [folder / file.name for file in FILES.values()]


def toy_sentiment(part: str = "train") -> list[Review]:
    """The shipped reviews: 4,000 in "train", 1,000 others in "test".

    >>> len(toy_sentiment("train")), len(toy_sentiment("test"))
    (4000, 1000)
    """
    if part not in FILES:
        raise ValueError(f"part = {part!r}; allowed are 'train' and 'test'")
    rows = FILES[part].read_text(encoding="utf-8").splitlines()[1:]
    return [Review(text, int(label)) for label, text in (row.split("\t") for row in rows)]


def encode(texts: Iterable[str], length: int = LENGTH) -> list[list[int]]:
    """Numbers of the words, between [CLS] and [SEP], filled up with 0 to one length.

    A word that the grammar does not know is number 1. Raises ValueError for a longer sentence,
    TypeError for a sentence that is in no list.

    >>> encode(["not boring music", "grand music"], length=6)
    [[2, 33, 10, 31, 3, 0], [2, 1, 31, 3, 0, 0]]
    """
    if isinstance(texts, str):
        raise TypeError(f"texts = {texts!r}; allowed is a list of sentences, not one of them")
    return [_row(text.split(), length) for text in texts]


def tensors(chosen: Sequence[Review]):
    """The reviews as two tensors: tokens (sentences, 24) and labels (sentences,)."""
    import torch

    require(len(chosen) > 0, "tensors", "chosen", chosen, "at least one review")
    texts, labels = zip(*chosen, strict=True)
    return torch.tensor(encode(texts)), torch.tensor(labels)


def _review(random: Random, noise: float) -> Review:
    words: list[str] = []
    votes = 0
    for i in range(REMARKS):
        good, turned = random.random() < 0.5, random.random() < NEGATED
        words += [_pick(random, JOINS)] * (i > 0) + [_pick(random, NEGATORS)] * turned
        words += [_pick(random, PRAISE if good else BLAME), _pick(random, THINGS)]
        votes += 1 if good != turned else -1
    return Review(" ".join(words), int((votes > 0) != (random.random() < noise)))


def _pick(random: Random, words: Sequence[str]) -> str:
    """By `random()` alone, whose numbers Python promises to keep; those of `choice` it does not."""
    return words[int(random.random() * len(words))]


def _row(words: list[str], length: int) -> list[int]:
    numbers = [_NUMBER[START], *(_NUMBER.get(word, 1) for word in words), _NUMBER[END]]
    if len(numbers) > length:
        raise ValueError(f"length = {length}; {' '.join(words)!r} has {len(numbers)} with its ends")
    return numbers + [0] * (length - len(numbers))


_NUMBER = {word: number for number, word in enumerate(WORDS)}
