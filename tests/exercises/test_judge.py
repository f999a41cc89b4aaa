"""The judges: what they accept, what they call wrong, and that they never tell the value."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtlib.exercises import NotYet, check
from dtlib.exercises.judge import call, function, items, number, real, whole


@pytest.mark.parametrize("answer", [35, 35.2, Fraction(35), np.float32(35), np.array(35.0)])
def test_numbers_of_every_kind_pass(answer):
    assert number(answer, 35.0, "T") == pytest.approx(35, rel=0.01)


NOT_NUMBERS = {
    "a number in ms, got '35 ms'": "35 ms",
    "a number in ms, got True": True,
    "a number in ms, got None": None,
    "a number in ms, got Ellipsis": ...,
    "a number in ms, got list": [35],
    "an array of shape": np.ones(3),
    "a finite number, got nan": float("nan"),
    "a finite number, got inf": float("inf"),
}


@pytest.mark.parametrize("says", NOT_NUMBERS)
def test_what_is_no_number_is_refused_with_its_kind(says):
    with pytest.raises(NotYet, match=says):
        number(NOT_NUMBERS[says], 35.0, "T", "ms")


HINTS = {
    8: "factor of 8: bits or bytes",
    1 / 8: "too small by about a factor of 8: bits or bytes",
    1e3: "factor of 1,000: check the prefixes",
    1e-9: "check the prefixes",
    1.024**3: "decimal or binary",
    2: "one direction or both",
    1.06: "close, but a little too large",
    0.6: "the right order of magnitude, but is too small",
    5: "less than a factor of ten",
    300: "more than a factor of ten",
    -1: "the wrong sign",
    0: "must not be zero",
}


@pytest.mark.parametrize("ratio", HINTS)
def test_a_factor_that_units_explain_is_named(ratio):
    with pytest.raises(NotYet, match=HINTS[ratio]):
        number(35.0 * ratio, 35.0, "T")


@given(st.floats(1e-6, 1e12), st.floats(1e-3, 1e3).filter(lambda r: abs(r - 1) > 0.05))
def test_no_message_contains_the_value(expected, ratio):
    with pytest.raises(NotYet) as caught:
        number(expected * ratio, expected, "T")
    for digits in (f"{expected:.2e}"[:4], f"{expected:.4g}"):
        assert digits not in str(caught.value) or len(digits) < 4


def test_a_known_mistake_gets_its_own_hint():
    with pytest.raises(NotYet, match="T: forgot one phase"):
        number(17.5, 35.0, "T", mistakes={17.5: "forgot one phase"})


def test_whole_numbers_and_items():
    assert whole(4.0, "P") == 4
    with pytest.raises(NotYet, match="P must be a whole number"):
        whole(4.5, "P")
    assert items((1, 2), "pair", 2) == [1, 2]
    for wrong in (1, [1], "ab", {1: 2, 3: 4}):
        with pytest.raises(NotYet, match="pair must have 2 items"):
            items(wrong, "pair", 2)


def test_a_function_must_take_the_arguments_of_the_exercise():
    assert function(max, "f(a, b)") is max
    with pytest.raises(NotYet, match=r"must take f\(a, b\), but it takes \(a\)"):
        function(lambda a: a, "f(a, b)")
    with pytest.raises(NotYet, match=r"pass your function f\(a, b\), got int: 3"):
        function(3, "f(a, b)")


def test_what_the_readers_function_raises_is_told_with_its_inputs():
    with pytest.raises(NotYet, match=r"\(0, 2\) raises ZeroDivisionError: division by zero"):
        call(lambda a, b: b / a, 0, 2)
    with pytest.raises(NotYet, match="returns nothing yet"):
        call(lambda: None)
    with pytest.raises(KeyError):
        call({}.__getitem__, 1, passing=(KeyError,))


def test_large_inputs_are_told_in_one_short_line():
    with pytest.raises(NotYet, match=r"^\(array\(.*\.\.\., 3\) raises ZeroDivisionError") as caught:
        call(lambda x, n: n / 0, np.eye(9), 3)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 120


def test_real_takes_a_tensor_of_one_element():
    torch = pytest.importorskip("torch")
    assert real(torch.tensor(2.5), "T") == 2.5


def test_a_check_of_a_stub_is_an_assertion_error_in_one_line():
    with pytest.raises(AssertionError) as caught:
        check("12.4", ...)
    assert caught.value._render_traceback_() == ["Not yet. 12.4: P must be a number, got Ellipsis"]
