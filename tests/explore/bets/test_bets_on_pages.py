"""What answers a bet is covered on a page until its reader has bet or skipped, and is marked."""

import json

import pytest
from page import STATIC, opened
from test_bets import pair, said

from book._tools.layout import ROOT
from book.bets import Cell, faults, problems, telling

playwright = pytest.importorskip("playwright.sync_api")

TOLD = """<div class="cell tag_after-bet-9.1">
<div class="cell_output"><pre>it is 40 ms</pre></div></div>
<p>Chapter 9 found 40 ms<span data-your-bet="9.1"></span>.</p>"""
COVER = ".bet-cover"


def told(*names: str) -> str:
    return "".join((STATIC / name).read_text(encoding="utf-8") for name in names)


@pytest.fixture
def tab(browser, tmp_path):
    question, truth = pair()
    with opened(browser, tmp_path, question, TOLD, truth) as tab:
        tab.add_style_tag(content=told("reader/bets.css"))
        tab.add_script_tag(content=told("reader/kept.js", "reader/bets.js"))
        yield tab


def height(tab) -> float:
    return tab.locator(".cell_output:has(> pre)").bounding_box()["height"]


def is_seen(tab) -> bool:
    return tab.get_by_text("it is 40 ms", exact=True).is_visible()


def test_what_answers_is_covered_until_the_bet_is_placed_and_nothing_moves(tab):
    before = height(tab)
    assert not is_seen(tab) and tab.locator(COVER).is_visible()
    tab.get_by_role("textbox").fill("70")
    assert not is_seen(tab)  # a mark that is not placed is no bet
    tab.get_by_role("textbox").press("Enter")
    assert is_seen(tab) and not tab.locator(COVER).count()
    assert height(tab) == before
    assert "Chapter 9 found 40 ms (you said 70 ms)." in tab.locator("main").inner_text()
    tab.get_by_role("button", name="Erase my bet").click()
    assert not is_seen(tab) and "you said" not in tab.locator("main").inner_text()


def test_skipping_at_the_cover_skips_the_bet_and_keeps_the_focus(tab):
    tab.locator(COVER).get_by_role("button", name="Skip").press("Enter")
    assert is_seen(tab)
    kept = json.loads(tab.evaluate("localStorage.getItem('dtlib-bet:9.1')"))
    assert kept["skipped"] is True
    assert said(tab.locator(".dt-kind-answer")) == "It is 40 ms. So much."
    assert tab.evaluate("document.activeElement !== document.body")
    assert "you said" not in tab.locator("main").inner_text()


def test_the_cover_leads_to_the_bet(tab):
    tab.get_by_role("link", name="Your bet first", exact=True).press("Enter")
    assert tab.evaluate("document.activeElement.getAttribute('role')") == "slider"


def test_on_paper_and_without_scripts_nothing_is_covered(browser, tmp_path, tab):
    tab.emulate_media(media="print")
    assert is_seen(tab) and not tab.locator(COVER).is_visible()
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.set_content(f"<style>{told('reader/bets.css')}</style>{TOLD}")
    assert is_seen(plain)
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_shuts_a_reader_out_of_a_cover(browser, tmp_path, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with opened(browser, tmp_path, pair()[0], TOLD, theme=theme) as tab:
        tab.add_style_tag(content=told("reader/bets.css"))
        tab.add_script_tag(content=told("reader/kept.js", "reader/bets.js"))
        found = axe.run(tab).response["violations"]
        assert [(fault["id"], fault["nodes"][0]["target"]) for fault in found] == []


# What the sources say.


def test_every_bet_of_the_book_has_its_answer_marked():
    assert problems(sorted(ROOT.glob("chapters/*/*.md"))) == []


BET, TRUTH = Cell('bet("9.1", "How long?")'), Cell('answer("9.1", x)')
MARKED = Cell("show(x)", ("after-bet-9.1",), "it is 4 ms")


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ([BET, MARKED, TRUTH], None),
        ([BET, MARKED], "bet 9.1 has no answer below it"),
        ([TRUTH, BET], "bet 9.1 has no answer below it"),
        ([MARKED, BET, TRUTH], "no bet 9.1 is above it"),
        ([BET, Cell("x", ("after-bet-9.2",)), TRUTH], "no bet 9.2 is above it"),
        ([BET, Cell("print(x)", (), "it is 4.00 ms"), TRUTH], "without the tag after-bet-9.1"),
        ([BET, Cell("print(x)", (), "it is 5 ms"), TRUTH], None),
        ([BET, TRUTH, Cell("print(x)", (), "it is 4 ms")], None),
    ],
)
def test_sabotage_a_bet_without_its_mark_is_found(cells, says):
    found = faults(cells, {"9.1": 4.0})
    assert (says in found[0] and len(found) == 1) if says else found == []


def test_a_number_is_told_to_as_many_digits_as_it_has():
    assert telling("side by side: 19.9 GB, 398 ms", 19.921875) == ["19.9"]
    assert telling("P4.1 and 4.1.2, 41", 4.1) == []
