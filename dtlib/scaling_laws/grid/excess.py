"""What a model's loss has above E, measured without drawing a text.

The loss of a model q on texts of the law p is the mean of -log q. It is E plus the mean divergence
KL(p || q) of the letters' distributions: p log p - p log q is summed over all letters that could
follow, not only the one that did. So L - E is measured by itself, and E's noise never enters.
"""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from dtlib.formulas.require import require
from dtlib.later import np
from dtlib.scaling_laws.grid.language import ZipfWords
from dtlib.scaling_laws.grid.windows import SEQ, shifted

WORDS = 2**14
_ROWS = 128  # windows at a time
_SHUFFLE = 99  # which order the words have in their windows


@dataclass(frozen=True)
class Excess:
    """What was measured of a model. Everything is a mean over words of the law.

    `nats` is L - E per letter; `by_letter` the same of each letter of a word, of which `nats` is
    the mean; `right` the share in which the most probable letter is the true one, by letter; and
    `words` that in which all letters of a word are.
    """

    nats: float
    by_letter: tuple[float, ...]
    right: tuple[float, ...]
    words: float


class QuantileText:
    """Windows of words at even quantiles of a language, with the true law of every letter.

    Arguments: `language`; `words`, how many, whole windows of `seq` letters. Raises ValueError for
    words that do not fill windows.
    """

    def __init__(self, language: ZipfWords, words: int = WORDS, seq: int = SEQ):
        in_window = seq // language.length
        fits = seq % language.length == 0 and words % in_window == 0
        allowed = f"a multiple of the {in_window} words of a window, each of whole words"
        require(fits, "QuantileText", "words", words, allowed)
        ranks = language.quantile_words(words)
        ranks = ranks[np.argsort(np.random.default_rng(_SHUFFLE).random(words), kind="stable")]
        self.language = language
        self.text_bs = torch.from_numpy(language.spelled_wl[ranks].reshape(-1, seq))
        truth = language.next_letter(ranks).reshape(-1, seq, language.letters)
        self.truth_bsv = torch.from_numpy(truth)
        self.entropy_bs = -torch.xlogy(self.truth_bsv, self.truth_bsv).sum(dim=-1)

    @torch.no_grad()
    def excess(self, model) -> Excess:
        """L - E of a model that gives logits for each letter and for the mark of a window's start.

        The sums are in 64 bits, whatever the model computes in.
        """
        seen_bs = shifted(self.text_bs, self.language.letters)
        kl, right = [], []
        for start in range(0, len(seen_bs), _ROWS):
            rows = slice(start, start + _ROWS)
            logits_bsv = model(seen_bs[rows])
            log_q = F.log_softmax(logits_bsv.double(), dim=-1)[..., : self.language.letters]
            kl.append(-(self.truth_bsv[rows] * log_q).sum(dim=-1) - self.entropy_bs[rows])
            right.append(log_q.argmax(dim=-1) == self.text_bs[rows])
        kl_wl = torch.cat(kl).view(-1, self.language.length)
        right_wl = torch.cat(right).view(-1, self.language.length)
        return Excess(
            nats=kl_wl.mean().item(),
            by_letter=tuple(kl_wl.mean(dim=0).tolist()),
            right=tuple(right_wl.double().mean(dim=0).tolist()),
            words=right_wl.all(dim=1).double().mean().item(),
        )
