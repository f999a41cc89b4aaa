"""A notebook's numbers and citations are those that the site prints on the same page."""

import html
import re

import pytest

from book._tools.layout import ROOT
from book.notebooks import sources
from book.notebooks.names import names, numbered

SITE = ROOT / "_build/html/chapters"
NUMBERED = (
    r'class="eqno">\((?P<said>[^)]*)\)<a class="headerlink" href="#equation-(?P<label>[^"]*)"',
    r'id="(?P<label>(?:thm|ex)-[^"]*)">\s*<p class="admonition-title">'
    r'<span class="caption-number">(?:Exercise )?(?P<said>[^<]*?) ?</span>',
)
CITED = re.compile(r'<span class="bibtex-citation"[^>]*>\[(.*?)\]</span>', re.DOTALL)


def printed(page: str) -> dict[str, str]:
    """What a page of the site prints at each label."""
    found = [match for pattern in NUMBERED for match in re.finditer(pattern, page)]
    return {match["label"]: html.unescape(match["said"]) for match in found}


def different(page: str, known: dict[str, str]) -> dict[str, str]:
    return {label: said for label, said in printed(page).items() if known.get(label) != said}


@pytest.mark.site
def test_equations_theorems_and_exercises_have_the_numbers_of_the_site():
    pages = [page.read_text(encoding="utf-8") for page in sorted(SITE.glob("*/*.html"))]
    assert sum(len(printed(page)) for page in pages) > 300
    assert [different(page, names()) for page in pages if different(page, names())] == []


@pytest.mark.site
def test_sabotage_a_page_with_one_more_equation_is_noticed():
    page = next(SITE.glob("*/12-*.html")).read_text(encoding="utf-8")
    text = next(ROOT.glob("chapters/*/12-*.md")).read_text(encoding="utf-8")
    moved = names() | numbered("$$ (eq-first)\n" + text, "12")
    assert different(page, moved)


@pytest.mark.site
def test_a_source_is_called_what_the_site_calls_it():
    for page in sorted(SITE.glob("*/*.html")):
        text = (ROOT / page.relative_to(ROOT / "_build/html")).with_suffix(".md").read_text()
        keys = re.findall(r"\{cite\}`([^`,]*)`", text)
        said = {re.sub("<[^>]*>", "", one) for one in CITED.findall(page.read_text())}
        site = {html.unescape(one).replace(" and others,", " et al.,") for one in said}
        assert {sources.parenthesised([key])[1:-1] for key in keys} <= site, page.stem


def test_a_chapter_counts_its_own_equations():
    assert numbered("$$ (eq-a)\n\n$$ (eq-b)", "13a") == {"eq-a": "13a.1", "eq-b": "13a.2"}
