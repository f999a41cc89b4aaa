"""A sheet evaluates and refuses mixed units; its exponents and intervals are exact."""

import math

import pytest
import sympy as sp

from dtlib.formulas.notation import NOTATION
from dtlib.formulas.sheet import Given, Sheet, SheetError, UnitError, line, total
from dtlib.formulas.sheet_table import sheet_tables
from dtlib.formulas.units import format_quantity, readable
from dtlib.foundations import message_time, training_flops, training_time

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


# What is shown.

LINKED = {"first": Given(1e6, "B"), "second": Given(3e6, "B"), "alpha": 0, "beta": 1e9}


def two_messages(deadline: float = 0) -> Sheet:
    """1 MB and 3 MB over one link of 1 GB/s, and their sum, within a time if one is given."""
    lines = {name: line(message_time, n=name, label=f"the {name}") for name in ("first", "second")}
    lines = {f"{name}_time": entry for name, entry in lines.items()}
    both = total(*lines, label="both messages", within="deadline" if deadline else "")
    return Sheet(LINKED | {"deadline": Given(deadline, "s")}, lines | {"both": both})


SHOWN = (
    ("the first", "1 ms", "25 % of both messages", "message_time(n=first, alpha, beta)"),
    (
        *("the second", "3 ms", "75 % of both messages, the largest"),
        "message_time(n=second, alpha, beta)",
    ),
    ("both messages", "4 ms", "", "first_time + second_time"),
)


def test_a_table_names_each_line_with_its_value_its_share_and_its_origin():
    (table,) = sheet_tables(two_messages())
    equation = f"${message_time.equation}$"
    assert table.columns == ("line", "value", "part of", "from", "equation")
    assert tuple(row[:-1] for row in table.rows) == SHOWN
    assert [row[-1] for row in table.rows] == [equation, equation, "the first + the second"]
    page = table._repr_markdown_()
    assert "**75 % of both messages**" in page and "the largest" not in page
    assert "3\u00a0ms" in page and "n=second" not in page and equation in page
    assert "| line | value | part of | equation |" in page


def test_sabotage_a_share_that_is_a_product_is_seen(monkeypatch):
    def product(share, unit, digits):
        return format_quantity(share * 4e-3**2, unit, digits)

    monkeypatch.setattr("dtlib.formulas.sheet_table.format_quantity", product)
    assert tuple(row[:-1] for row in sheet_tables(two_messages())[0].rows) != SHOWN


@pytest.mark.parametrize(("limit", "says"), [(5e-3, "within 5 ms"), (4e-3, "within 4 ms"),
                                             (3e-3, "too much for 3 ms")])  # fmt: skip
def test_a_table_says_whether_a_line_stays_within_its_limit(limit, says):
    assert sheet_tables(two_messages(limit))[0].rows[2][2] == says


def test_a_group_of_a_table_has_its_title_and_only_its_lines():
    tables = sheet_tables(two_messages(), {"one": ["first_time"], "none": [], "sum": ["both"]})
    assert [(table.title, [row[0] for row in table.rows]) for table in tables] == [
        ("one", ["the first"]),
        ("sum", ["both messages"]),
    ]
    assert tables[1].columns == ("line", "value", "from", "equation"), "no share, no column"
    assert [table.title for table in sheet_tables(two_messages())] == ["Sheet"]


def test_a_sheet_is_a_mapping_of_every_name_to_its_value():
    sheet = chain()
    assert list(sheet) == [*RUN, *LINK, "compute_time", "wire", "sum"]
    assert len(sheet) == len(list(sheet)) == 11
    assert dict(sheet) == sheet.values_at()
    with pytest.raises(KeyError, match=r"no 'speed' in this sheet; there are n, alpha, beta, T"):
        Sheet(LINK, {"T": message_time})["speed"]


def test_a_name_has_words_and_a_unit():
    sheet = Sheet(
        {"n": 1e6, "alpha": Given(1e-6, "s", "latency of a port"), "my_rate": Given(1e9, "B/s")},
        {"time": line(message_time, beta="my_rate"), "twice": total("time", "time", label="both")},
    )
    words = {name: (sheet.label(name), sheet.unit(name)) for name in sheet}
    assert words == {
        "n": (NOTATION["n"].meaning.split(",")[0], "B"),
        "alpha": ("latency of a port", "s"),
        "my_rate": ("my rate", "B/s"),
        "time": ("time", "s"),
        "twice": ("both", "s"),
    }


def test_an_interval_holds_the_share_that_was_asked_for():
    """An input that is off by a factor of 2 with probability 0.5: half of the draws lie within."""
    sheet = Sheet(RUN, {"step": training_time})
    low, high = sheet.interval("step", {"mfu": 2}, share=0.5, draws=200_000)
    assert high / sheet["step"] == pytest.approx(2, rel=0.02)
    assert sheet["step"] / low == pytest.approx(2, rel=0.02)
    assert sheet.interval("step", {"mfu": 1}) == pytest.approx((sheet["step"],) * 2, rel=1e-12)
    other = sheet.interval("step", {"mfu": 2}, share=0.5, seed=1)
    assert other != sheet.interval("step", {"mfu": 2}, share=0.5, seed=0)


def test_exponents_come_with_the_largest_first_whatever_their_sign():
    exponents = Sheet(RUN | {"mfu": 0.45}, {"step": training_time}).exponents("step")
    assert list(exponents) == [*RUN]
    strong = chain().exponents("sum")
    assert sorted(strong.values(), key=abs, reverse=True) == pytest.approx([*strong.values()])
