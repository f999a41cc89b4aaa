"""The second language: every byte is read once, what judges is never read, and E is not known."""

import math

import numpy as np
import pytest
import torch

from dtlib import recordings
from dtlib.scaling_laws.grid import recorded_runs
from dtlib.scaling_laws.grid.text import HeldOutText, SourceText

WORDS = 64 * 1024  # letters of a block


@pytest.fixture(scope="module")
def text():
    return SourceText()


def test_a_run_reads_each_window_once(text):
    numbered = SourceText.__new__(SourceText)
    numbered.windows_ts = np.repeat(np.arange(len(text.windows_ts))[:, None], 32, axis=1)
    blocks = numbered.windows_ts.size // WORDS
    seen = [numbered.text(WORDS, [3, block])[:, 0] for block in range(blocks)]
    assert len(set(np.concatenate(seen).tolist())) == blocks * WORDS // 32
    assert (seen[0] != numbered.text(WORDS, [4, 0])[:, 0]).any()


def test_the_text_ends_with_an_error_that_says_where(text):
    last = text.windows_ts.size // WORDS
    with pytest.raises(
        ValueError, match=f"block is {last}, but must be below {last}: the text has"
    ):
        text.text(WORDS, [1, last])


def test_what_judges_is_held_out(text):
    """Single lines may stand in many files; whole windows that do are licences and blanks."""
    read = {bytes(window) for window in text.windows_ts}
    judged = [bytes(window) for window in text.held_out_ts]
    assert sum(window in read for window in judged) < 0.05 * len(judged)
    assert all(bytes(window) in read for window in text.windows_ts[::32])  # as a leak would show


def test_who_knows_nothing_loses_the_logarithm_of_the_letters(text):
    judged = HeldOutText(text, rows=64)
    found = judged.excess(lambda seen: torch.zeros(*seen.shape, 129))
    assert found.nats == pytest.approx(math.log(129), rel=1e-12)
    assert found.by_letter == (found.nats,)


def test_a_package_that_is_not_there_is_named():
    with pytest.raises(ModuleNotFoundError, match="'no_such_package' is not installed"):
        SourceText("no_such_package")


def test_the_recorded_text_is_this_one_and_its_E_is_not_known(text):
    about = recordings.load("training-grid-text").about
    if text.version == about["text"]:
        assert (text.digest, text.windows_ts.size) == (about["digest"], about["bytes"])
    runs = recorded_runs(None, name="training-grid-text")
    assert {(run.E, run.excess) for run in runs} == {(None, None)}
    assert all(run.loss == run.by_letter[0] > 1 for run in runs)
