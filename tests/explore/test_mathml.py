"""Every formula of the library can be drawn, and its numbers written in."""

import re
from xml.dom import minidom

import pytest

import dtlib.collectives
import dtlib.foundations.roofline.times
import dtlib.machines.alpha_beta  # noqa: F401
from dtlib.explore.mathml import mathml, plain
from dtlib.formulas.formula import formulas
from dtlib.formulas.notation import NOTATION
from dtlib.formulas.typeset import ATOM, Piece, Typesetter

EVERY = pytest.mark.parametrize("name", sorted(formulas()))


@EVERY
def test_an_equation_is_well_formed(name):
    minidom.parseString(mathml(formulas()[name].equation))


@EVERY
def test_every_symbol_of_an_equation_has_a_place_for_its_number(name):
    formula = formulas()[name]
    drawn = mathml(formula.latex, {NOTATION[p].latex: p for p in formula.parameters})
    places = set(re.findall('data-value="(.*?)"', drawn))
    assert places == {p for p in formula.parameters if is_written(formula, p)}


def is_written(formula, parameter: str) -> bool:
    """Whether the equation shows the parameter itself, not only a formula that depends on it."""

    def marked(name):
        return Piece("mark", ATOM) if name == parameter else formula._as_symbol(name)

    return "mark" in Typesetter(marked, formula._names).latex(formula._body)


def test_a_power_of_a_symbol_with_an_index_leaves_a_place_for_its_base():
    drawn = mathml(r"c_\text{a}^{2}", {r"c_\text{a}": "cv"})
    place = '<mrow data-value="cv"><msub><mi>c</mi><mtext>a</mtext></msub></mrow>'
    assert drawn == f"<mrow><msup>{place}<mrow><mn>2</mn></mrow></msup></mrow>"
    assert "msubsup" in mathml(r"c_\text{a}^{2}")
    letter = '<mrow data-value="seq"><mi>s</mi></mrow>'
    assert (
        mathml("s^{2}", {"s": "seq"})
        == f"<mrow><msup>{letter}<mrow><mn>2</mn></mrow></msup></mrow>"
    )


def text(latex: str) -> str:
    """The drawn characters in order, with a dot for a product that has no sign."""
    drawn = mathml(latex).replace("\u2062", "").replace("&#x2062;", "·")
    return re.sub("<[^>]*>", "", drawn)


@pytest.mark.parametrize(
    ("latex", "drawn"),
    [
        (r"2\,(P-1)\,\alpha", "2·(P−1)·α"),
        (r"\lceil\log_2 P\rceil\,\alpha", "⌈log2P⌉·α"),
        (r"\log_2(P)\,\left( \alpha+\frac{n}{\beta} \right)", "log2(P)·(α+nβ)"),
        (r"T_\text{ring}", "Tring"),
        (r"5 \cdot 10^{-6}", "5·10−6"),
        (r"\max(F,\, I\,B_\text{mem})", "max(F,I·Bmem)"),
        (r"10{,}000", "10,000"),
        (r"\varepsilon\,\ell", "ε·ℓ"),
        (
            r"\begin{cases} n & \text{if } n \le 5 \\ 2 & \text{otherwise} \end{cases}",
            "{nif n≤52otherwise",
        ),
    ],
)
def test_factors_are_told_from_functions(latex, drawn):
    assert text(latex).replace("if ·n", "if n") == drawn


def test_what_no_formula_is_made_of_is_refused():
    with pytest.raises(ValueError, match="is not part of a formula"):
        mathml(r"\oint x")


def test_a_symbol_reads_as_plain_text():
    assert [plain(s.latex) for s in (NOTATION["alpha"], NOTATION["bandwidth"])] == ["α", "B_mem"]
