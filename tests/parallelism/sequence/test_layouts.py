"""Layouts deal every token once; what causality leaves of a ring's steps, counted pair by pair."""

from fractions import Fraction

import numpy as np
import pytest

from dtlib.parallelism.sequence.layouts import (
    causal_work,
    contiguous,
    critical_path,
    striped,
    zigzag,
)

LAYOUTS = (contiguous, zigzag, striped)
HALF = Fraction(1, 2)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("P", [1, 2, 3, 4, 8])
def test_every_token_is_dealt_once_and_every_hand_is_equal(layout, P):
    table = layout(24 * P, P)
    assert table.shape == (P, 24)
    assert sorted(table.ravel()) == list(range(24 * P))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("P", [1, 2, 4, 5])
def test_the_work_is_what_counting_every_pair_gives(layout, P):
    table = layout(6 * P, P)
    for t, step in enumerate(causal_work(layout, P, tokens=6)):
        for r, share in enumerate(step):
            pairs = [(q, k) for q in table[r] for k in table[(r - t) % P]]
            counted = sum(int(k < q) + HALF * int(k == q) for q, k in pairs)
            assert share == counted / len(pairs)


@pytest.mark.parametrize("P", range(1, 33))
def test_contiguous_finishes_half_a_step_early_and_zigzag_at_half_time(P):
    assert critical_path(causal_work(contiguous, P)) == P - HALF
    assert critical_path(causal_work(zigzag, P)) == Fraction(P, 2)
    assert critical_path(causal_work(contiguous, P, causal=False)) == P


@pytest.mark.parametrize("P", [2, 4, 8])
def test_the_work_of_all_ranks_is_half_of_the_square_whatever_the_layout(P):
    for layout in LAYOUTS:
        work = causal_work(layout, P, tokens=10)
        assert sum(map(sum, work)) == Fraction(P * P, 2)
    assert {share for step in causal_work(zigzag, P) for share in step} == {HALF}


@pytest.mark.parametrize("n", [4, 64])
def test_striped_misses_balance_by_half_a_diagonal(n):
    shares = {share for step in causal_work(striped, 4, tokens=n) for share in step}
    assert shares == {HALF, HALF + Fraction(1, 2 * n), HALF - Fraction(1, 2 * n)}


@pytest.mark.parametrize(
    ("layout", "seq", "P", "said"),
    [
        (contiguous, 10, 4, "contiguous layout: seq must be a multiple of P = 4; got seq = 10"),
        (striped, 10, 4, "striped layout: seq must be a multiple of P = 4"),
        (zigzag, 12, 4, "zigzag layout: seq must be a multiple of 2P = 8; got seq = 12, P = 4"),
    ],
)
def test_a_sequence_that_cannot_be_dealt_is_refused(layout, seq, P, said):
    with pytest.raises(ValueError, match=said):
        layout(seq, P)


def test_a_table_of_other_ranks_is_refused():
    with pytest.raises(ValueError, match="a row of positions for each of 4 ranks"):
        causal_work(contiguous(8, 2), 4)


def test_sabotage_pieces_that_are_paired_in_order_are_not_balanced():
    pieces = np.arange(64).reshape(8, 8)
    in_order = np.concatenate([pieces[:4], pieces[4:]], axis=1)
    assert critical_path(causal_work(in_order, 4)) > critical_path(causal_work(zigzag, 4))
