"""The bits lab: the page rounds, adds and bounds as the library does."""

import math

import pytest
from scripts import Scripts

from dtlib.parallelism import summation_error_bound
from dtlib.parallelism.data.rounding import (
    BITS,
    ORDERS,
    condition_number,
    hard_numbers,
    rounded,
    summed,
    unit_roundoff,
)


@pytest.fixture(scope="module")
def model():
    return Scripts("bits_lab/model.js")


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("P", [2, 3, 8, 64])
def test_the_page_rounds_and_adds_as_the_library_does(model, kind, P):
    for seed, condition in enumerate((1, 30, 1e4, 1e8)):
        values = hard_numbers(P, condition, seed)
        found = model("hardNumbers(P, condition, seed)", P=P, condition=condition, seed=seed)
        assert found == pytest.approx(values, rel=1e-7, abs=1e-15)
        given = {"values": values, "bits": BITS[kind]}
        assert model("values.map(v => roundTo(v, bits))", **given) == [
            rounded(v, kind) for v in values
        ]
        for order in ORDERS:
            for chunk in (0, P - 1):
                got = model("sumIn(order, values, bits, chunk)", order=order, chunk=chunk, **given)
                assert got == summed(values, order, kind, chunk)
        assert model("exactSum(values)", **given) == math.fsum(values)
        c = condition_number(values)
        bound = summation_error_bound(unit_roundoff(kind), P + 1, c)
        assert model("boundOf(P, c, bits)", P=P, c=c, **given) == pytest.approx(bound)


def test_sabotage_rounding_half_away_from_zero_is_noticed(model):
    assert model("roundTo(x, 8)", x=1 + 1 / 256) == 1 == rounded(1 + 1 / 256, "bf16")
    assert model("roundTo(x, 8)", x=1 + 3 / 256) == 1 + 2 / 128 == rounded(1 + 3 / 256, "bf16")
