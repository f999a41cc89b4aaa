"""Numbered equations that are formulas of the library: the page must hold the formula's own LaTeX.

An equation is `$$ ... $$ (eq-ring-all-reduce-time)`; its label says which formula it is. Any other
label is an equation of the text, and must not look like a formula's.
"""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path

from book._tools.expressions import all_formulas
from book._tools.layout import ROOT, line_of, write_if_new
from dtlib.formulas.formula import Formula

EQUATION = re.compile(
    r"^\$\$(?P<body>(?:(?!\$\$).)*?)\$\$ *\((?P<label>eq-[^)\s]*)\)", re.DOTALL | re.MULTILINE
)


def by_label() -> dict[str, Formula]:
    """The library's formulas by the label of their equation."""
    return {formula.label: formula for formula in all_formulas().values()}


def check(page: Path, known: Mapping[str, Formula]) -> list[str]:
    """Every labelled equation of a page that is not its formula's, with file, line, difference."""
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
    found = []
    for match in EQUATION.finditer(text):
        problem = _problem(match["label"], match["body"], known)
        if problem:
            found.append(f"{name}:{line_of(text, match.start())}: {match['label']}: {problem}")
    return found


def _problem(label: str, body: str, known: Mapping[str, Formula]) -> str:
    if label in known:
        written, expected = _normal(body), _normal(known[label].equation)
        return "" if written == expected else _difference(written, expected)
    quantity = label.rpartition("-")[2]
    if quantity in {formula.rpartition("-")[2] for formula in known}:
        near = difflib.get_close_matches(label, known, n=1, cutoff=0)[0]
        return (
            f"looks like a formula's label ('...-{quantity}'), but the library has no such "
            f"formula; the nearest is {near}"
        )
    return ""


def _normal(latex: str) -> str:
    return " ".join(latex.split())


def _difference(written: str, expected: str) -> str:
    """Both equations from the first place where they part."""
    same = next(
        (i for i, (a, b) in enumerate(zip(written, expected, strict=False)) if a != b),
        min(len(written), len(expected)),
    )
    start = max(0, same - 20)
    dots = "..." if start else ""
    return f"the page has '{dots}{written[start:]}', the formula is '{dots}{expected[start:]}'"


def fill(page: Path, known: Mapping[str, Formula]) -> bool:
    """Write the equation of every formula that a page numbers; whether the page changed."""

    def own(match: re.Match) -> str:
        if match["label"] not in known or not _problem(match["label"], match["body"], known):
            return match.group()
        return f"$$\n{known[match['label']].equation}\n$$ ({match['label']})"

    return write_if_new(page, EQUATION.sub(own, page.read_text(encoding="utf-8")))
