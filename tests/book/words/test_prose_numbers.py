"""A number in prose is what its expression gives, in its own digits and unit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from book._tools.expressions import Expression, ExpressionError
from book._tools.prose_numbers import check, fill, numbers, printed_like
from dtlib.foundations import format_quantity

MESSAGE = "message_time(n=1*MB, alpha=0, beta=50*GB)"


def data(value: str, text: str) -> str:
    return f'<data value="{value}">{text}</data>'


def page_with(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\nIt takes {text}.\n")
    return page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (MESSAGE, "20 µs"),
        (MESSAGE, "0.02 ms"),
        (MESSAGE, "20.0 microseconds"),
        ("2*(1024-1)", "2,046"),
        ("3/8", "37.5 %"),
        ("1000/136", "7.35×"),
        ("log2(1024)", "10 rounds"),
        ("LossSurface.besiroglu().optimum(1e22).loss", "2.141"),
        ("max(1, 2) + len([1, 2])", "4"),
        ("catalog['h100-sxm'].hbm_bytes", "80 GiB"),
        ("2+2", "four times"),
        ("2.1", "doubles"),
        ("2/3", "two thirds"),
        ("1/20", "a twentieth"),
        ("23", "a factor of twenty-three"),
        ("1.9e5", "two hundred thousand"),
        ("all(n > 1 for n in [2, 3]) and 2 < 3", "at every size"),
    ],
)
def test_a_number_that_holds_passes(tmp_path, value, text):
    assert check(page_with(tmp_path, data(value, text))) == []


@pytest.mark.parametrize(
    ("value", "text", "complaint"),
    [
        (MESSAGE, "21 µs", "'21 µs' should be '20 µs'"),
        (MESSAGE, "20 ms", "'20 ms' should be '0 ms'"),
        (MESSAGE, "20 MB", "'20 MB' is in 'B', but message_time is in 's'"),
        (MESSAGE, "2e-05", "is without a unit"),
        ("1/3", "0.34", "'0.34' should be '0.33'"),
        ("2+2", "many", "expected a number"),
        ("2+2", "five times", "'five times' should be '4'"),
        ("1/3", "a quarter", "'a quarter' should be"),
        ("2 > 3", "at every size", "'at every size' does not hold: 2 > 3"),
        ("all(n > 1 for n in [1, 2])", "always", "does not hold"),
        ("2+2", "4 bananas", "unknown unit"),
        ("no_such_time(n=1)", "4", "'no_such_time' is not a name"),
        ("message_time(n=1)", "4 s", "has no value"),
        ("1/0", "4", "ZeroDivisionError"),
        ("2 +", "4", "no expression"),
    ],
)
def test_a_number_that_does_not_hold_is_named_with_its_line(tmp_path, value, text, complaint):
    (problem,) = check(page_with(tmp_path, data(value, text)))
    assert ":3: " in problem and complaint in problem


@pytest.mark.parametrize(
    "source",
    [
        "__import__('os').getcwd()",
        "message_time.__wrapped__",
        "catalog.__class__",
        "(lambda: 4)()",
        "[x for x in (1, 2)]",
        "[x.__class__ for x in (1, 2)]",
        "all(open(x) for x in (1, 2))",
        "open('page.md')",
        "1 if 2 else 3",
        "f'{1}'",
        "(a := 4)",
    ],
)
def test_an_expression_can_do_nothing_but_calculate(source):
    with pytest.raises(ExpressionError):
        print(Expression(source).value)


def test_only_well_formed_elements_are_numbers():
    with pytest.raises(ValueError, match="line 2: write a number as"):
        list(numbers("First line\n<data class='x' value=\"2\">2</data>"))


def test_code_is_passed_over():
    code = data("0", "1")
    text = f"```html\n{code}\n```\n`{code}` {data('2', '2')}"
    (number,) = numbers(text)
    assert number.source == "2"


def test_fill_keeps_digits_and_unit_and_leaves_what_holds(tmp_path):
    right, wrong, empty = data("1/3", "0.333"), data(MESSAGE, "77.0 µs"), data(MESSAGE, "")
    page = page_with(tmp_path, f"{right}, {wrong}, {empty}")
    assert fill(page)
    expected = f"{right}, {data(MESSAGE, '20.0 µs')}, {data(MESSAGE, '20 µs')}"
    assert expected in page.read_text()
    assert check(page) == [] and not fill(page)


def test_fill_leaves_words_to_a_person(tmp_path):
    page = page_with(tmp_path, f"{data('2 > 3', 'larger')}, {data('2+2', 'five times')}")
    assert not fill(page)
    assert len(check(page)) == 2


@given(
    st.floats(1e-6, 1e6),
    st.sampled_from(["s", "ms", "B", "GB", "%", "×", ""]),
    st.integers(1, 4),
)
def test_what_fill_prints_always_passes_the_check(value, unit, digits):
    older = format_quantity(value * 1.7, unit, digits)
    number = Expression(repr(value))
    if "e" in older:
        return
    shown = printed_like(older, number)
    assert not next(numbers(data(repr(value), shown))).problem()
