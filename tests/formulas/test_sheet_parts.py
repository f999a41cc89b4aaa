"""Sheets out of sheets say the same of what is left."""

import pytest

from dtlib.formulas.sheet import Given, Sheet, SheetError, line, total
from dtlib.formulas.sheet_parts import renamed, settled, together, without_zeros
from dtlib.machines.alpha_beta import message_time

GIVEN = {"n": 1e6, "alpha": 2e-6, "beta": 5e10, "copy": Given(0.0, "s"), "wait": Given(1e-3, "s"),
         "limit": Given(1.0, "s")}  # fmt: skip
SHEET = Sheet(
    GIVEN,
    {
        "sent": message_time,
        "idle": line(message_time, n=0, alpha="copy"),
        "moved": total("sent", "copy", "idle"),
        "time": total("moved", "wait", within="limit"),
    },
)


@pytest.mark.parametrize(
    "sheet",
    [SHEET, renamed(SHEET, n="bytes", sent="out"), settled(SHEET, "n", "beta"),
     without_zeros(SHEET, "time"), Sheet(*together((SHEET.given, {}), ({}, SHEET.lines)))],
    ids=["itself", "renamed", "settled", "without_zeros", "together"],
)  # fmt: skip
def test_the_result_is_that_of_the_sheet_it_was_made_of(sheet):
    assert sheet["time"] == SHEET["time"]
    assert sheet.lines["time"].within == "limit"
    assert sheet.exponents("time")["alpha"] == pytest.approx(SHEET.exponents("time")["alpha"])


def test_names_numbers_and_zeros_are_where_they_should_be():
    other = renamed(SHEET, n="bytes", sent="out")
    assert "n" not in other and other.inputs("out")["n"] == "bytes"
    assert "n" not in settled(SHEET, "n") and settled(SHEET, "n").inputs("sent")["n"] == 1e6
    slim = without_zeros(SHEET, "time")
    assert list(slim.lines) == ["moved", "time"], "a sum of one line is that line"
    assert slim.lines["moved"].formula is message_time


def test_sabotage_a_name_that_means_two_things_is_refused():
    with pytest.raises(SheetError, match=r"'n' is 1000000\.0 in one sheet and 2 in another"):
        together((SHEET.given, {}), ({"n": Given(2, "B")}, {}))
    with pytest.raises(SheetError, match="'time' is a line in two sheets"):
        together((SHEET.given, SHEET.lines), ({}, {"time": SHEET.lines["sent"]}))
