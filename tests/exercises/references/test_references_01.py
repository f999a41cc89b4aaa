"""What the exercises of chapter 1 compare with, found in another way."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dtlib.exercises.chapters.foundations.ch01 import _enough, _steps_between

PERCENT = st.integers(1, 99)


def quotient(share: int) -> Fraction:
    return Fraction(share, 100 - share)


@given(PERCENT, PERCENT)
def test_the_fewest_ranks_are_those_of_exact_fractions(rho, share):
    exact = 1 if share <= rho else math.ceil(quotient(share) * Fraction(100, rho))
    assert _enough(rho / 100, share / 100) == exact


@given(PERCENT, st.integers(1, 200), st.integers(1, 200))
def test_the_fewest_steps_are_those_of_exact_fractions(share, compute, comm):
    exact = max(1, math.ceil(quotient(share) * Fraction(comm, compute)))
    assert _steps_between(compute / 10, comm / 10, share / 100) == exact
