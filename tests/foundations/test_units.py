"""A printed quantity and its value determine each other to half of the last printed digit."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtlib.foundations import (
    GB,
    KB,
    MB,
    TB,
    Gbit,
    GiB,
    KiB,
    MiB,
    Quantity,
    TiB,
    day,
    format_quantity,
    hour,
    minute,
    ms,
    parse_quantity,
    us,
)
from dtlib.foundations.units import BASE_UNITS, TFLOP


def test_constants_multiply_into_base_units():
    assert (KB, MB, GB, TB) == (1000, 1000**2, 1000**3, 1000**4)
    assert (KiB, MiB, GiB, TiB) == (1024, 1024**2, 1024**3, 1024**4)
    assert 400 * Gbit == 50 * GB
    assert 3 * us == 3e-6 and 3 * ms == 3e-3
    assert 60 * minute == hour and 24 * hour == day


@pytest.mark.parametrize(
    ("text", "value", "unit", "half_step"),
    [
        ("35 ms", 0.035, "s", 0.0005),
        ("0.2 s", 0.2, "s", 0.05),
        ("12.5 µs", 12.5e-6, "s", 0.05e-6),
        ("12.5 μs", 12.5e-6, "s", 0.05e-6),
        ("3 us", 3e-6, "s", 0.5e-6),
        ("80ns", 80e-9, "s", 0.5e-9),
        ("12 min", 720, "s", 30),
        ("1.5 h", 5400, "s", 180),
        ("3 days", 259200, "s", 43200),
        ("10 years", 315576000, "s", 15778800),
        ("1.28 MB", 1.28e6, "B", 5e3),
        ("1,024", 1024, "", 0.5),
        ("1,024 B", 1024, "B", 0.5),
        ("64 KiB", 65536, "B", 512),
        ("80 GiB", 80 * 2**30, "B", 2**29),
        ("25 bytes", 25, "B", 0.5),
        ("450 GB/s", 450e9, "B/s", 0.5e9),
        ("400 Gb/s", 50e9, "B/s", 0.0625e9),
        ("400 Gbit/s", 50e9, "B/s", 0.0625e9),
        ("2 bytes/s", 2, "B/s", 0.5),
        ("989 TFLOP/s", 989 * TFLOP, "FLOP/s", TFLOP / 2),
        ("3.1e23 FLOP", 3.1e23, "FLOP", 0.05e23),
        ("295 FLOP/B", 295, "FLOP/B", 0.5),
        ("20 ps/B", 20e-12, "s/B", 0.5e-12),
        ("7.35×", 7.35, "", 0.005),
        ("9x", 9, "", 0.5),
        ("3 times", 3, "", 0.5),
        ("16 %", 0.16, "", 0.005),
        ("99.5%", 0.995, "", 0.0005),
        ("-3 %", -0.03, "", 0.005),
        ("−3 %", -0.03, "", 0.005),
        ("14 rounds", 14, "", 0.5),
        ("2.1 million", 2.1e6, "", 0.05e6),
        ("3.5e3", 3500, "", 50),
        (".5", 0.5, "", 0.05),
        (" 35  ms ", 0.035, "s", 0.0005),
    ],
)
def test_a_sentence_is_read(text, value, unit, half_step):
    quantity = parse_quantity(text)
    assert quantity.unit == unit
    assert quantity.value == pytest.approx(value, rel=1e-15)
    assert quantity.half_step == pytest.approx(half_step, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["", "ms", "1,02 s", "12,3456", "3 parsecs", "1.2.3 s", "35 MS", "5 gb"]
)
def test_what_is_no_quantity_is_refused_with_its_text(text):
    with pytest.raises(ValueError, match="quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0.03517, "s"), "35 ms"),
        ((0.3995, "s", 4), "399.5 ms"),
        ((5e-6, "s"), "5 µs"),
        ((3e-10, "s"), "0.3 ns"),
        ((90, "s"), "90 s"),
        ((180, "s"), "3 min"),
        ((3.1e8, "s"), "9.8 years"),
        ((0, "s"), "0 s"),
        ((0.9996, "s"), "1.0 s"),
        ((9.96e-3, "s"), "10 ms"),
        ((999.6e6, "B"), "1.0 GB"),
        ((1, "B"), "1 B"),
        ((1_137_000, "B", 4), "1.137 MB"),
        ((1.5 * GB, "B", 3), "1.5 GB"),
        ((450 * GB, "B/s"), "450 GB/s"),
        ((80 * GiB, "GiB"), "80 GiB"),
        ((50 * GB, "Gb/s"), "400 Gb/s"),
        ((0.0352, "s", 1), "35 ms"),
        ((12345, ""), "12,345"),
        ((0.0123, ""), "0.012"),
        ((2**60, "", 3), "1.15e18"),
        ((1e-7, ""), "1e-7"),
        ((7.349, "×", 3), "7.35×"),
        ((0.164, "%"), "16 %"),
        ((-0.035, "s"), "-35 ms"),
        ((Fraction(7, 4), "×", 3), "1.75×"),
        ((np.float64(0.035), "s"), "35 ms"),
        ((np.int64(1024), ""), "1,024"),
    ],
)
def test_a_quantity_is_printed_for_a_reader(arguments, text):
    assert format_quantity(*arguments) == text


MAGNITUDES = st.floats(-18, 25).map(lambda exponent: 10**exponent)
UNITS = st.sampled_from([*BASE_UNITS, "ms", "GB", "GiB", "Gb/s", "%", "×", "TFLOP/s", "min"])


@given(MAGNITUDES, UNITS, st.integers(1, 8), st.sampled_from([1, -1]))
def test_what_is_printed_is_within_half_a_step_of_the_value(magnitude, unit, digits, sign):
    value = sign * magnitude
    quantity = parse_quantity(format_quantity(value, unit, digits))
    assert quantity.agrees_with(value)
    assert math.copysign(1, quantity.value) == sign or quantity.value == 0


@given(MAGNITUDES, st.sampled_from(BASE_UNITS), st.integers(1, 8))
def test_a_base_unit_shows_the_digits_that_were_asked_for(magnitude, unit, digits):
    quantity = parse_quantity(format_quantity(magnitude, unit, digits))
    exact = math.isclose(quantity.value, magnitude, rel_tol=1e-11)
    assert exact or quantity.half_step <= 0.5 * quantity.value * 10 ** (1 - digits) * (1 + 1e-9)


@given(st.integers(1, 10**9))
def test_sabotage_a_value_one_digit_off_does_not_agree(number):
    quantity = parse_quantity(format_quantity(number))
    assert quantity == Quantity(number, "", 0.5)
    assert not quantity.agrees_with(number + 1) and not quantity.agrees_with(number - 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, "parsec"), "unit 'parsec' is unknown; known are"),
        ((1, "s", 0), "digits 0: at least 1"),
        ((math.nan, "s"), "only a finite number"),
        ((math.inf, "B"), "only a finite number"),
    ],
)
def test_what_cannot_be_printed_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        format_quantity(*arguments)
