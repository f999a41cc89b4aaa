"""Descriptions, cards, the feed, the list of pages, and moves that lead somewhere."""

from xml.etree import ElementTree

import pytest

from book._ext import addresses as of_a_page
from book._press.addresses import description, feed, robots, sitemap, write_moves
from book.motifs import motifs
from dtlib.contents import chapter, chapters

HOME = "https://example.org/a-book/"
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Short  words.\n", "Short words."),
        ("One sentence of such a length that it says whatever the page is. " + "More " * 40, None),
        ("word " * 60, "word " * 30 + "word…"),
    ],
)
def test_a_description_ends_where_a_reader_may_stop(text, said):
    found = description(text)
    assert len(found) <= 160
    assert found == (said or "One sentence of such a length that it says whatever the page is.")


def test_a_page_names_a_card_that_there_is(monkeypatch):
    pages = ["book/intro", "404", *(one.page for one in chapters())]
    assert {of_a_page.card_of(page) for page in pages} == {"book", *motifs()}
    assert of_a_page.card_of(chapter("11").page) == "11"
    left = {number: one for number, one in motifs().items() if number != "11"}
    monkeypatch.setattr(of_a_page, "motifs", lambda: left)
    assert of_a_page.card_of(chapter("11").page) == "book"


def test_the_feed_has_every_edition_with_its_day():
    whole = feed(
        HOME, "A & B", "# C\n\n## 0.2, 2026-12-24\n\n- x < y\n\n## 0.1\n\n- z\n", "2027-01-01"
    )
    entries = ElementTree.fromstring(whole).findall(f"{ATOM}entry")
    days = [entry.findtext(f"{ATOM}updated") for entry in entries]
    assert days == ["2026-12-24T00:00:00Z", "2027-01-01T00:00:00Z"]
    assert entries[0].findtext(f"{ATOM}content") == "- x < y"
    assert len({entry.findtext(f"{ATOM}id") for entry in entries}) == 2


def test_the_list_of_pages_is_told_once_the_site_has_an_address():
    places = [place.text for place in ElementTree.fromstring(sitemap(HOME, ["a.html"])).iter()]
    assert f"{HOME}a.html" in places
    assert "Sitemap" in robots(HOME) and "Sitemap" not in robots("")


@pytest.mark.parametrize(
    ("moved", "wrong"),
    [
        ({"old.html": "new.html"}, 0),
        ({"deep/old.html": "new.html#here"}, 0),
        ({"old.html": "gone.html"}, 1),
        ({"old.html": "new.html#gone"}, 1),
        ({"new.html": "other.html"}, 1),
    ],
)
def test_a_move_leads_to_what_is_there(tmp_path, moved, wrong):
    for name in ("new.html", "other.html"):
        (tmp_path / name).write_text('<p id="here">')
    assert len(write_moves(tmp_path, moved)) == wrong
    assert write_moves(tmp_path, moved) == write_moves(tmp_path, moved)
