"""The same term answers wherever it stands in a section: by pointer, by keys, and nothing moves."""

from xml.etree import ElementTree

import pytest
from page_inspection import axe_faults, open_page, start_browser

from book._ext.maths import mathml
from book._tools.equations import by_label
from book._tools.layout import ROOT
from dtlib.explore import Explorer
from dtlib.formulas.notation import NOTATION
from dtlib.machines.alpha_beta import message_time

STATIC = ROOT / "book/_static"
CHAPTER = "chapters/3-collectives/12-ring-and-tree-algorithms.html"
TOY = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Toy</title>
<style>{sheets}</style><main><article class="chapter"><section><h1>Toy</h1>
<section><h2>One</h2><p id="text">The latency {alpha} and {power}, twice.</p>
<div class="math" id="equation"><span class="eqno"><a href="#equation">(1)</a></span>
{equation}</div>
<div class="dt-widget"><label data-symbol="alpha">latency <input type="range"></label>
<div class="dt-row dt-c1" style="--dt-c: rgb(1, 2, 3)" data-symbol="{result}">row</div></div>
<p id="alone">{alone}</p><section><h3>Within</h3><p id="within">{alpha}</p></section></section>
<section><h2>Two</h2><p id="other">{alpha}</p></section></section></article></main>
<script>{script}</script></html>"""
SEEN = """() => [...document.querySelectorAll(".is-lit")].map((node) =>
  `${node.closest("[id]")?.id ?? node.localName}: ${node.dataset.symbol}`)"""
PLACES = """() => [...document.querySelectorAll("body *")].map((node) => {
  const { x, y, width, height } = node.getBoundingClientRect();
  return [x, y, width, height].join();
})"""
READY = "html[data-terms=ready]"
ALPHAS = ["text: alpha", "equation: alpha", "label: alpha", "within: alpha"]


def marked(tex: str) -> list[tuple[str, str]]:
    """What is marked in a formula: the letters, and their name."""
    math = ElementTree.fromstring(mathml(tex))
    return [
        ("".join(n.itertext()), n.get("data-symbol")) for n in math.iter() if n.get("data-symbol")
    ]


def result() -> str:
    """What the result of `message_time` is called: another formula may bear its letter as well."""
    ((_, name),) = marked(message_time.symbol)
    return name


@pytest.mark.parametrize("symbol", NOTATION.values(), ids=lambda one: one.name)
def test_every_symbol_of_the_notation_is_marked_by_its_name(symbol):
    assert [name for _, name in marked(f"1+{symbol.latex}")] == [symbol.name]
    assert [name for _, name in marked(f"{{{symbol.latex}}}^2")] == [symbol.name]


@pytest.mark.parametrize("label", sorted(by_label()))
def test_an_equation_marks_its_result_and_what_it_depends_on(label):
    formula = by_label()[label]
    result, names = (
        {name for _, name in marked(tex)} for tex in (formula.symbol, formula.equation)
    )
    assert result and result < names


@pytest.mark.parametrize(
    ("tex", "found"),
    [
        ("x_n", []),
        ("P'", []),
        ("n_i^2", []),
        (r"\beta_\text{in}^2", [("βin2", "beta_in")]),
        (r"x^P", [("P", "P")]),
        (r"\sum_{i=1}^{P} n", [("P", "P"), ("n", "n")]),
        (r"\mathcal{P} + \mathbf{n}", []),
    ],
)
def test_an_index_belongs_to_its_letter_and_makes_another_term_of_it(tex, found):
    assert marked(tex) == found


def test_a_curve_and_a_slider_bear_the_names_of_the_notation_and_the_library():
    spec = Explorer({"one": message_time}, x={"n": (1, 100, 10)}, sliders={"alpha": (1, 9, 3)},
                    fixed={"beta": 2}, title="Toy").spec  # fmt: skip
    assert [curve["name"] for curve in spec["curves"]] == ["message_time"]
    assert [control["name"] for control in spec["controls"]] == ["n", "alpha"]


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture
def toy(browser, tmp_path):
    sheets = "".join((STATIC / f"{name}.css").read_text("utf-8") for name in ("colours", "maths"))
    alpha, equation = mathml(r"\alpha"), mathml(message_time.equation, display=True)
    inside = {"alpha": alpha, "power": mathml(r"n^2"), "alone": mathml(r"\gamma")}
    script = (STATIC / "reader/terms.js").read_text("utf-8")
    file = tmp_path / "toy.html"
    toy = TOY.format(sheets=sheets, equation=equation, script=script, result=result(), **inside)
    file.write_text(toy, "utf-8")
    page = browser.new_page()
    page.goto(file.as_uri(), wait_until="load")
    page.wait_for_selector(READY)
    yield page
    page.close()


def test_a_term_under_the_pointer_lights_up_its_siblings_of_the_section_and_nothing_moves(toy):
    before = toy.evaluate(PLACES)
    toy.locator("#text mi").first.hover()
    assert toy.evaluate(SEEN) == ALPHAS
    assert toy.evaluate(PLACES) == before
    assert not axe_faults(toy)
    toy.locator("h1").hover()
    assert toy.evaluate(SEEN) == []


def test_a_slider_that_has_the_focus_lights_up_its_symbol(toy):
    toy.locator("input").focus()
    assert toy.evaluate(SEEN) == ALPHAS
    toy.locator("a").focus()
    toy.locator("a").blur()
    assert toy.evaluate(SEEN) == []


def test_arrow_keys_on_the_number_of_an_equation_go_from_term_to_term(toy):
    toy.locator(".eqno a").focus()
    assert toy.evaluate(SEEN) == [f"equation: {result()}", f"div: {result()}"]
    toy.keyboard.press("ArrowRight")
    assert toy.evaluate(SEEN) == ALPHAS
    toy.keyboard.press("ArrowLeft")
    assert f"equation: {result()}" in toy.evaluate(SEEN)


def test_a_result_takes_the_colour_of_its_curve_and_its_row_shows_the_curve(toy):
    toy.evaluate(
        """() => document.querySelector(".dt-row")
          .addEventListener("pointerenter", () => (globalThis.told = true))"""
    )
    toy.locator("#equation msub, #equation mi").first.hover()
    assert toy.evaluate("globalThis.told") is True
    look = "document.querySelector('#equation .is-lit').style.getPropertyValue('--dt-lit')"
    assert "rgb(1, 2, 3)" in toy.evaluate(look)


def test_a_term_that_stands_alone_says_nothing(toy):
    toy.locator("#alone mi").hover()
    assert toy.evaluate(SEEN) == []
    toy.locator("#other mi").hover()
    assert toy.evaluate(SEEN) == []


@pytest.mark.site
def test_a_slider_of_a_chapter_and_its_symbol_in_the_text_light_up_together(browser, home):
    page = browser.new_page()
    open_page(page, home + CHAPTER)
    page.wait_for_selector(READY)
    slider = page.locator(".dt-slider:has(math) input").first
    slider.scroll_into_view_if_needed()
    slider.focus()
    lit = page.locator(".is-lit")
    assert lit.count() > 1 and page.locator("math .is-lit").count()
    page.evaluate("document.querySelectorAll('[data-symbol]').forEach((n) => n.remove())")
    assert not lit.count()
    page.close()
