"""The site's own faces: all are there, and a page holds together before or without them.

That every character of every page has a face, and that nothing is cut off where the faces are the
only ones there are, is asked of each page in test_pages.py, on a machine that has no fonts.
"""

import re

import pytest
from font_inspection import block_faces, uncovered, with_dejavu_alone, without_fonts
from page_inspection import launch, layout_faults, open_page, page_file
from playwright.sync_api import sync_playwright

from book._tools.layout import ROOT

pytestmark = pytest.mark.site

SITE = ROOT / "_build/html"
STATIC = SITE / "_static"
# Pages with the most tables, figures and widgets, and the one with the longest table.
CROWDED = ["instructors", "intro", "01-*", "06-*", "14-*", "16-*", "19-*", "22-*"]
PAGES = [
    page.relative_to(SITE).as_posix() for name in CROWDED for page in SITE.rglob(f"{name}.html")
]
READING = next((page for page in PAGES if "/19-" in page), "")
# How much wider than a face its stand-in may be: two letters of a line.
TOLERANCE = 0.025


@pytest.fixture(scope="module")
def playwright():
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="module")
def late(playwright, tmp_path_factory):
    """A machine with ordinary fonts to which the site's faces do not come."""
    browser = launch(playwright, with_dejavu_alone(tmp_path_factory.mktemp("dejavu")))
    context = browser.new_context()
    block_faces(context)
    yield context
    browser.close()


@pytest.fixture(scope="module")
def bare(playwright, tmp_path_factory):
    """A machine whose only font is wider than any, and to which the site's faces do not come."""
    browser = launch(playwright, without_fonts(tmp_path_factory.mktemp("box")))
    context = browser.new_context()
    block_faces(context)
    yield context
    browser.close()


@pytest.fixture
def opened(home):
    """Opens a page of the site in a context, and closes it in the end."""
    pages = []

    def at(context, name: str):
        pages.append(context.new_page())
        open_page(pages[-1], home + name)
        return pages[-1]

    yield at
    for page in pages:
        page.close()


def test_the_crowded_pages_are_there():
    assert len(PAGES) == len(CROWDED)


def test_every_face_is_declared_and_has_its_licence():
    sheet = (STATIC / "fonts.css").read_text(encoding="utf-8")
    faces = {file.name for file in (STATIC / "fonts").glob("*.woff2")}
    assert set(re.findall(r'url\("fonts/([^"]+)"\)', sheet)) == faces
    for licence in ("source-serif-4", "plex-sans", "plex-mono", "stix-two-math"):
        text = (STATIC / f"fonts/LICENSE-{licence}.txt").read_text(encoding="utf-8")
        assert "SIL OPEN FONT LICENSE Version 1.1" in text


@pytest.mark.parametrize("page", PAGES)
def test_the_first_faces_are_asked_for_at_once(page):
    loads = [load.rpartition("/")[2] for load in page_file(SITE / page).loads]
    assert {"serif.woff2", "sans.woff2"} <= set(loads)


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_cut_off_while_the_faces_have_not_come(late, opened, page):
    assert not layout_faults(opened(late, page))


@pytest.mark.parametrize("page", PAGES)
def test_text_tables_and_figures_hold_with_letters_wider_than_any(bare, opened, page):
    """Drawings of widgets are made for a face, and their stand-ins have its width."""
    seen = opened(bare, page)
    seen.evaluate(DRAWINGS_FOR_A_FACE_AWAY)
    assert not layout_faults(seen)


def test_without_the_faces_a_page_is_not_set_in_them(late, bare, opened):
    assert uncovered(opened(late, READING))
    assert uncovered(opened(bare, READING))


def test_lines_are_of_some_seventy_letters(playwright, opened, tmp_path):
    browser = launch(playwright, without_fonts(tmp_path))
    letters = opened(browser.new_context(), READING).evaluate(LETTERS_OF_A_LINE)
    browser.close()
    assert 65 <= letters <= 75


@pytest.mark.parametrize("face, stand_in", [("Serif", "Serif Until 4"), ("Sans", "Sans Until 3")])
def test_a_stand_in_takes_the_room_of_its_face(playwright, opened, tmp_path, face, stand_in):
    browser = launch(playwright, with_dejavu_alone(tmp_path))
    page = opened(browser.new_context(), READING)
    wide, high = page.evaluate(ROOM, f"Dtlib {face}")
    other_wide, other_high = page.evaluate(ROOM, stand_in)
    without = page.evaluate(ROOM, f"DejaVu {face}")
    browser.close()
    assert abs(other_wide / wide - 1) < TOLERANCE and abs(other_high - high) <= 1
    assert abs(without[0] / wide - 1) > 2 * TOLERANCE


# Static figures of notebooks that were stored before figures said how wide their text is, too.
DRAWINGS_FOR_A_FACE_AWAY = """() => document.querySelectorAll(
  ".dt-widget svg, .dt-figure:not(:has(text[textLength])) svg").forEach((e) => e.remove())"""

# Letters that fill the width of a paragraph: the median of the long ones without formulas or code.
LETTERS_OF_A_LINE = """() => {
  const found = [];
  for (const text of document.querySelectorAll("article section > p")) {
    if (text.querySelector("math, code") || text.textContent.length < 200) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const lengths = [...range.getClientRects()].map((line) => line.width);
    const together = lengths.reduce((sum, length) => sum + length, 0);
    found.push((text.textContent.length * text.clientWidth) / together);
  }
  return found.sort((a, b) => a - b)[found.length >> 1];
}"""

ROOM = """async (family) => {
  const words = [...document.querySelectorAll("article section > p")]
    .map((p) => p.textContent).join(" ").replace(/[^!-~]+/g, " ").slice(0, 5000);
  const line = document.body.appendChild(document.createElement("span"));
  line.textContent = words;
  line.style.cssText = `position: absolute; white-space: nowrap; font: 16px/normal "${family}"`;
  await document.fonts.load(`16px "${family}"`, words);
  const { width, height } = line.getBoundingClientRect();
  line.remove();
  return [width, height];
}"""
