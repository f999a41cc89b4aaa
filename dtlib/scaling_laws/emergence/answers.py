"""Questions to the grid's models that have one answer, and how often many in a row are right.

In the language of `grid` the last letter of most common words follows from the letters before it.
So it is a question with an answer. A window holds eight words, hence eight questions; the chance
that a model, drawing letters, gets the first k of them right is a product, and is measured as such:
no drawing is needed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dtlib.formulas.require import require, require_count
from dtlib.later import np, torch
from dtlib.scaling_laws.grid.windows import shifted

if TYPE_CHECKING:
    from dtlib.scaling_laws.grid.language import ZipfWords


def certain_words(language: "ZipfWords", first: int, stop: int, least: float = 0.9):
    """Ranks from `first` to below `stop` of words whose last letter is that sure, given the others.

    Raises ValueError when there are none.

    >>> from dtlib.scaling_laws.grid.language import ZipfWords
    >>> len(certain_words(ZipfWords(), 0, 128))
    126
    """
    ranks = np.arange(first, stop)
    true = language.next_letter(ranks)[:, -1]
    sure = true[np.arange(len(ranks)), language.spelled_wl[ranks][:, -1]] >= least
    require(bool(sure.any()), "certain_words", "least", least, "reached by a word of these ranks")
    return ranks[sure]


def question_windows(language: "ZipfWords", ranks, count: int, seed: int = 0, words: int = 8):
    """So many windows of words drawn evenly from the ranks: an integer tensor [count, letters]."""
    require_count("question_windows", count=count, words=words)
    drawn = np.random.default_rng(seed).choice(ranks, count * words)
    return torch.from_numpy(language.spelled_wl[drawn].reshape(count, -1))


def answer_log_probs(model, windows_bs, language: "ZipfWords"):
    """log p of the last letter of every word, given all before it: an array [windows, words]."""
    with torch.no_grad():
        logits_bsv = model(shifted(windows_bs, language.letters))
        log_probs = logits_bsv.log_softmax(-1).gather(-1, windows_bs[..., None])[..., 0]
    return log_probs[:, language.length - 1 :: language.length].numpy()


def all_right(log_probs_wk, in_a_row: int) -> float:
    """The chance that the first so many answers of a window are all right, its mean over windows.

    Equation: mean over windows of exp(sum of the first k log p). Raises ValueError for more answers
    than a window has.

    >>> round(all_right(np.log([[0.5, 0.5], [1.0, 1.0]]), 2), 3)
    0.625
    """
    have = log_probs_wk.shape[1]
    require(1 <= in_a_row <= have, "all_right", "in_a_row", in_a_row, f"from 1 to {have}")
    return float(np.exp(log_probs_wk[:, :in_a_row].sum(axis=1)).mean())


def counted_right(chances: Sequence[float], items: int, seed: int = 0) -> float:
    """The share right in one test: so many items, each solved with one of the chances.

    What a test set shows, where `all_right` is what it estimates. Raises ValueError for no items.

    >>> counted_right([0.001], items=10)
    0.0
    """
    require_count("counted_right", items=items)
    draw = np.random.default_rng(seed)
    return float((draw.random(items) < draw.choice(np.asarray(chances), items)).mean())
