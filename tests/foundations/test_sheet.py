"""A sheet evaluates and refuses mixed units; its exponents and intervals are exact."""

import math

import pytest
import sympy as sp

from dtlib.foundations import message_time, training_flops, training_time
from dtlib.foundations.notation import NOTATION
from dtlib.foundations.sheet import Given, Sheet, SheetError, UnitError, line, readable, total

RUN = {"params": 30e9, "tokens": 4e6, "P": 128, "peak": 989e12, "mfu": 0.45}
LINK = {"n": 1e6, "alpha": 3e-6, "beta": 50e9}


def chain() -> Sheet:
    """A step of a run, a message, and their sum."""
    return Sheet(
        RUN | LINK,
        {"compute_time": training_time, "wire": message_time, "sum": total("compute_time", "wire")},
    )


def test_a_line_is_its_formula_and_a_total_the_sum_of_its_parts():
    sheet = chain()
    assert sheet["compute_time"] == training_time(**RUN)
    assert sheet["sum"] == training_time(**RUN) + message_time(**LINK)


def test_a_line_may_be_fed_under_another_name_or_by_a_number():
    sheet = Sheet({"gradient": Given(2e6, "B"), "beta": 50e9},
                  {"wire": line(message_time, n="gradient", alpha=1e-5)})  # fmt: skip
    assert sheet["wire"] == message_time(2e6, 1e-5, 50e9)


@pytest.mark.parametrize(
    ("given", "lines", "says"),
    [
        (RUN | LINK, {"work": training_flops, "sum": total("work", "n")},
         "'work' .FLOP. and 'n' .B."),
        (RUN | LINK, {"wire": line(message_time, n="alpha")},
         "'n' of message_time is in B, but 'alpha' is in s"),
        (RUN | LINK, {"wire": line(message_time, beta="peak")}, "in B/s, but 'peak' is in FLOP/s"),
        (RUN | LINK, {"wire": line(message_time, within="n")}, "cannot stay within 'n'"),
        ({"speed": Given(1.0, "m/s")}, {}, "unit 'm/s' is no base unit"),
    ],
)  # fmt: skip
def test_quantities_of_different_kinds_never_meet(given, lines, says):
    with pytest.raises(UnitError, match=says):
        Sheet(given, lines)


@pytest.mark.parametrize(
    ("given", "lines", "says"),
    [
        (RUN, {"wire": message_time}, "there is no 'n' above it"),
        (RUN, {"sum": total("later"), "later": training_flops}, "adds 'later'"),
        (RUN, {"mfu": training_flops}, "given and cannot be a line"),
        ({"speed": 1.0}, {}, "'speed' is not in the notation"),
        (RUN, {"sum": total()}, "adds nothing"),
        (RUN, {"work": line(training_flops, within="budget")}, "it is not there"),
    ],
)
def test_a_sheet_that_cannot_be_evaluated_says_why(given, lines, says):
    with pytest.raises(SheetError, match=says):
        Sheet(given, lines)


def test_a_line_names_the_parameters_that_there_are():
    with pytest.raises(SheetError, match="has no parameter 'bytes'; it has n, alpha, beta"):
        line(message_time, bytes="n")


def test_exponents_are_the_formulas_own_logarithmic_derivative():
    sheet = chain()
    expression = training_time.expression() + message_time.expression()
    numbers = {NOTATION[name].sympy(): value for name, value in (RUN | LINK).items()}
    for name, exponent in sheet.exponents("sum").items():
        x = NOTATION[name].sympy()
        exact = (sp.diff(expression, x) * x / expression).subs(numbers)
        assert exponent == pytest.approx(float(exact), abs=1e-7)


def test_sabotage_an_input_that_a_formula_forgot_has_exponent_zero():
    forgetful = Sheet(RUN, {"work": line(training_flops, tokens=1)})
    assert "tokens" not in forgetful.exponents("work")
    assert Sheet(RUN, {"work": training_flops}).exponents("work")["tokens"] == pytest.approx(1)


def test_the_interval_of_a_product_is_the_root_of_the_sum_of_squares():
    sheet = Sheet(RUN, {"step": training_time})
    low, high = sheet.interval("step", {"mfu": 1.3, "params": 1.2}, draws=200_000)
    factor = math.exp(math.hypot(math.log(1.3), math.log(1.2)))
    assert high / sheet["step"] == pytest.approx(factor, rel=0.01)
    assert sheet["step"] / low == pytest.approx(factor, rel=0.01)


def test_the_interval_is_the_same_every_time_and_empty_without_doubt():
    sheet = chain()
    assert sheet.interval("sum", {"mfu": 1.3}) == sheet.interval("sum", {"mfu": 1.3})
    assert sheet.interval("sum", {}) == (sheet["sum"], sheet["sum"])


@pytest.mark.parametrize(
    ("factors", "share", "says"),
    [({"mfu": 0.9}, 0.8, "at least 1"), ({"mfu": 1.2}, 1, "a probability"), ({"x": 2}, 0.8, "'x'")],
)
def test_an_interval_refuses_what_is_no_uncertainty(factors, share, says):
    with pytest.raises(ValueError, match=says):
        chain().interval("sum", factors, share=share)


def test_shares_are_of_the_whole_and_the_largest_comes_first():
    shares = chain().shares("sum")
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares) == ["compute_time", "wire"]


def test_feeds_are_found_through_every_line_between():
    assert chain().feeds("sum") == [*RUN, *LINK]
    assert chain().feeds("wire") == list(LINK)


def test_other_values_make_another_sheet():
    twice = chain().replaced(tokens=8e6)
    assert twice["compute_time"] == 2 * chain()["compute_time"]
    with pytest.raises(SheetError, match="'sum' is not given"):
        chain().replaced(sum=3.0)


def test_large_counts_are_read_in_words():
    assert [readable(x) for x in (999, 1e6, 2.5e9, 15e12)] == [
        "999", "1 million", "2.5 billion", "15 trillion"
    ]  # fmt: skip
