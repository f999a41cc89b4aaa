"""On a page a number stays with its unit."""

import sys

import pytest

from book._tools.layout import ROOT

sys.path.append(str(ROOT / "book/_ext"))
from prose_numbers import together


@pytest.mark.parametrize(
    "text", ["35 ms", "1,024 GB/s", "−0.5 %", "3.15 s", "10–20 ms", "70 billion"]
)
def test_a_number_does_not_leave_its_unit(text):
    assert together(text) == text.replace(" ", "\u00a0")


@pytest.mark.parametrize("text", ["four times", "at every size", "35", "3 of the 8 ranks"])
def test_words_break_where_they_like(text):
    assert together(text) == text
