"""A language whose entropy is a sum: words of known frequency, written without spaces.

The noun is `ZipfWords`. There are K words of `length` letters, spelled at random; the word of rank
k comes with probability p_k in proportion to (k + shift)^-exponent, as Zipf found for words of
English and Mandelbrot with the shift. A text is words drawn independently. So every letter's true
distribution is known, and with it the loss that no model can go below: E = H(word) / length.
"""

import math
from collections.abc import Sequence

from dtlib.formulas.require import require, require_count, require_not_negative, require_positive
from dtlib.later import np


class ZipfWords:
    r"""Words with a law: p_k = (k + shift)^-exponent / sum over all words.

    Arguments: `words`, how many there are; `length`, letters in each; `letters`, the size of the
    alphabet; `exponent` and `shift` of the law; `spelling`, which of the random spellings.
    `p` has the probability of each word by rank, `spelled_wl` its letters.
    Raises ValueError for more words than spellings, and for numbers that are no counts.
    Source: Zipf 1935; Mandelbrot 1953.

    >>> language = ZipfWords(words=8, length=2, letters=4, exponent=1.0, shift=0.0)
    >>> language.spelled_wl.shape, float(language.p[0] / language.p[7])
    ((8, 2), 8.0)
    >>> round(ZipfWords().E, 6)  # the book's language
    1.27623
    """

    def __init__(
        self,
        words: int = 2**17,
        length: int = 4,
        letters: int = 32,
        exponent: float = 1.5,
        shift: float = 4.0,
        spelling: int = 0,
    ):
        require_count("ZipfWords", words=words, length=length, letters=letters)
        require_positive("ZipfWords", exponent=exponent)
        require_not_negative("ZipfWords", shift=shift)
        spellings = letters**length
        allowed = f"at most letters^length = {spellings}, the spellings that there are"
        require(words <= spellings, "ZipfWords", "words", words, allowed)
        self.words, self.length, self.letters = words, length, letters
        shuffled = np.argsort(np.random.default_rng(spelling).random(spellings), kind="stable")
        self._code = shuffled[:words]
        weights = (np.arange(1, words + 1) + shift) ** -exponent
        self.p = weights / weights.sum()
        self._below = np.append(np.cumsum(self.p)[:-1], 1.0)
        places = letters ** np.arange(length - 1, -1, -1)
        self.spelled_wl = self._code[:, None] // places % letters

    @property
    def E(self) -> float:
        """The entropy rate in nats per letter, -sum p log p / length: no model's loss is lower.

        A text is known when its words are, and they are independent, so a letter's share of the
        entropy is a word's entropy over its letters.
        """
        return math.fsum(-self.p * np.log(self.p)) / self.length

    def text(self, words: int, key: Sequence[int]):
        """The letters of so many words, one array; the same key gives the same text anywhere."""
        chance = np.random.default_rng(list(key)).random(words)
        return self.spelled_wl[self._at(chance)].reshape(-1)

    def quantile_words(self, count: int):
        """Ranks of `count` words at evenly spaced quantiles of the law, the commonest first.

        Word j is the one at which the cumulated probability passes (j + 1/2) / count: a mean over
        them is a mean over the law, without the noise of words drawn at random.
        """
        require_count("ZipfWords.quantile_words", count=count)
        return self._at((np.arange(count) + 0.5) / count)

    def next_letter(self, ranks):
        """The true p(letter j | the word's letters before j): shape (words, length, letters).

        It is the probability of all words that begin so, over that of all that begin alike but for
        the last letter.
        """
        rows = []
        for known in range(self.length):
            begun = self._code // self.letters ** (self.length - known - 1)
            mass = np.bincount(begun, self.p, minlength=self.letters ** (known + 1))
            share = mass.reshape(-1, self.letters)[begun[ranks] // self.letters]
            rows.append(share / share.sum(axis=1, keepdims=True))
        return np.stack(rows, axis=1)

    def _at(self, quantiles):
        return np.searchsorted(self._below, quantiles, side="right")
