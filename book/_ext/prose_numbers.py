"""Numbers in prose show the formula that they come from, on hover and on focus.

`<data value="EXPR">35 ms</data>` becomes a focusable element that carries its formula in readable
form, `data-formula="ring_all_reduce_time(n = 1 GB, P = 8, α = 0, β = 50 GB/s) = 35 ms"`. Where it
rests on named hardware it also carries the formula over roles, for the reader's own machine. A
number and its unit stay on one line.
"""

import html
import json
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book._tools.expressions import Expression
from book._tools.prose_numbers import printed_shape, shown_in_full
from book._tools.yours import traced

OPENING = re.compile(r'<data value="([^"]*)">$')
QUANTITY = re.compile(r"([-−+]?\d[\d,.]*(?:[–-]\d[\d,.]*)?) (\S{1,12})")
logger = logging.getLogger(__name__)


def together(text: str) -> str:
    """A number that does not leave its unit: the spaces between them do not break.

    >>> together("35 ms"), together("four times as long")
    ('35\\xa0ms', 'four times as long')
    """
    found = QUANTITY.fullmatch(text)
    return "\u00a0".join(found.groups()) if found else text


def show_formulas(app: Sphinx, doctree: nodes.document) -> None:
    """Give each data element of a page its formula and a place in the tab order."""
    for element in list(doctree.findall(nodes.raw)):
        opening = OPENING.match(element.astext())
        if not opening or element.get("format") != "html":
            continue
        source = html.unescape(opening[1])
        shown = element.next_node(nodes.Text, descend=False, siblings=True)
        text = shown.astext()
        try:
            expression = Expression(source)
            says = ":" if expression.is_comparison else " ="
            formula = f"{expression.readable()}{says} {shown_in_full(text, expression)}"
        except ValueError as error:
            logger.warning("number %r: %s", text, error, location=element)
            continue
        shown.parent.replace(shown, nodes.Text(together(text)))
        attributes = f'tabindex="0" data-formula="{html.escape(formula)}"{_yours(text, expression)}'
        replacement = f'<data value="{opening[1]}" {attributes}>'
        element.replace_self(nodes.raw(element.rawsource, replacement, format="html"))


def _yours(text: str, expression: Expression) -> str:
    """What computes the number for another machine; nothing where it does not depend on one."""
    found = traced(expression)
    shape = printed_shape(text, expression.value) if found else None
    if shape is None:
        return ""
    printed = json.dumps(shape, separators=(",", ":"))
    return f' data-yours="{html.escape(found.js)}" data-printed="{html.escape(printed)}"'


def setup(app: Sphinx) -> dict:
    app.connect("doctree-read", show_formulas)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
