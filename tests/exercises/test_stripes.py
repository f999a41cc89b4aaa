"""Striped inputs read back who contributed to a sum, and where the elements came from."""

from itertools import product

import numpy as np
import pytest

from dtlib.exercises.worlds import Stripes


@pytest.mark.parametrize("P", [1, 2, 3, 5, 8])
def test_the_sum_over_all_ranks_has_no_fault(P):
    stripes = Stripes(P, chunks=P)
    assert stripes.fault(sum(stripes.inputs()), set(range(P))) == ""


def test_every_other_combination_of_up_to_two_copies_has_a_fault():
    stripes = Stripes(3, chunks=2)
    for copies in product(range(3), repeat=3):
        total = sum(
            (k * x for k, x in zip(copies, stripes.inputs(), strict=True)), np.zeros(stripes.n)
        )
        assert (stripes.fault(total, {0, 1, 2}) == "") == (copies == (1, 1, 1))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda x: x - Stripes(3, 3).inputs()[1], "chunk 0: lacks the contribution of rank 1"),
        (lambda x: x + Stripes(3, 3).inputs()[2], "chunk 0: counts rank 2 2 times"),
        (lambda x: np.roll(x, 2), "chunk 0: holds what belongs into chunk 2"),
        (lambda x: x * np.nan, "chunk 0: was used before its receive had finished"),
        (lambda x: x + 0.5, "chunk 0: is no sum of the ranks' inputs"),
        (lambda x: x * np.inf, "chunk 0: is no sum of the ranks' inputs"),
        (lambda x: x[:-1], "holds 5 elements, but 6 belong there"),
    ],
)
def test_a_fault_names_chunk_and_rank(spoil, says):
    stripes = Stripes(3, 3)
    assert stripes.fault(spoil(sum(stripes.inputs())), {0, 1, 2}) == says


def test_a_single_chunk_and_a_subset_of_ranks_can_be_judged():
    stripes = Stripes(4, 4)
    a, b, c, _ = stripes.inputs()
    assert stripes.fault((a + b)[4:6], {0, 1}, range(2, 3)) == ""
    assert stripes.fault((a + b + c)[4:6], {0, 1}, range(2, 3)) == "chunk 2: has rank 2 in it"


def test_what_the_number_format_cannot_hold_is_refused():
    assert Stripes(4, 4, dtype="float32").inputs()[0].dtype == np.float32
    with pytest.raises(ValueError, match="do not fit into float32"):
        Stripes(8, 8, dtype="float32")
