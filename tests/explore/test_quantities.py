"""A number reads the same in the page as in the library."""

import math
import random

import pytest
from scripts import Scripts

from dtlib.formulas.units import BASE_UNITS, format_quantity

UNITS = [*BASE_UNITS, "ms", "GiB", "%", "×"]


@pytest.fixture(scope="module")
def js():
    return Scripts("../drawing/quantities.js")


def quantities(count: int, seed: int):
    """Values over all magnitudes, round ones and ties among them, with unit and digits."""
    draw = random.Random(seed)
    for _ in range(count):
        value = draw.choice(
            [
                10 ** draw.uniform(-9, 15),
                draw.randint(0, 10**7),
                round(10 ** draw.uniform(-6, 6), draw.randint(0, 3)),
                draw.randint(1, 400) / 8,
            ]
        )
        yield value, draw.choice(UNITS), draw.choice([1, 2, 3, 4])


def disagreements(js, format_in_js: str, count: int = 4000) -> list:
    cases = list(quantities(count, seed=12))
    found = js(f"cases.map(([v, u, d]) => {format_in_js})", cases=cases)
    return [
        (case, expected, there)
        for case, there in zip(cases, found, strict=True)
        if (expected := format_quantity(*case)) != there and not is_tie(*case)
    ]


def is_tie(value: float, unit: str, digits: int) -> bool:
    """Whether the value lies so near the middle of two printed numbers that both are right."""
    texts = {format_quantity(value * (1 + sign * 1e-14), unit, digits) for sign in (-1, 1)}
    return len(texts) > 1


def test_a_quantity_reads_the_same_in_the_page_as_in_the_library(js):
    assert disagreements(js, "formatQuantity(v, u, d)") == []


def test_the_comparison_notices_a_wrong_rule(js):
    assert disagreements(js, "formatQuantity(v * 1.2, u, d)", count=50)
    assert disagreements(js, "formatQuantity(v, u, d).replace(',', '')", count=200)


@pytest.mark.parametrize(
    ("low", "high", "scale", "most", "expected"),
    [
        (1e3, 1e10, "log", 8, [10**k for k in range(3, 11)]),
        (1e3, 1e10, "log", 4, [10**4, 10**6, 10**8, 10**10]),
        (2, 64, "powers of two", 8, [2, 4, 8, 16, 32, 64]),
        (0, 1, "linear", 6, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_ticks_are_round_numbers(js, low, high, scale, most, expected):
    found = js(f"ticks({low}, {high}, '{scale}', {most})")
    assert found == pytest.approx(expected)


def test_ticks_of_a_linear_axis_are_round_in_the_unit_that_is_read(js):
    day = 86400
    found = js(f"quantityTicks({9 * day}, {60 * day}, 'linear', 6, 's')")
    assert [value / day for value in found] == pytest.approx([10, 20, 30, 40, 50, 60])
    assert js("quantityTicks(1, 1000, 'log', 6, 's')") == pytest.approx([1, 10, 100, 1000])


def test_a_value_that_is_no_number_is_a_dash(js):
    assert js("formatQuantity(NaN, 's')") == js("formatQuantity(1 / 0, 's')") == "–"
    assert not math.isfinite(float("nan"))
