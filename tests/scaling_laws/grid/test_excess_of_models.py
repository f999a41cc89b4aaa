"""L - E is a divergence: it equals an enumeration where there is one, and a sample elsewhere."""

from math import log

import numpy as np
import pytest
import torch

from dtlib.scaling_laws.grid import QuantileText, Trunk, ZipfWords

# Two words of two letters with p = 2/3 and 1/3: 12 quantile words are 8 of one and 4 of the other.
TWO = ZipfWords(words=2, length=2, letters=3, exponent=1.0, shift=0.0, spelling=3)


class ByPrefix(torch.nn.Module):
    """A model that knows where a word begins, and reads its logits from a table of prefixes."""

    def __init__(self, language: ZipfWords, seed: int = 0):
        super().__init__()
        shape = (language.length, (language.letters + 1) ** language.length, language.letters + 1)
        self.table = torch.from_numpy(np.random.default_rng(seed).normal(size=shape))
        self.language = language

    def row(self, place: int, prefix) -> torch.Tensor:
        code = 0
        for letter in prefix:
            code = code * (self.language.letters + 1) + int(letter)
        return self.table[place, code]

    def forward(self, seen_bs):
        length = self.language.length
        return torch.stack(
            [
                torch.stack(
                    [
                        self.row(s % length, window[s - s % length + 1 : s + 1])
                        for s in range(len(window))
                    ]
                )
                for window in seen_bs
            ]
        )


def enumerated(model: ByPrefix) -> list[float]:
    """E of -log q less E of -log p, letter by letter, over every word of the language."""
    language, found = model.language, [0.0] * model.language.length
    for rank, word in enumerate(language.spelled_wl):
        for place in range(language.length):
            log_q = model.row(place, word[:place]).log_softmax(-1)[word[place]].item()
            log_p = log(language.next_letter(np.array([rank]))[0, place, word[place]])
            found[place] += language.p[rank] * (log_p - log_q)
    return found


def test_excess_is_the_sum_over_every_word_of_a_tiny_language():
    model, text = ByPrefix(TWO), QuantileText(TWO, words=12, seq=8)
    found = text.excess(model)
    assert found.by_letter == pytest.approx(enumerated(model), rel=1e-12)
    assert found.nats == pytest.approx(sum(enumerated(model)) / 2, rel=1e-12)


def test_a_law_that_is_off_by_one_letter_is_seen():
    model, text = ByPrefix(TWO), QuantileText(TWO, words=12, seq=8)
    text.truth_bsv = text.truth_bsv.roll(1, dims=1)
    assert text.excess(model).by_letter != pytest.approx(enumerated(model), rel=1e-3)


class Knows(torch.nn.Module):
    """The law itself as a model, for the windows of one text; `share` goes to the mark."""

    def __init__(self, text: QuantileText, share: float = 0.0):
        super().__init__()
        mark = torch.full((*text.truth_bsv.shape[:2], 1), share, dtype=torch.float64)
        self.logits = torch.cat([text.truth_bsv * (1 - share), mark], dim=-1).log()

    def forward(self, seen_bs):
        return self.logits.nan_to_num(neginf=-1e9)


def test_who_knows_the_law_has_no_excess_and_nobody_has_less():
    text = QuantileText(ZipfWords(), words=1024)
    assert text.excess(Knows(text)).nats == pytest.approx(0, abs=1e-12)
    assert text.excess(Knows(text, share=0.1)).nats == pytest.approx(-log(0.9), rel=1e-9)


@pytest.fixture(scope="module")
def trained():
    torch.set_num_threads(1)
    trunk = Trunk(QuantileText(ZipfWords()), width=16, seed=5, rate=0.02)
    return trunk.train(64)


def sampled(trunk: Trunk, words: int = 2**15) -> tuple[float, float]:
    """Mean and standard error of log p - log q over letters of a text drawn at random."""
    language = trunk.windows.language
    text = language.text(words, [77, 1])
    codes = {int(c): r for r, c in enumerate(language.spelled_wl @ 32 ** np.arange(3, -1, -1))}
    ranks = np.array([codes[int(c)] for c in text.reshape(-1, 4) @ 32 ** np.arange(3, -1, -1)])
    letters = torch.from_numpy(text.reshape(-1, 32))
    truth = torch.from_numpy(language.next_letter(ranks).reshape(-1, 32, 32))
    seen = torch.cat([torch.full((len(letters), 1), 32), letters[:, :-1]], dim=1)
    with torch.no_grad():
        log_q = trunk.model(seen).double().log_softmax(-1)
    chosen = letters[..., None]
    ratio = truth.gather(-1, chosen).log() - log_q.gather(-1, chosen)
    by_word = ratio.view(-1, 4).mean(dim=1)
    return by_word.mean().item(), by_word.std().item() / words**0.5


def test_excess_is_what_a_text_drawn_at_random_says_within_its_error(trained):
    mean, error = sampled(trained)
    assert error < 0.01
    assert abs(trained.excess().nats - mean) < 3 * error


def test_an_excess_in_bits_would_be_seen(trained):
    mean, error = sampled(trained)
    assert abs(trained.excess().nats / log(2) - mean) > 3 * error


def test_words_that_fill_no_window_are_refused():
    with pytest.raises(ValueError, match="words is 10, but must be a multiple of the 8 words"):
        QuantileText(ZipfWords(), words=10)
