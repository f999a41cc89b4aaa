"""What of a page the search finds: sections and boxes, each with its own words and no other's."""

import pytest

from book._press import search
from book._press.entries import entries_of
from book._press.search import CODE_BEGINS, document_of

PAGE = """<nav>Before</nav><main><p class="part-of">Part 3</p><article class="chapter">
<section class="x" id="rings"><h1>12. Rings<a class="headerlink" href="#rings">¶</a></h1>
<p>First words, <math data-tex="P"><mi>P</mi></math> ranks.<br>And more.</p>
<section id="one"><h2>12.1. One</h2><p>Words of one.</p><pre>code(of_one)</pre>
<div class="proof theorem admonition" id="thm-it"><p class="admonition-title">Theorem 12.1 It</p>
<section class="theorem-content" id="proof-content"><p>It holds.</p></section></div>
<div class="exercise admonition" id="ex-a"><p class="admonition-title">Exercise 12.1 Do it</p>
<p>Do.</p></div>
<details class="fold solution"><p>The secret.</p></details>
<dl><dt>claim <a class="dt-anchor" id="folklore-12-claim" href="#">#</a></dt>
<dd><p>Not so.</p></dd></dl>
</section></section></article></main>"""


@pytest.fixture(scope="module")
def entries():
    return {entry.address: entry for entry in entries_of("c/12.html", PAGE)}


@pytest.mark.parametrize(
    ("address", "kind", "title", "text"),
    [
        ("c/12.html", "page", "12. Rings", "First words, P ranks. And more."),
        ("c/12.html#one", "section", "12.1. One", "Words of one."),
        ("c/12.html#thm-it", "theorem", "Theorem 12.1 It", "It holds."),
        ("c/12.html#ex-a", "exercise", "Exercise 12.1 Do it", "Do."),
        ("c/12.html#folklore-12-claim", "folklore", "claim", "Not so."),
    ],
)
def test_an_entry_has_its_own_words(entries, address, kind, title, text):
    found = entries[address]
    assert (found.kind, found.title, found.text) == (kind, title, text)


def test_there_is_no_other_entry_and_no_solution():
    entries = entries_of("c/12.html", PAGE)
    assert len(entries) == 5
    assert "secret" not in str(entries) and "Before" not in str(entries)


def test_code_stands_apart(entries):
    document = document_of(entries_of("c/12.html", PAGE)[1], "12. Rings")
    assert (
        document.index("Words of one")
        < document.index(CODE_BEGINS)
        < document.index("code(of_one)")
    )


def test_a_chapter_is_found_by_its_name_and_by_greek_letters_in_words():
    page = PAGE.replace("12. Rings", "4. The α–β model")
    document = document_of(entries_of("c/04.html", page)[0], "")
    assert "Chapter 4<" in document and "alpha beta<" in document


def test_a_machine_without_pagefind_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "program", lambda: None)
    assert search.write_index(tmp_path) == search.NO_PAGEFIND
    assert list(tmp_path.iterdir()) == []


def test_an_index_is_written_without_what_is_not_ours(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c/12.html").write_text(f"<html>{PAGE}</html>", encoding="utf-8")
    assert search.write_index(tmp_path) == ""
    names = {file.name for file in (tmp_path / search.FOLDER).iterdir()}
    assert "pagefind.js" in names and not any("ui" in name for name in names)
    assert len(list((tmp_path / search.FOLDER / "fragment").iterdir())) == 5
