"""Formulas of pages: MathML of the TeX that was written, with its number, its breaks, its copy."""

import io
import re
from xml.etree import ElementTree

import pytest
from page_inspection import DESKTOP, PHONE, launch, open_page
from playwright.sync_api import sync_playwright
from sphinx.application import Sphinx

from book._ext.maths import as_one, mathml
from book._tools.equations import by_label
from book._tools.layout import ROOT
from dtlib.explore.mathml import mathml as of_widgets

CHAPTER = "chapters/3-collectives/12-ring-and-tree-algorithms.html"
WIDE = "chapters/1-foundations/05-what-compute-costs.html"
RING = "#equation-eq-ring-all-reduce-time"
LONG = r"T = 2(P-1)\,\alpha + 2\,\frac{P-1}{P}\cdot\frac{n}{\beta} = -x"
TOY = r"""# Toy

A sum $a + b$ and $\frac{a$ in a line, and {eq}`eq-b`.

$$
b < c
$$ (eq-b)

Together ($d$), apart $e$ or *$f$*, and $g$.
"""
SETTINGS = f"""
import sys
sys.path.append({str(ROOT / "book/_ext")!r})
extensions = ["myst_parser", "maths"]
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
"""


def printed(markup: str) -> str:
    """What a formula prints, without what is not seen, and with one shape of each sign."""
    text = "".join(ElementTree.fromstring(f"<m>{markup}</m>").itertext())
    return re.sub(r"[\s\u2061\u2062]", "", text).translate(str.maketrans("⋅ϕ", "·φ"))


@pytest.mark.parametrize("label", sorted(by_label()))
def test_a_formula_prints_what_our_own_writer_prints(label):
    equation = by_label()[label].equation
    assert printed(mathml(equation, display=True)) == printed(of_widgets(equation))
    assert printed(mathml(f"{equation}+1", display=True)) != printed(of_widgets(equation))


def test_a_formula_keeps_the_tex_that_was_written():
    assert ElementTree.fromstring(mathml("a <\n b")).get("data-tex") == "a < b"


@pytest.mark.parametrize("tex", [r"\frac{a", r"\unheard", "a^b^c"])
def test_tex_that_cannot_be_read_is_an_error_that_names_it(tex):
    with pytest.raises(ValueError, match=re.escape(repr(tex))):
        mathml(tex)


def pieces(tex: str, display: bool = True) -> list[str]:
    """What the innermost pieces of a formula print."""

    def within(row) -> list[str]:
        if row.get("class") != "dt-pieces":
            return [printed(ElementTree.tostring(row, encoding="unicode"))]
        return [piece for inner in row for piece in within(inner)]

    math = ElementTree.fromstring(mathml(tex, display))
    return within(math) if math.get("class") else []


@pytest.mark.parametrize(
    "tex, expected",
    [
        (LONG, ["T=2(P−1)α", "+2P−1P", "·nβ", "=−x"]),
        (r"a = b, \qquad c = d", ["a=b,", "c=d"]),
        (r"a + b", ["a", "+b"]),
        (r"a = \frac{b + c}{d}", []),
        (r"a \cdot b", ["a", "·b"]),
    ],
)
def test_a_displayed_formula_breaks_before_its_outer_operators(tex, expected):
    assert pieces(tex) == expected


def test_in_a_line_only_a_long_formula_breaks():
    assert pieces(LONG, display=False) == pieces(LONG)
    assert pieces("a + b", display=False) == []


def test_breaks_change_nothing_that_is_printed():
    for formula in by_label().values():
        parts = pieces(formula.equation)
        assert "".join(parts) in ("", printed(of_widgets(formula.equation)))


def test_equations_with_a_blank_line_between_them_stand_aligned():
    assert as_one("a = b\n") == "a = b"
    assert as_one("a = b\n\nc = d") == r"\begin{aligned}a = b \\ c = d\end{aligned}"


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """The page of a toy book, and what Sphinx says about it."""
    folder, said = tmp_path_factory.mktemp("toy"), io.StringIO()
    (folder / "index.md").write_text(TOY)
    (folder / "conf.py").write_text(SETTINGS)
    places = (folder, folder, folder / "html", folder / "trees", "html")
    Sphinx(*places, status=None, warning=said).build()
    return (folder / "html/index.html").read_text(), said.getvalue()


def test_a_page_shows_formulas_numbers_and_links_without_a_script(toy):
    page, _ = toy
    assert '<math data-tex="a + b">' in page
    assert '<div class="math notranslate nohighlight" id="equation-eq-b">' in page
    assert '<span class="eqno">(1)<a class="headerlink" href="#equation-eq-b"' in page
    assert 'href="#equation-eq-b">(1)</a>' in page
    assert "MathJax" not in page


def test_a_formula_with_an_error_is_a_warning_at_its_line_and_shown_as_written(toy):
    page, said = toy
    assert re.search(r"index\.md:3: WARNING: formula '\\\\frac\{a'", said)
    assert said.count("WARNING") == 1
    assert r"<code>\frac{a</code>" in page


def test_punctuation_stays_on_the_line_of_its_formula(toy):
    page, _ = toy
    line = re.search("<p>Together.*?</p>", page).group()
    together = re.findall(r'<span class="together">.*?</span>\W*</span>', line)
    assert [printed(span) for span in together] == ["(d),", "g."]
    assert re.sub("<.*?>", "", line) == "Together (d), apart e or f, and g."


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        running = launch(playwright, {})
        yield running
        running.close()


@pytest.fixture
def chapter(browser, home):
    page = browser.new_page()
    open_page(page, home + CHAPTER)
    yield page
    page.close()


@pytest.mark.site
def test_without_scripts_a_formula_stands_beside_its_number(browser, home):
    page = browser.new_context(java_script_enabled=False, viewport=DESKTOP).new_page()
    page.goto(home + CHAPTER)
    formula = page.locator(f"{RING} math").bounding_box()
    number = page.locator(f"{RING} .eqno").bounding_box()
    assert formula["height"] > 30 and formula["x"] + formula["width"] <= number["x"]
    assert abs(formula["y"] + formula["height"] / 2 - number["y"] - number["height"] / 2) < 8


@pytest.mark.site
def test_a_screen_reader_hears_a_fraction(chapter):
    devtools = chapter.context.new_cdp_session(chapter)
    tree = devtools.send("Accessibility.getFullAXTree")["nodes"]
    roles = {node["role"]["value"] for node in tree}
    assert {"MathMLMath", "MathMLFraction", "MathMLSub", "MathMLOperator"} <= roles


@pytest.mark.site
def test_a_formula_within_a_text_is_copied_as_tex(chapter):
    chapter.evaluate(SELECT_PARAGRAPH_BEFORE, RING)
    copied = chapter.evaluate(COPIED)
    assert r"each costs $\alpha + \frac{n}{P\beta}$. Together:" in " ".join(copied.split())


@pytest.mark.site
def test_half_a_formula_is_copied_whole(chapter):
    chapter.evaluate(SELECT_FRACTION, RING)
    tex = by_label()["eq-ring-all-reduce-time"].equation
    assert chapter.evaluate(COPIED).strip() == f"$${tex}$$"


@pytest.mark.site
def test_on_a_phone_a_wide_formula_goes_on_to_the_next_line(browser, home):
    page = browser.new_context(viewport=PHONE).new_page()
    page.goto(home + WIDE)
    assert page.evaluate(SCROLLING) == 0
    page.add_style_tag(content=".dt-pieces { flex-wrap: nowrap }")
    assert page.evaluate(SCROLLING) > 0


SELECT_PARAGRAPH_BEFORE = """(place) => {
  const text = document.querySelector(place).previousElementSibling;
  getSelection().selectAllChildren(text.matches("p") ? text : text.querySelector("p"));
}"""

SELECT_FRACTION = """(place) => {
  getSelection().selectAllChildren(document.querySelector(`${place} mfrac`));
}"""

# What the page puts on the clipboard.
COPIED = """() => {
  const data = new DataTransfer();
  const options = { clipboardData: data, bubbles: true, cancelable: true };
  const event = new ClipboardEvent("copy", options);
  document.activeElement.dispatchEvent(event);
  return event.defaultPrevented ? data.getData("text/plain") : getSelection().toString();
}"""

SCROLLING = """() => [...document.querySelectorAll(".dt-formula")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1).length"""
