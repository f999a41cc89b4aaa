"""The terms of a formula: what its letters are called in the book, wherever they stand.

`\\beta_\\text{in}` is `beta_in` in the notation and in code, `T_\\text{ring}` the result of
`ring_all_reduce_time`. Marked so, a page lets the same term answer in text, equation and widget.
"""

from collections.abc import Callable
from xml.etree.ElementTree import Element, fromstring

from dtlib.formulas.formula import formulas
from dtlib.formulas.notation import NOTATION

ATTRIBUTE = "data-symbol"
INDEXED = {"msub", "msubsup"}
Shape = tuple


class Terms:
    """What is called how; `typeset` gives the MathML of a piece of TeX."""

    def __init__(self, typeset: Callable[[str], str]):
        named = {formula.symbol: name for name, formula in formulas().items()}
        named |= {symbol.latex: name for name, symbol in NOTATION.items()}
        written = {shape(fromstring(typeset(tex))): name for tex, name in named.items()}
        self.names = {look: name for look, name in written.items() if look[0] != "mrow"}

    def mark(self, node: Element) -> None:
        """Give every term below a node its name; an index is a part of what it stands at."""
        for inner in node:
            alone = shape(inner, without_power=True)
            name = self.names.get(shape(inner)) or self.names.get(alone)
            if name:
                inner.set(ATTRIBUTE, name)
            elif not is_indexed(inner):
                self.mark(inner)


def is_indexed(node: Element) -> bool:
    """Whether it is another term than its letter, as x_i and P' are; a sum with limits is none."""
    if node.tag == "msup":
        return node[1].text == "′"
    return node.tag in INDEXED and node[0].tag != "mo"


def shape(node: Element, without_power: bool = False) -> Shape:
    """How a piece is written, whatever stands around it."""
    inner = [one for one in node if one.tag != "mspace"]
    if node.tag in ("math", "mrow") and len(inner) == 1:
        return shape(inner[0])
    if without_power and node.tag == "msubsup":
        return ("msub", "", "", *map(shape, inner[:2]))
    return (node.tag, node.get("mathvariant", ""), node.text or "", *map(shape, inner))
