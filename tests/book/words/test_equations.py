"""A numbered equation with a formula's label is that formula's equation, symbol for symbol."""

import pytest

from book._tools.equations import by_label, check, fill
from dtlib.foundations import message_time

KNOWN = by_label()
OWN = message_time.equation


def page_with(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{text}\n")
    return page


def equation(body, label="eq-message-time"):
    return f"$$\n{body}\n$$ ({label})"


def test_every_formula_has_a_label_of_its_own():
    assert len(KNOWN) == len({formula.name for formula in KNOWN.values()}) > 10
    assert "eq-message-time" in KNOWN


@pytest.mark.parametrize("text", [equation(OWN), f"$${OWN}$$ (eq-message-time)"])
def test_the_formulas_own_equation_passes_however_it_is_spaced(tmp_path, text):
    assert check(page_with(tmp_path, text), KNOWN) == []
    assert check(page_with(tmp_path, text.replace(" = ", "\n  =  ")), KNOWN) == []


def test_any_other_equation_is_named_with_line_and_difference(tmp_path):
    page = page_with(tmp_path, "Text.\n\n" + equation(OWN.replace("+", "-")))
    (problem,) = check(page, KNOWN)
    assert ":5: eq-message-time: the page has " in problem and OWN in problem


def test_a_label_that_is_no_formula_must_not_look_like_one(tmp_path):
    assert check(page_with(tmp_path, equation("a = b", "eq-associativity")), KNOWN) == []
    (problem,) = check(page_with(tmp_path, equation("a = b", "eq-mesage-time")), KNOWN)
    assert "the nearest is eq-message-time" in problem


def test_two_equations_are_two(tmp_path):
    text = f"$$a = b$$\n\n{equation('T = 1')}\n\n{equation('c = d', 'eq-other')}"
    assert len(check(page_with(tmp_path, text), KNOWN)) == 1


def test_fill_writes_the_formula_and_leaves_the_rest(tmp_path):
    text = f"$$x$$ (eq-mine)\n\n{equation('T = 1')}\n\nEnd $a$."
    page = page_with(tmp_path, text)
    assert fill(page, KNOWN) and not fill(page, KNOWN)
    assert page.read_text() == "# Page\n\n" + text.replace("T = 1", OWN) + "\n"
