"""A printed quantity and its value determine each other to half of the last printed digit."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtlib.formulas.units import _LADDERS, _UNITS, BASE_UNITS, TFLOP
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


# Every unit, by every name that it is read by, on the line of its base unit. A name after the
# first of a group is another spelling of it.
SIZES = """
B       B byte bytes 1 | KB kB 1e3 | MB 1e6 | GB 1e9 | TB 1e12 | PB 1e15 | EB 1e18
B       KiB 1024 | MiB 1048576 | GiB 1073741824 | TiB 1099511627776 | PiB 1125899906842624
B/s     B/s bytes/s 1 | KB/s kB/s 1e3 | MB/s 1e6 | GB/s 1e9 | TB/s 1e12 | PB/s 1e15 | EB/s 1e18
B/s     KiB/s 1024 | MiB/s 1048576 | GiB/s 1073741824 | TiB/s 1099511627776
B/s     PiB/s 1125899906842624 | b/s bit/s 0.125 | Kb/s Kbit/s 125 | Mb/s Mbit/s 125e3
B/s     Gb/s Gbit/s 125e6 | Tb/s Tbit/s 125e9 | Pb/s Pbit/s 125e12 | Eb/s Ebit/s 125e15
s       ps 1e-12 | ns 1e-9 | us µs μs microseconds 1e-6 | ms milliseconds 1e-3
s       s second seconds 1 | min minute minutes 60 | h hour hours GPU-hours 3600
s       d day days 86400 | years year 31557600
s/B     ps/B 1e-12 | ns/B 1e-9 | us/B 1e-6 | s/B 1
FLOP    FLOP FLOPs 1 | KFLOP 1e3 | MFLOP 1e6 | GFLOP 1e9 | TFLOP 1e12 | PFLOP 1e15 | EFLOP 1e18
FLOP    ZFLOP 1e21 | YFLOP 1e24
FLOP/s  FLOP/s 1 | KFLOP/s 1e3 | MFLOP/s 1e6 | GFLOP/s 1e9 | TFLOP/s 1e12 | PFLOP/s 1e15
FLOP/s  EFLOP/s 1e18 | ZFLOP/s 1e21 | YFLOP/s 1e24
FLOP/B  FLOP/B FLOP/byte 1 | KFLOP/B 1e3 | MFLOP/B 1e6 | GFLOP/B 1e9 | TFLOP/B 1e12
FLOP/B  PFLOP/B 1e15 | EFLOP/B 1e18 | ZFLOP/B 1e21 | YFLOP/B 1e24
tok/s   tok/s tokens/s 1
USD     USD dollars $ 1
USD/s   USD/s 1 | USD/h 2.777777777777778e-4
USD/J   USD/J 1 | USD/kWh 2.777777777777778e-7
J       J 1 | Wh 3600 | kWh 3.6e6 | MWh 3.6e9 | GWh 3.6e12
W       W 1 | kW 1e3 | MW 1e6 | GW 1e9
"""
IN_WORDS = {
    "tok/s": {"thousand tok/s": 1e3, "thousand tokens/s": 1e3}
    | {"million tok/s": 1e6, "million tokens/s": 1e6},
    "USD": dict.fromkeys(("M USD", "million USD", "million dollars"), 1e6)
    | dict.fromkeys(("G USD", "billion USD", "billion dollars"), 1e9),
    "USD/s": {"dollars an hour": 1 / 3600},
    "USD/J": {"dollars per kWh": 1 / 3.6e6},
    "": {"": 1, "%": 0.01, "million": 1e6, "billion": 1e9, "trillion": 1e12}
    | dict.fromkeys(("×", "x", "times"), 1)
    | dict.fromkeys(("ranks", "rounds", "messages", "chunks", "GPUs", "nodes"), 1)
    | dict.fromkeys(("tokens", "parameters"), 1),
}


def sizes_of_units():
    """The size of every unit in its base unit, and that: {name: (base, size)}."""
    sizes = {name: (base, x) for base, names in IN_WORDS.items() for name, x in names.items()}
    for row in SIZES.strip().splitlines():
        base, _, groups = row.partition(" ")
        for group in groups.split("|"):
            *names, size = group.split()
            sizes |= {name: (base, float(size)) for name in names}
    return sizes


def read_alike(sizes) -> bool:
    """Whether three of each unit are read as three times that size."""
    found = {name: parse_quantity(f"3 {name}") for name in sizes}
    return all(
        found[name].unit == base and found[name].value == pytest.approx(3 * size, rel=1e-14)
        for name, (base, size) in sizes.items()
    )


def test_every_unit_is_read_in_its_size():
    assert sizes_of_units().keys() == _UNITS.keys()
    assert read_alike(sizes_of_units())


def test_sabotage_a_unit_of_twice_its_size_is_seen(monkeypatch):
    monkeypatch.setitem(_UNITS, "tok/s", ("tok/s", 2))
    assert not read_alike(sizes_of_units())


@pytest.mark.parametrize("base", _LADDERS)
def test_every_unit_of_a_ladder_is_printed_under_its_own_name(base):
    sizes = sizes_of_units()
    for name in _LADDERS[base]:
        assert sizes[name][0] == base
        assert format_quantity(3 * sizes[name][1], base) == f"3 {name}"
    assert format_quantity(500 * sizes[_LADDERS[base][0]][1], base) == f"500 {_LADDERS[base][0]}"


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
