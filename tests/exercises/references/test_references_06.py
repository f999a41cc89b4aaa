"""What the exercises of chapter 6 compare with, found in another way."""

import pytest

from dtlib.exercises.chapters.foundations.ch06 import _exponent, _powers, _sheets, _tornado


def test_the_exponents_are_those_that_a_pencil_finds():
    by_hand = {
        "for a sum": lambda x, y: y / (x + y),
        "for a maximum": lambda x, y: float(x > y),
        "for a constant": lambda x, y: 0.0,
    }
    for where, (f, inputs, name) in _powers():
        right = by_hand[where](**inputs) if where in by_hand else f.__defaults__[0]
        assert _exponent(f, inputs, name) == pytest.approx(right, rel=1e-4, abs=1e-4)


def test_a_tornado_lists_what_has_an_exponent_and_lies_on_both_sides_of_the_line():
    for _, (sheet, name, share) in _sheets():
        rows = _tornado(sheet, name, share)
        moving = [feed for feed, power in sheet.exponents(name).items() if power]
        assert sorted(feed for feed, *_ in rows) == sorted(moving)
        assert all(min(ends) < sheet[name] < max(ends) for _, *ends in rows)
