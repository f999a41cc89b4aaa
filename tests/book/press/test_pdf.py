"""The book on paper can be searched, opened at a section and followed, says another library."""

import re
import shutil
from pathlib import Path

import pytest
from page_inspection import start_browser
from pypdf import PdfReader

from book._press import pdf
from book._tools.layout import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PART = (
    "<h1>A part</h1><p>In <a href='one.html#ex-a'>its exercise</a>, <a href='two.html'>two</a>.</p>"
)
ONE = """<h1>1. One</h1><section id="here"><h2>Here</h2><p>Some words, <a href="#here">here</a>.</p>
<div class="exercise" id="ex-a"><span class="caption-number">Exercise 1.1</span> How much?</div>
<details class="fold solution"><summary>Solution</summary>Forty-two.</details>
<details class="fold how"><summary>code of this figure</summary>plot(nothing)</details></section>
<section id="there"><h2>There</h2><p>More.</p><button>Press</button></section>"""
FACE = """@font-face { font-family: "Dtlib Sans"; src: url(serif.woff2) }
* { font-family: "Dtlib Sans" }"""
SHEETS = [pdf.Sheet("part.html"), pdf.Sheet("one.html", 1)]


@pytest.fixture(scope="module")
def chromium():
    yield from start_browser()  # skips or fails as all page checks do where there is none


def toy(folder: Path, one: str = ONE) -> Path:
    """A site of three pages, of which two are printed."""
    (folder / "_static").mkdir()
    shutil.copy(ROOT / "book/_static/fonts/serif.woff2", folder / "_static")
    (folder / "_static/page.css").write_text(FACE)
    (folder / "robots.txt").write_text("")
    for name, text in {"part": PART, "one": one, "two": "<h1>Two</h1>"}.items():
        (folder / f"{name}.html").write_text(f"<article>{text}</article>")
    return folder


def printed(browser, folder: Path, one: str = ONE, sheets=SHEETS) -> PdfReader:
    file = folder / "made/book.pdf"
    pdf.write(browser, toy(folder, one), file, sheets)
    return PdfReader(file)


def outline(reader: PdfReader) -> list[tuple[int, str]]:
    """The entries of the outline, each with its depth."""

    def entries(of: list, depth: int):
        for one in of:
            if isinstance(one, list):
                yield from entries(one, depth + 1)
            else:
                yield depth, " ".join(one.title.split())

    return list(entries(reader.outline, 0))


def faults(reader: PdfReader) -> list[str]:
    """Pages with nothing on them, and links that lead nowhere or to the machine that printed."""
    places, found = reader.named_destinations, []
    heads = {title for _, title in outline(reader)}
    for number, page in enumerate(reader.pages, 1):
        said = {line.strip() for line in page.extract_text().splitlines()} - heads
        drawn = "/XObject" in page.get("/Resources", {})
        if not said - {"", str(number)} and not drawn and number > 1:
            found.append(f"page {number} is blank")
        for link in (one.get_object() for one in page.get("/Annots", ())):
            place, address = link.get("/Dest"), link.get("/A", {}).get("/URI", "")
            if place is not None and place not in places:
                found.append(f"page {number}: {place} is not there")
            if "127.0.0.1" in address or (place is None and not address):
                found.append(f"page {number}: a link leads to {address or 'nothing'}")
    return found


def test_links_between_pages_are_links_inside_and_others_are_words(chromium, tmp_path):
    reader = printed(chromium, tmp_path)
    assert faults(reader) == []
    assert {"/s1-ex-a", "/s1-here", "/s0", "/s1"} <= set(reader.named_destinations)
    assert "its exercise, two." in reader.pages[2].extract_text()


def test_a_chapter_stands_below_its_part_and_ends_with_its_solutions(chromium, tmp_path):
    reader = printed(chromium, tmp_path)
    titles = [
        (0, "Contents"), (0, "A part"), (1, "1. One"), (2, "Here"), (2, "There"), (2, "Solutions"),
    ]  # fmt: skip
    assert outline(reader) == titles
    text = reader.pages[-1].extract_text()
    assert text.index("How much?") < text.index("More.") < text.index("Forty-two.")
    assert "plot(nothing)" not in text and "Press" not in text


def test_the_contents_say_where_a_section_begins(chromium, tmp_path):
    reader = printed(chromium, tmp_path)
    lines = re.findall(r"^(.+?)\s*(\d+)$", reader.pages[1].extract_text(), re.MULTILINE)
    begins = {title: int(number) for title, number in lines}
    assert begins["A part"] == 3 and begins["1. One"] == 4
    assert "A part" in reader.pages[2].extract_text()
    assert "Some words" in reader.pages[3].extract_text()


def test_sabotage_a_link_to_nothing_and_a_blank_page_are_seen(chromium, tmp_path):
    high = 'style="break-before: page; height: 250mm"'
    blank = f"<p {high}>&nbsp;</p><p {high}>x y</p>"
    (tmp_path / "links").mkdir()
    (tmp_path / "blank").mkdir()
    with pytest.raises(ValueError, match="lead nowhere: s1-gone"):
        printed(chromium, tmp_path / "links", ONE.replace('"#here"', '"#gone"'))
    empty = printed(
        chromium, tmp_path / "blank", ONE.replace("</section>", f"</section>{blank}", 1)
    )
    assert any("blank" in fault for fault in faults(empty))


def test_what_is_not_built_cannot_be_printed(chromium, tmp_path):
    with pytest.raises(SystemExit, match=r"has no page one\.html; build the site with: make site"):
        pdf.write(chromium, tmp_path, tmp_path / "a.pdf", [pdf.Sheet("one.html")])


def test_the_book_has_every_page_of_the_table_of_contents_but_what_a_browser_keeps():
    sheets = pdf.book()
    assert sheets[0] == pdf.Sheet("book/intro.html")
    assert pdf.Sheet("book/part-3-collectives.html", 0) in sheets
    assert pdf.Sheet("chapters/3-collectives/12-ring-and-tree-algorithms.html", 1) in sheets
    assert not {f"{page}.html" for page in pdf.NOT_PAPER} & {sheet.page for sheet in sheets}


@pytest.mark.site
def test_a_chapter_on_paper_can_be_searched_and_has_all_its_sections(chromium, tmp_path):
    name = "chapters/4-parallelism/15-tensor-parallelism.html"
    file = tmp_path / "15.pdf"
    pdf.write(chromium, ROOT / "_build/html", file, [pdf.Sheet(name)])
    reader = PdfReader(file)
    assert faults(reader) == []
    html = (ROOT / "_build/html" / name).read_text(encoding="utf-8")
    titles = [title for _, title in outline(reader)]
    for heading in re.findall(r"<h[123]>(.*?)<a class=\"headerlink", html):
        assert " ".join(re.sub("<[^>]*>", "", heading).split()) in titles
    words = " ".join(page.extract_text() for page in reader.pages)
    assert "Tensor parallelism" in words and "Solution of Exercise 15.1" in words
