"""The quick reference: every numbered equation that is a formula, chapter by chapter.

It is written by `book._tools.generated` from the chapters and the library, never by hand.
"""

import inspect
from pathlib import Path

from book._tools.equations import EQUATION, by_label
from book._tools.layout import ROOT
from dtlib.contents import chapters
from dtlib.formulas.formula import Formula

HEAD = [
    "# Quick reference",
    "",
    "Every numbered equation of the book that is a formula of its library, in the order of the "
    "chapters. The number leads to the derivation; the name is what you call in code. "
    "{doc}`notation` explains every symbol, and a bandwidth is always one endpoint's, in bytes per "
    "second and in one direction.",
]


def quick_reference_page(root: Path = ROOT) -> str:
    """The whole page: for every written chapter, its equations as they are numbered there."""
    known = by_label()
    lines = list(HEAD)
    for chapter in chapters():
        if not chapter.is_written(root):
            continue
        text = (root / f"{chapter.page}.md").read_text(encoding="utf-8")
        labels = [m["label"] for m in EQUATION.finditer(text) if m["label"] in known]
        if labels:
            lines += ["", f"## {chapter.number} · [{chapter.title}](#{chapter.label})"]
        for label in labels:
            lines += _entry(known[label])
    return "\n".join(lines) + "\n"


def _entry(formula: Formula) -> list[str]:
    sentence = inspect.getdoc(formula).split("\n\n")[0].replace("\n", " ")
    unit = f", in {formula.unit}" if formula.unit else ""
    lines = ["", f"**{sentence}** {{eq}}`{formula.label}`: `{formula.name}`{unit}."]
    lines += ["", f"$$ {formula.equation} $$"]
    return lines + (["", f"Holds when: {formula.conditions}."] if formula.conditions else [])
