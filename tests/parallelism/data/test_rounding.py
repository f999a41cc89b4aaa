"""Rounding as numpy and torch do it; the bound over all orders; and the condition that decides."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

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

ordinary = st.floats(2**-10, 2**9).flatmap(lambda x: st.sampled_from([x, -x]))
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@given(ordinary, st.sampled_from(sorted(BITS)))
def test_rounding_is_that_of_torch(x, kind):
    assert rounded(x, kind) == torch.tensor(x, dtype=torch.float64).to(DTYPES[kind]).item()
    assert abs(rounded(x, kind) - x) <= unit_roundoff(kind) * abs(x)


def test_unit_roundoff_is_half_of_the_gap_above_one():
    for kind, dtype in DTYPES.items():
        assert unit_roundoff(kind) == torch.finfo(dtype).eps / 2


@given(st.lists(ordinary, min_size=2, max_size=20), st.sampled_from(["fp32", "fp16"]))
def test_the_flat_order_is_numpys_own_sum_from_left_to_right(values, kind):
    dtype = {"fp32": np.float32, "fp16": np.float16}[kind]
    total = dtype(values[0])
    for value in values[1:]:
        total = dtype(total + dtype(value))
    assert summed(values, "flat", kind) == float(total)


@given(
    st.lists(ordinary, min_size=2, max_size=64),
    st.sampled_from(ORDERS),
    st.sampled_from(["fp32", "fp16"]),
    st.integers(0, 63),
)
def test_no_order_exceeds_the_bound(values, order, kind, chunk):
    stored = [rounded(v, kind) for v in values]
    error = abs(summed(stored, order, kind, chunk) - math.fsum(stored))
    size = math.fsum(map(abs, stored))
    assert error <= summation_error_bound(unit_roundoff(kind), len(stored), size) * (1 + 1e-9)


def test_the_printed_bound_by_the_sum_itself_is_false():
    stored = [rounded(v, "fp32") for v in (1e20, -1e20, 1.0)]
    found = {summed(order, "flat", "fp32") for order in permutations(stored)}
    assert found == {0.0, 1.0}
    assert max(found) - min(found) > unit_roundoff("fp32") * abs(math.fsum(stored))


@pytest.mark.parametrize("condition", [1, 10, 1e3, 1e6, 1e8])
@pytest.mark.parametrize("P", [2, 3, 8, 64])
def test_hard_numbers_have_the_condition_that_is_asked_for(P, condition):
    for seed in range(5):
        found = condition_number(hard_numbers(P, condition, seed))
        assert found == pytest.approx(condition, rel=0.35 if condition > 1 else 1e-9)


def test_the_error_follows_the_condition_and_not_the_order():
    """Over many vectors: 100 times the condition, 100 times the error; the orders differ little."""

    def typical(order, condition):
        errors = []
        for seed in range(200):
            values = hard_numbers(16, condition, seed)
            errors.append(abs(summed(values, order, "fp32") / math.fsum(values) - 1))
        return np.median(errors)

    for order in ORDERS:
        assert 30 < typical(order, 1e5) / typical(order, 1e3) < 300
    assert max(typical(o, 1e3) for o in ORDERS) < 10 * min(typical(o, 1e3) for o in ORDERS)


def test_a_ring_begins_each_chunk_at_another_rank():
    from dtlib.collectives import emulate, ring_all_reduce

    values = [np.full(3, v, dtype=np.float32) for v in (1e30, -1e30, 1.0)]
    real = emulate(ring_all_reduce(3), values)[0]
    mine = [summed([1e30, -1e30, 1.0], "ring", "fp32", chunk) for chunk in range(3)]
    assert real.tolist() == mine
    assert sorted(mine) == [0.0, 0.0, 1.0]


def test_another_order_is_refused():
    with pytest.raises(ValueError, match="order must be one of flat, ring, tree"):
        summed([1.0, 2.0], "random", "fp32")
