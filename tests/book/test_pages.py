"""Every page of the built site, in light and in dark: nothing dead, nothing from elsewhere."""

from pathlib import Path

import pytest
from page_inspection import browser_faults, file_faults, start_browser

from book._tools.layout import ROOT, pages

pytestmark = pytest.mark.site

SITE = ROOT / "_build/html"
PAGES = sorted(
    page.relative_to(SITE).as_posix()
    for room in ("book", "chapters", "labs")
    for page in (SITE / room).rglob("*.html")
)
GENERATED = ["index.html", "search.html", "404.html"]


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture(scope="module")
def context(browser):
    return browser.new_context(color_scheme="light")


def test_there_is_a_site_and_every_source_is_a_page_of_it():
    sources = {p.relative_to(ROOT).with_suffix(".html").as_posix() for p in pages()}
    assert sources <= set(PAGES), "no whole site in _build/html; run: make site"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere_and_files_come_from_the_site(page):
    assert not file_faults(SITE / page, SITE)


@pytest.mark.parametrize("page", PAGES)
def test_reader_sees_a_whole_page(context, home, page):
    assert not browser_faults(context, home + page, home)


@pytest.mark.parametrize("page", GENERATED)
def test_generated_pages_load_nothing_from_elsewhere(page):
    faults = file_faults(SITE / page, Path(SITE))
    assert not [fault for fault in faults if fault.startswith("loads")]
