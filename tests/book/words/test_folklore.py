"""Every claim says who said it, or that nobody did; boxes, entries and sources agree."""

import re
import shutil

import pytest

from book._tools import folklore
from book._tools.folklore import (
    FolkloreError,
    bib_keys,
    boxes,
    entries,
    entry_of_box,
    folklore_page,
    plain,
)
from book._tools.layout import ROOT
from dtlib.contents import chapter

FOUR = chapter("4")
CHAPTER = """# The α–β model

## Whose bandwidth?

:::{admonition} Folklore: 'NVLink is 18 times as fast'
:class: folklore

**The claim.** So says a list of links {cite}`somebody2026list`.
:::

:::{exercise} Two sheets
:label: ex-two-datasheets
:::
"""
BIB = "@misc{somebody2026list,\n  title = {A list},\n}\n"
SAID = {
    "claim": "NVLink is 18 times as fast.",
    "answer": '<data value="450/50">9×</data> in one direction.',
    "source": "somebody2026list",
    "where": "line 3",
    "section": "Whose bandwidth?",
    "kind": "folklore",
}
TEMPTING = SAID | {"claim": "A port is a port", "source": "", "where": "", "kind": "question"}


@pytest.fixture
def book(tmp_path):
    """A book of one chapter; call it with the entries that the chapter's file has."""
    page = tmp_path / f"{FOUR.page}.md"
    page.parent.mkdir(parents=True)
    page.write_text(CHAPTER)
    (tmp_path / "book/folklore").mkdir(parents=True)
    (tmp_path / "book/references.bib").write_text(BIB)

    def write(*found, text=CHAPTER):
        page.write_text(text)
        tables = [
            "[[entry]]\n"
            + "".join(
                f"{k} = {v}\n" if isinstance(v, int) else f"{k} = '''{v}'''\n" for k, v in e.items()
            )
            for e in found
        ]
        (tmp_path / "book/folklore" / f"{FOUR.file_name}.toml").write_text("\n".join(tables))
        return tmp_path

    return write


def test_the_books_own_folklore_holds():
    assert folklore.problems() == []
    assert len(entries()) >= 100


def test_a_claim_with_source_and_one_without_pass(book):
    assert folklore.problems(book(SAID, TEMPTING)) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"source": ""}, "folklore needs a source and where it stands"),
        ({"where": ""}, "folklore needs a source and where it stands"),
        ({"kind": "question"}, "a question has no source"),
        ({"kind": "rumour"}, "kind is 'rumour'; allowed are folklore, question"),
        ({"source": "nobody2026"}, "source 'nobody2026' is not in references.bib"),
        ({"section": "Nowhere"}, "Chapter 4 has 0 'Nowhere'"),
        ({"section": "ex-nothing"}, "Chapter 4 has 0 'ex-nothing'"),
        ({"answer": '<data value="450/50">18×</data>'}, "'18×' should be '9×'"),
        ({"claim": "Something else"}, "has no entry in the chapter's file"),
    ],
)
def test_what_an_entry_lacks_is_said(book, change, complaint):
    assert any(complaint in problem for problem in folklore.problems(book(SAID | change)))


def test_a_box_that_does_not_cite_its_entrys_source_is_refused(book):
    root = book(SAID, text=CHAPTER.replace("{cite}`somebody2026list`", "of somebody"))
    assert folklore.problems(root) == [
        "chapter 4: box \"Folklore: 'NVLink is 18 times as fast'\" does not cite "
        "'somebody2026list', its entry's source"
    ]


def test_a_box_may_have_another_title_than_its_claim(book):
    other = SAID | {"claim": "Eighteen times", "box": "NVLink is 18 times as fast"}
    assert folklore.problems(book(other)) == []


def test_an_exercise_may_be_the_section(book):
    assert folklore.problems(book(SAID, TEMPTING | {"section": "ex-two-datasheets"})) == []


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"claim": "Only this"}, "entry 1: lacks answer, section, kind"),
        (SAID | {"auther": "x"}, "entry 1: has unknown auther; known: claim"),
    ],
)
def test_a_field_that_is_missing_or_unknown_is_named(book, entry, complaint):
    root = book(entry)
    assert complaint in folklore.problems(root)[0]
    with pytest.raises(FolkloreError, match=re.escape(complaint)):
        entries(root)


def test_two_claims_may_not_share_an_anchor(book):
    assert any("two claims share" in told for told in folklore.problems(book(SAID, SAID)))


def test_a_file_of_no_chapter_is_refused(book):
    root = book(SAID)
    file = root / "book/folklore" / f"{FOUR.file_name}.toml"
    shutil.copy(file, file.with_name("04-alpha.toml"))
    assert folklore.problems(root) == ["04-alpha.toml is no chapter's file"]


def test_the_page_says_who_said_it_and_marks_what_nobody_did(book):
    page = folklore_page(book(SAID, TEMPTING))
    assert "## 4 · [The α–β model](#ch-4)" in page
    assert "<del>NVLink is 18 times as fast.</del> <span" in page
    assert "Said in {cite:t}`somebody2026list`, line 3. {ref}`Chapter 4, Whose bandwidth? <" in page
    assert '<a class="dt-anchor" id="folklore-4-a-port-is-a-port"' in page
    assert page.count('"dt-kind">said<') == page.count('"dt-kind">tempting<') == 1


def test_the_number_that_refutes_stands_large_on_the_card(book):
    root = book(SAID | {"refutes": 1}, TEMPTING)
    assert folklore.problems(root) == []
    assert folklore_page(root).count('<span class="dt-right">9×</span>') == 1
    assert (
        entry_of_box("Folklore: 'NVLink is 18 times as fast'", entries(root)).right_number == "9×"
    )
    assert entry_of_box("Folklore: 'something else'", entries(root)) is None


@pytest.mark.parametrize("refutes", [2, -1])
def test_a_number_that_the_answer_lacks_cannot_refute(book, refutes):
    (told,) = folklore.problems(book(SAID | {"refutes": refutes}))
    assert f"refutes is {refutes}, and the answer has no such number" in told


def test_every_box_of_the_class_is_seen():
    for page in ROOT.glob("chapters/*/*.md"):
        text = page.read_text()
        assert len(boxes(text)) == text.count("\n:class: folklore\n"), page.name


@pytest.mark.parametrize(
    "title", ["Folklore: 'busbw is 1'", "busbw is 1.", "It is tempting to think: 'busbw is 1'"]
)
def test_a_title_is_compared_by_its_words(title):
    assert plain(title) == "busbw is 1"


def test_keys_are_those_of_the_file():
    assert {"rajbhandari2020", "vizuara2026guide"} <= bib_keys()
