"""The quick reference: every numbered equation that is a formula, chapter by chapter.

It is written by `book._tools.generated` from the chapters and the library, never by hand.
"""

import inspect
import re
from pathlib import Path

from book._tools.entries import anchor_link
from book._tools.equations import EQUATION, by_label
from book._tools.layout import ROOT
from book._tools.listings.worked import worked
from dtlib.contents import parts
from dtlib.formulas.formula import Formula

HEAD = [
    "# Quick reference",
    "",
    "Every numbered equation of the book that is a formula of its library, in the order of the "
    "chapters. The number leads to the derivation; the name is what you call in code. "
    "{doc}`notation` explains every symbol, and a bandwidth is always one endpoint's, in bytes per "
    "second and in one direction. What rests on a machine has a value: the book's, and yours "
    "beside it once you have said what you have (the button with the chip, above).",
    "",
    '<div class="dt-filter" data-label="Name, symbol or words" data-rows=".dt-entry" '
    'data-noun="formulas" data-facets="where"></div>',
]


def quick_reference_page(root: Path = ROOT) -> str:
    """The whole page: for every written chapter, its equations as they are numbered there."""
    known = by_label()
    lines = list(HEAD)
    for part in parts():
        for chapter in part.chapters:
            if not chapter.is_written(root):
                continue
            text = (root / f"{chapter.page}.md").read_text(encoding="utf-8")
            labels = [m["label"] for m in EQUATION.finditer(text) if m["label"] in known]
            if labels:
                lines += ["", f"## {chapter.number} · [{chapter.title}](#{chapter.label})"]
            for label in labels:
                lines += _entry(known[label], f"{part.caption}|{chapter.number} {chapter.title}")
    return "\n".join(lines) + "\n"


def _entry(formula: Formula, where: str) -> list[str]:
    """What it gives, its name and the way to its derivation; the equation; when it holds."""
    sentence = inspect.getdoc(formula).split("\n\n")[0].replace("\n", " ")
    unit = f", in {formula.unit}" if formula.unit else ""
    holds = f" Holds when: {formula.conditions}." if formula.conditions else ""
    value = worked(formula)
    return [
        "",
        ":::{container} dt-entry",
        f'<span class="dt-facts" data-where="{where}" data-words="{_symbols(formula)}"></span>'
        f"**{sentence}** {{eq}}`{formula.label}` {anchor_link(formula.name, 'formula')}",
        "",
        f"$$ {formula.equation} $$",
        "",
        f"`{formula.name}`{unit}.{holds}",
        *(["", value] if value else []),
        ":::",
    ]


def _symbols(formula: Formula) -> str:
    """What a reader may type for a symbol: the parameters' names, and the letters of the TeX.

    >>> from dtlib.machines.alpha_beta import message_time
    >>> _symbols(message_time)
    'T n alpha beta'
    """
    letters = re.sub(r"\\\w+\{([^{}]*)\}|[{}$\\]", r"\1", formula.symbol)
    return " ".join([letters, *formula.parameters])
