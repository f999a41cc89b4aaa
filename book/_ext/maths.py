"""Formulas are MathML when the site is built: a page shows them without a script, a screen reader
reads them, and what is copied is the TeX that the author wrote.

Temml makes the MathML, in QuickJS. A formula that it cannot read is a warning at its line. The
pieces of a long one are marked, so that `maths.css` can set them on lines of their own, and the
terms of the book, so that `reader/terms.js` lights up where else they stand.
"""

import functools
import html
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import quickjs
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.locale import _
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book._ext.terms import Terms

TEMML = Path(__file__).with_name("vendor") / "temml.min.js"  # 0.13.5
RENDER = """function render(tex, displayMode) {
  try {
    return JSON.stringify([temml.renderToString(tex, { displayMode, throwOnError: true }), ""]);
  } catch (error) {
    return JSON.stringify(["", error.message]);
  }
}"""
BOX = "math notranslate nohighlight"
RELATIONS, SUMS, PRODUCTS = set("=≈<>≤≥≡∝→"), set("+−"), set("·⋅×∘⊕")
LONG = 20  # letters: a shorter formula within a line stays whole
WIDE_SPACE = 1  # em: stands between formulas, where a thin one stands between factors
OPENING, CLOSING = "([‘“", ".,;:!?)]’”%"
EMOJI_OFF = "\ufe0e"  # asks for the text form of an arrow, which is the only form that we have
logger = logging.getLogger(__name__)


@functools.cache
def _render():
    context = quickjs.Context()
    context.eval(TEMML.read_text(encoding="utf-8"))
    context.eval(RENDER)
    return context.get("render")


@functools.cache
def mathml(tex: str, display: bool = False) -> str:
    """The `<math>` element of a formula, which keeps its TeX in `data-tex`.

    Raises ValueError where Temml cannot read it.
    """
    math = ElementTree.fromstring(_typeset(tex, display))
    _terms_of_the_book().mark(math)
    math.attrib = {"display": "block"} if display else {}
    math.set("data-tex", " ".join(tex.split()))
    if display or len(_letters(math)) > LONG:
        _mark_pieces(math)
    return ElementTree.tostring(math, encoding="unicode", short_empty_elements=False)


def _typeset(tex: str, display: bool = False) -> str:
    markup, error = json.loads(_render()(tex, display))
    if error:
        raise ValueError(f"formula {tex!r}: {' '.join(error.split())}")
    return markup.replace(EMOJI_OFF, "")


@functools.cache
def _terms_of_the_book() -> Terms:
    return Terms(_typeset)


def _mark_pieces(math: Element) -> None:
    """Rows of a formula that may stand on lines of their own: terms, and the factors of each."""
    row = math[0] if len(math) == 1 and math[0].tag == "mrow" else math
    terms = list(_terms(list(row)))
    rows = [_row(list(_factors(term))) for term in terms]
    if len(rows) == 1 and rows[0].get("class") is None:
        return
    math[:] = rows if len(rows) > 1 else list(rows[0])
    math.set("class", "dt-pieces")


def _row(parts: list[list[Element]]) -> Element:
    """A row of these parts; each but a lone one is a row in it."""
    row = Element("mrow")
    if len(parts) == 1:
        row.extend(parts[0])
    else:
        row.set("class", "dt-pieces")
        row.extend(_row([part]) for part in parts)
    if row[0].tag == "mo" and "form" not in row[0].attrib:
        row[0].set("form", "infix")
    return row


def _terms(members: list[Element]) -> Iterator[list[Element]]:
    """Cut before sums and relations, but the first: the left-hand side stays with what it is."""
    term, related = [], False
    for member in members:
        sign = _sign(member)
        wide = bool(term) and _space(term[-1]) >= WIDE_SPACE
        if term and (sign in SUMS or (sign in RELATIONS and related) or wide):
            yield term
            term = []
        related = (related and not wide) or sign in RELATIONS
        term.append(member)
    yield term


def _factors(term: list[Element]) -> Iterator[list[Element]]:
    """Cut before the signs of products."""
    factor = []
    for member in term:
        if factor and _sign(member) in PRODUCTS:
            yield factor
            factor = []
        factor.append(member)
    yield factor


def _sign(member: Element) -> str:
    """The sign of an operator between two terms; a minus before a number is none."""
    return (member.text or "") if member.tag == "mo" and "form" not in member.attrib else ""


def _space(member: Element) -> float:
    width = member.get("width", "") if member.tag == "mspace" else ""
    return float(width.removesuffix("em") or 0)


def typeset(node: nodes.Element, display: bool = False) -> str:
    """The MathML of a node, or its TeX as it stands where that has an error."""
    try:
        return mathml(as_one(node.astext()) if display else node.astext(), display)
    except ValueError as error:
        logger.warning("%s", error, location=node)
        return f"<code>{html.escape(node.astext())}</code>"


def as_one(tex: str) -> str:
    """Equations with a blank line between them, or lines without an environment, stand aligned."""
    parts = [part.strip() for part in tex.split("\n\n") if part.strip()]
    if len(parts) == 1 and (r"\\" not in tex or r"\begin" in tex):
        return parts[0]
    rows = r" \\ ".join(parts)
    return rf"\begin{{aligned}}{rows}\end{{aligned}}"


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(f"{self.starttag(node, 'span', '', CLASS=BOX)}{typeset(node)}</span>")
    raise nodes.SkipNode


def visit_displayed(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS=BOX))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, _("Link to this equation"))
        self.body.append("</span>")
    self.body.append(f'<div class="dt-formula">{typeset(node, display=True)}</div></div>\n')
    raise nodes.SkipNode


class KeepTogether(SphinxPostTransform):
    """The punctuation around a short formula stands on the formula's line."""

    default_priority = 800
    formats = ("html",)

    def run(self, **kwargs) -> None:
        for formula in filter(is_short, list(self.document.findall(nodes.math))):
            parent, place = formula.parent, formula.parent.index(formula)
            before, after = (_text(parent, near) for near in (place - 1, place + 1))
            words, signs = before.rstrip(OPENING), after.lstrip(CLOSING)
            opening, closing = before[len(words) :], after[: len(after) - len(signs)]
            if not opening and not closing:
                continue
            together = nodes.inline("", "", nodes.Text(opening), classes=["together"])
            together += [formula.deepcopy(), nodes.Text(closing)]
            if opening:
                parent[place - 1] = nodes.Text(words)
            if closing:
                parent[place + 1] = nodes.Text(signs)
            parent[place] = together


def is_short(formula: nodes.math) -> bool:
    """Whether it fits on the line of a phone; one that cannot be read is told elsewhere."""
    try:
        return len(_letters(ElementTree.fromstring(mathml(formula.astext())))) <= LONG
    except ValueError:
        return False


def _letters(math: Element) -> str:
    return "".join(math.itertext())


def _text(parent: nodes.Element, place: int) -> str:
    """The plain text at a place among a node's children, or none."""
    is_text = 0 <= place < len(parent) and isinstance(parent[place], nodes.Text)
    return str(parent[place]) if is_text else ""


def setup(app: Sphinx) -> dict:
    app.add_post_transform(KeepTogether)
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_displayed, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
