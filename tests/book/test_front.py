"""The front page: at the site's own address as well as at its old one, with a map of the book."""

import re
from threading import Thread
from types import SimpleNamespace

import pytest
from page_inspection import start_browser

from book._ext.page_frame import write_front
from book._tools.serve import server
from dtlib.contents import chapters, parts, written
from dtlib.shown import parts_map

FRONT = """<!doctype html><html lang="en"><head><title>T</title></head><body>
<a href="#main">text</a> <a href="../chapters/one.html#a">one</a> <a href="read.html">read</a>
<main id="main">words</main></body></html>"""
LEADS_TO = ["/#main", "/chapters/one.html#a", "/book/read.html"]
LINKS = "[...document.links].map(({ href }) => href.slice(location.origin.length))"


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture
def site(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book/intro.html").write_text(FRONT)
    builder, config = SimpleNamespace(format="html"), SimpleNamespace(root_doc="book/intro")
    write_front(SimpleNamespace(outdir=tmp_path, builder=builder, config=config), None)
    with server(str(tmp_path)) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/", tmp_path
        running.shutdown()


def test_the_site_s_own_address_is_the_front_page_and_its_links_hold(browser, site):
    home, folder = site
    page = browser.new_page()
    page.goto(home)
    assert page.evaluate(LINKS) == LEADS_TO
    assert "words" in page.inner_text("main") and "Refresh" not in page.content()
    (folder / "index.html").write_text(FRONT)  # sabotage: a copy, whose links begin elsewhere
    fresh = browser.new_page()  # which has kept nothing of what was there within the same second
    fresh.goto(home)
    assert fresh.evaluate(LINKS) != LEADS_TO
    for one in (page, fresh):
        one.close()


def test_the_old_address_stays(site):
    _, folder = site
    assert (folder / "book/intro.html").read_text() == FRONT


def test_the_map_leads_to_every_written_chapter_and_to_no_planned_one():
    marks = re.findall(r'href="\.\./([^"]+)\.ipynb" data-read="(\w+)"', parts_map().html)
    assert marks == [(chapter.page, chapter.number) for chapter in written()]
    assert "data-read" not in parts_map([]).html
    assert parts_map([]).html.count("planned</small>") == len(parts())


def test_the_map_leads_to_every_part():
    titles = re.findall(r'href="\.\./([^"]+)\.md" data-part="(\d)">([^<]+)</a>', parts_map().html)
    assert titles == [(part.page, str(part.number), part.title) for part in parts()]


def test_the_hours_on_the_map_are_the_chapters():
    hours = round(sum(chapter.minutes for chapter in written()) / 60)
    assert f"{len(written())} of {len(chapters())} chapters" in parts_map().html
    assert f"about {hours} hours" in parts_map().html
