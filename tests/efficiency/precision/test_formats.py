"""Formats, their codes and what numbers become in them: equal to torch's, code for code."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from dtlib.efficiency import (
    BF16,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    FP16,
    FP32,
    FloatFormat,
    cast,
    decode,
    quantise,
)

TORCH = {
    E4M3: torch.float8_e4m3fn,
    E5M2: torch.float8_e5m2,
    FP16: torch.float16,
    BF16: torch.bfloat16,
}
EIGHT = [E4M3, E5M2]
SMALL = [E2M1, E2M3, E3M2, E4M3, E5M2, FloatFormat("odd", 3, 4, bias=5)]


def as_torch(codes: np.ndarray, kind: FloatFormat) -> torch.Tensor:
    """The numbers that torch finds behind codes of 8 or 16 bits."""
    raw = codes.astype(np.uint8) if kind.bits == 8 else codes.astype(np.uint16).view(np.int16)
    return torch.from_numpy(raw).view(TORCH[kind]).double()


def same(a, b) -> bool:
    """Equal to the bit, signs of zeros included, and NaN where the other has NaN."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    numbers = ~np.isnan(a)
    signs = np.signbit(a[numbers]) == np.signbit(b[numbers])
    return np.array_equal(a, b, equal_nan=True) and bool(signs.all())


@pytest.mark.parametrize("kind", TORCH, ids=lambda kind: kind.name)
def test_every_code_stands_for_the_number_that_it_stands_for_in_torch(kind):
    codes = np.arange(2**kind.bits)
    assert same(decode(codes, kind), as_torch(codes, kind))


@pytest.mark.parametrize("kind", [*TORCH, *SMALL], ids=lambda kind: kind.name)
def test_every_number_of_a_format_is_its_own_neighbour(kind):
    numbers = decode(np.arange(2**kind.bits), kind)
    for rounding in ("nearest", "zero", "stochastic"):
        assert same(cast(numbers, kind, rounding), numbers)


def test_a_bias_that_is_off_by_one_is_seen():
    wrong = FloatFormat("E4M3 with another bias", 4, 3, bias=8, infinities=False)
    codes = np.arange(256)
    assert not same(decode(codes, wrong), as_torch(codes, E4M3))


@pytest.mark.parametrize("kind", TORCH, ids=lambda kind: kind.name)
@pytest.mark.parametrize("spread", [0.5, 6.0, 40.0])
def test_a_cast_is_torchs(kind, spread):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(40_000, generator=draw) * torch.exp(
        spread * torch.randn(40_000, generator=draw)
    )
    assert same(cast(x, kind), x.to(TORCH[kind]).double())


@pytest.mark.parametrize("kind", TORCH, ids=lambda kind: kind.name)
def test_a_cast_is_torchs_for_all_kinds_of_bits(kind):
    draw = np.random.default_rng(0)
    x = torch.from_numpy(draw.integers(0, 2**32, 40_000, dtype=np.uint32).view(np.float32))
    assert same(cast(x, kind), x.to(TORCH[kind]).double())


@pytest.mark.parametrize("kind", SMALL, ids=lambda kind: kind.name)
def test_half_way_goes_to_the_even_code_and_beside_it_to_the_nearer(kind):
    codes = np.arange(2 ** (kind.bits - 1))
    numbers = decode(codes, kind)
    codes, numbers = codes[np.isfinite(numbers)], numbers[np.isfinite(numbers)]
    low, high = numbers[:-1], numbers[1:]
    middle = (low + high) / 2
    even = np.where(codes[:-1] % 2 == 0, low, high)
    assert same(cast(middle, kind), even)
    assert same(cast(np.nextafter(middle, 0), kind), low)
    assert same(cast(np.nextafter(middle, np.inf), kind), high)
    assert same(cast(np.nextafter(high, 0), kind, "zero"), low)


def test_ties_away_from_zero_would_be_seen():
    middle = 1 + 1 / 16
    assert cast(middle, E4M3) == 1.0 != 1.125


@pytest.mark.parametrize("kind", [E4M3, E5M2, E2M1], ids=lambda kind: kind.name)
def test_the_mean_of_a_stochastic_rounding_is_the_number_exactly(kind):
    """Draws of 1/64, 3/64, ... in place of random ones: the mean is a sum, no estimate."""

    class Draws:
        def random(self, shape):
            return np.broadcast_to((np.arange(64)[:, None] + 0.5) / 64, shape)

    numbers = decode(np.arange(2 ** (kind.bits - 1)), kind)
    numbers = numbers[np.isfinite(numbers)]
    x = numbers[:-1] + np.diff(numbers) * (np.arange(len(numbers) - 1) % 64) / 64
    found = cast(np.broadcast_to(x, (64, len(x))), kind, "stochastic", generator=Draws())
    assert all(
        sum(map(Fraction, column)) / 64 == Fraction(v) for column, v in zip(found.T, x, strict=True)
    )
    nearest = cast(np.broadcast_to(x, (64, len(x))), kind)
    assert any(
        sum(map(Fraction, column)) / 64 != Fraction(v)
        for column, v in zip(nearest.T, x, strict=True)
    )


def test_stochastic_rounding_of_a_tensor_has_the_mean_of_the_tensor():
    draw = torch.Generator().manual_seed(3)
    x = torch.full((200_000,), 1 + 0.3 / 8)
    found = cast(x, E4M3, "stochastic", generator=draw)
    assert set(found.tolist()) == {1.0, 1.125}
    assert abs((found == 1.125).double().mean().item() - 0.3) < 4 * (0.3 * 0.7 / 200_000) ** 0.5


def test_beyond_the_largest():
    x = torch.tensor([1e6, -1e6, float("inf")], dtype=torch.float64)
    assert cast(x, E5M2).tolist() == [float("inf"), -float("inf"), float("inf")]
    assert cast(x, E5M2, overflow="saturate").tolist() == [57344, -57344, 57344]
    assert cast(x, E5M2, "zero").tolist() == [57344, -57344, float("inf")]
    assert cast(x, E4M3).tolist() == [448, -448, 448]


def test_relative_errors_are_below_the_roundoff_within_the_window_and_not_below_it():
    draw = np.random.default_rng(1)
    for kind in (E5M2, E4M3, FP16):
        x = draw.uniform(kind.least_normal, kind.largest, 4000)
        assert (abs(cast(x, kind) - x) <= kind.roundoff * x).all()
        below = draw.uniform(0, kind.least_normal / 4, 4000)
        assert (abs(cast(below, kind) - below) > kind.roundoff * below).any()


def test_a_cast_keeps_type_and_shape():
    assert isinstance(cast(0.3, E4M3), float) and cast(1, E4M3) == 1.0
    assert cast(np.zeros((2, 3), np.float32), E4M3).dtype == np.float32
    assert cast(torch.zeros(2, 0, 3), E4M3).shape == (2, 0, 3)
    assert cast(torch.ones(2, dtype=torch.bfloat16), E4M3).dtype == torch.float32
    assert cast(torch.tensor(0.3, dtype=torch.float64), FP32).item() == np.float32(0.3)
    strided = torch.arange(6.0).view(2, 3).T
    assert torch.equal(cast(strided, FP16), strided)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"exponent_bits": 1, "mantissa_bits": 6}, "exponent_bits is 1"),
        ({"exponent_bits": 9, "mantissa_bits": 6}, "exponent_bits is 9"),
        ({"exponent_bits": 4, "mantissa_bits": 0}, "mantissa_bits is 0"),
        ({"exponent_bits": 4, "mantissa_bits": 24}, "mantissa_bits is 24"),
        ({"exponent_bits": 4, "mantissa_bits": 3, "bias": 0.5}, "bias is 0.5"),
        ({"exponent_bits": 4, "mantissa_bits": 3, "rounding": "up"}, "rounding is 'up'"),
        ({"exponent_bits": 4, "mantissa_bits": 3, "overflow": "infinity"}, "no infinities"),
    ],
)
def test_formats_without_codes_and_unknown_names_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        quantise(1.0, **given)


def test_what_has_no_code_is_refused():
    with pytest.raises(ValueError, match="E2M1 has no code for NaN"):
        cast(torch.tensor([1.0, float("nan")]), E2M1)
    for wrong in (True, "1", None, np.arange(3), torch.arange(3)):
        with pytest.raises(TypeError, match="float"):
            cast(wrong, E4M3)
    with pytest.raises(ValueError, match="codes"):
        decode(np.array([16]), E2M1)
    with pytest.raises(ValueError, match="nan is False"):
        FloatFormat("none", 4, 3, nan=False)
