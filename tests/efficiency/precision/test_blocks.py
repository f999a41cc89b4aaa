"""Scales that neighbours share: MX by its definition, NVFP4, and where a block helps."""

import math

import numpy as np
import pytest
import torch

from dtlib.efficiency import (
    E2M1,
    E4M3,
    E5M2,
    block_quantise,
    cast,
    decode,
    mx,
    nvfp4,
    rms_error,
    whole_quantise,
)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def nearest_by_search(x: float, numbers: np.ndarray) -> float:
    """The nearest of a list; of two the one at an even place."""
    away = abs(numbers - abs(x))
    best = np.flatnonzero(away == away.min())
    return math.copysign(numbers[min(best, key=lambda i: i % 2)], x)


def test_mx_is_its_definition_element_by_element():
    x = normal(4, 64) * np.exp(3 * normal(4, 64, seed=1))
    found = mx(x, E2M1)
    numbers = decode(np.arange(8), E2M1)
    for row in range(4):
        for start in (0, 32):
            block = x[row, start : start + 32]
            scale = 2.0 ** (math.floor(math.log2(abs(block).max())) - 2)
            due = [scale * nearest_by_search(v / scale, numbers) for v in block]
            assert found.values[row, start : start + 32].tolist() == due
            assert found.scales[row, start // 32] == scale


def test_nvfp4_is_its_definition_element_by_element():
    x = normal(2, 32) * np.exp(2 * normal(2, 32, seed=1))
    found, whole = nvfp4(x), abs(x).max() / (6 * 448)
    numbers = decode(np.arange(8), E2M1)
    for row in range(2):
        for start in (0, 16):
            block = x[row, start : start + 16]
            scale = cast(abs(block).max() / 6 / whole, E4M3) * whole
            due = [scale * nearest_by_search(v / scale, numbers) for v in block]
            assert np.allclose(found.values[row, start : start + 16], due, rtol=1e-15, atol=0)
    assert found.bits == 4 + 8 / 16


def test_the_largest_of_each_block_is_kept_with_a_float_scale_and_not_with_one_for_all():
    x = normal(8, 256) * 10.0 ** np.arange(-4, 4)[:, None]
    cut = abs(x).reshape(8, 4, 64)
    where = cut.argmax(-1, keepdims=True)
    kept = block_quantise(x, E4M3, 64).values.reshape(8, 4, 64)
    largest = np.take_along_axis(cut, where, -1)
    assert np.allclose(abs(np.take_along_axis(kept, where, -1)), largest, rtol=1e-14)
    one = block_quantise(x, E4M3, None).values.reshape(8, 4, 64)
    assert not np.allclose(abs(np.take_along_axis(one, where, -1)), largest, rtol=1e-2)


def test_squares_are_the_same_seen_from_both_sides_and_strips_are_not():
    x = torch.from_numpy(normal(64, 96)).float()

    def turned(block, other):
        return block_quantise(x.T.contiguous(), E4M3, other).values.T, block_quantise(
            x, E4M3, block
        )

    left, right = turned((32, 32), (32, 32))
    assert torch.equal(left, right.values)
    left, right = turned(32, 32)
    assert not torch.equal(left, right.values)


def test_torch_and_numpy_agree():
    x = normal(16, 64)
    for block, scale in ((16, "two-level"), (32, "floor"), (64, "ceil"), ((4, 8), "float32")):
        ours = block_quantise(x, E4M3, block, scale)
        other = block_quantise(torch.from_numpy(x), E4M3, block, scale)
        assert np.array_equal(ours.values, other.values.numpy())
        assert ours.scales.shape == tuple(other.scales.shape) and ours.bits == other.bits


def test_a_floor_saturates_what_a_ceil_keeps():
    x = np.full(32, 500.0)
    assert block_quantise(x, E4M3, 32, "floor").values[0] == 448
    assert block_quantise(x, E4M3, 32, "ceil").values[0] == 512
    assert abs(block_quantise(np.full(32, 448.0), E4M3, 32, "ceil").values - 448).max() == 0


def test_an_outlier_hurts_its_own_block_only():
    x = normal(4096)
    x[7] = 1e7
    rest = np.ones(4096, bool)
    rest[:32] = False
    assert rms_error(x[rest], block_quantise(x, E4M3, 32).values[rest]) < 0.03
    assert rms_error(x[rest], block_quantise(x, E4M3, None).values[rest]) > 0.9


def test_zeros_and_tiny_blocks():
    x = np.zeros(64)
    x[32:] = 1e-300
    assert (block_quantise(x, E4M3, 32).values[:32] == 0).all()
    assert np.isfinite(block_quantise(x, E5M2, 32, "floor").values).all()
    assert (nvfp4(np.zeros(32)).values == 0).all()


def test_what_has_no_scale_is_refused():
    with pytest.raises(ValueError, match="blocks with an infinite number or NaN is 1"):
        block_quantise(np.array([1.0, np.nan, 2.0, 3.0]), E4M3, 2)
    with pytest.raises(ValueError, match="divisor of the last dimension, which is 10"):
        block_quantise(np.ones(10), E4M3, 4)
    with pytest.raises(ValueError, match="scale is 'up'"):
        block_quantise(np.ones(4), E4M3, 4, "up")
    with pytest.raises(ValueError, match="not empty"):
        block_quantise(np.ones((0, 4)), E4M3, 4)


@pytest.mark.parametrize("name", ["block_quantise", "whole_quantise"])
def test_an_error_names_who_was_called(name):
    called = {"block_quantise": lambda x: block_quantise(x, E4M3, 4),
              "whole_quantise": lambda x: whole_quantise(x, 4)}  # fmt: skip
    with pytest.raises(ValueError, match=f"^{name}: block .* the last dimension, which is 10"):
        called[name](np.ones(10))
    with pytest.raises(ValueError, match=f"^{name}: .*not finite|^{name}: .*infinite"):
        called[name](np.array([1.0, np.inf, 2.0, 3.0]))
