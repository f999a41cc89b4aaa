"""A bet on paper, without scripts, without motion, under a finger, and above what is being read."""

from contextlib import contextmanager

import pytest
from page import opened, page
from test_bets import PHONE, SPACE
from test_bets_on_pages import TOLD, told

from dtlib.explore import answer, bet

playwright = pytest.importorskip("playwright.sync_api")

DESK = {"viewport": {"width": 1000, "height": 900}}
QUESTION = "How long do 1,024 GPUs take?"
CONCLUSION = "Twice the latency, and the same bytes over the same ring: the sum does not care."
READ = "<p class='read'>Here the reader is.</p>"
SHEETS = told("rows.css", "reader/bets.css")
PRESSED = "a, button, input, select, [tabindex='0']"


def places() -> list:
    """A bet, a cell that answers it, the answer, and the text below, with room to scroll."""
    question = bet("9.1", QUESTION, unit="ms", anchor=35.0, anchor_label="8 GPUs", high=100_000)
    truth = answer("9.1", 40, unit="ms", conclusion=CONCLUSION)
    return [SPACE, question, TOLD, truth, READ, SPACE]


@contextmanager
def on_a_page(browser, folder, style="", **options):
    with opened(browser, folder, *places(), **options) as tab:
        tab.add_style_tag(content=SHEETS + style)
        tab.add_script_tag(content=told("reader/kept.js", "reader/bets.js"))
        yield tab


def settle(tab, kept: str) -> None:
    """A bet that is made, skipped or erased elsewhere: at a cover, or in another tab."""
    tab.evaluate(f"dtKept.write('dtlib-bet:9.1', {kept})")
    tab.wait_for_timeout(400)  # a sentence comes when nothing has changed for a while


MADE = "{ value: 70, unit: 'ms', sure: 2 }"
SKIPPED = "{ skipped: true, unit: 'ms' }"


# On paper and without scripts.


def seen(tab) -> tuple[list[bool], int]:
    """Whether question, output and answer are seen, and how much is there to be pressed."""
    whole = tab.locator("main").inner_text()
    words = [word in whole for word in (QUESTION, "it is 40 ms", f"It is 40 ms. {CONCLUSION}")]
    return words, tab.locator(f":is({PRESSED}):visible").count()


@pytest.mark.parametrize("kept", ["null", MADE, SKIPPED])
def test_paper_has_question_and_answer_and_nothing_to_press(browser, tmp_path, kept):
    with on_a_page(browser, tmp_path, **DESK) as tab:
        settle(tab, kept)
        assert seen(tab)[1] > 0
        tab.emulate_media(media="print")
        assert seen(tab) == ([True] * 3, 0)


def test_sabotage_a_widget_that_is_printed_leaves_dead_buttons(browser, tmp_path):
    whole = "main .dt-place > :not(.dt-static), .dt-kit .dt-widget.dt-widget"
    style = f"@media print {{ {whole} {{ display: block !important }} }}"
    with on_a_page(browser, tmp_path, style, **DESK) as tab:
        tab.emulate_media(media="print")
        assert seen(tab)[1] > 0


def without_scripts(browser, folder, style="") -> tuple[list[bool], int]:
    sheets = f"<style>{SHEETS}{style}</style></head>"
    whole = page(*places()).replace("</head>", sheets).replace(' data-theme="light"', "")
    (folder / "plain.html").write_text(whole, encoding="utf-8")
    context = browser.new_context(java_script_enabled=False, **DESK)
    tab = context.new_page()
    tab.goto((folder / "plain.html").as_uri())
    found = seen(tab)
    context.close()
    return found


def test_without_scripts_the_question_is_read_and_nothing_waits_for_a_press(browser, tmp_path):
    assert without_scripts(browser, tmp_path) == ([True] * 3, 0)


def test_sabotage_a_figure_that_waits_for_a_script_asks_nothing(browser, tmp_path):
    style = ".dt-place > .dt-static { visibility: hidden }"
    assert without_scripts(browser, tmp_path, style) == ([False, True, False], 0)


# Motion.


@pytest.mark.parametrize("name", ["Place your bet first", "Your bet first"])
@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_who_prefers_no_motion_is_at_the_bet_at_once(browser, tmp_path, name, motion):
    with on_a_page(browser, tmp_path, reduced_motion=motion, **PHONE) as tab:
        tab.evaluate("scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })")
        way = tab.get_by_role("link", name=name, exact=True)
        before, at_once = way.evaluate("link => [scrollY, (link.click(), scrollY)]")
        assert (before != at_once) == (motion == "reduce")
        tab.wait_for_function("before => scrollY < before - 400", arg=before)
        assert tab.evaluate("document.activeElement.getAttribute('role')") == "slider"


def test_nothing_of_a_bet_moves_by_itself(browser, tmp_path):
    for motion in ("reduce", "no-preference"):
        with on_a_page(browser, tmp_path, reduced_motion=motion, **PHONE) as tab:
            for kept in (MADE, "null", SKIPPED):
                settle(tab, kept)
                assert tab.evaluate("document.getAnimations().length") == 0


# Fingers.


def small_targets(tab) -> list[str]:
    """What is smaller than 40 px each way, of all that a finger may press now."""
    return tab.locator(f":is({PRESSED}):visible").evaluate_all(
        """all => all.filter((one) => one.tabIndex >= 0).filter((one) => {
          const { width, height } = one.getBoundingClientRect();
          return Math.min(width, height) < 40;
        }).map((one) => one.textContent || one.getAttribute("aria-label"))"""
    )


def test_all_that_is_pressed_is_large_enough_for_a_finger(browser, tmp_path):
    with on_a_page(browser, tmp_path, **PHONE) as tab:
        for kept in ("null", MADE, SKIPPED):
            settle(tab, kept)
            assert small_targets(tab) == []
        settle(tab, "null")
        tab.add_style_tag(content=".bet-cover a { min-height: 0 !important }")
        assert small_targets(tab) == ["Your bet first"]


# What is being read.


def moved(browser, folder, device, style="") -> list[float]:
    """How far the text below goes when the bet is made, erased, skipped and erased elsewhere."""
    anchor = "html { overflow-anchor: none }"  # as in a browser that does not hold the text itself
    with on_a_page(browser, folder, anchor + style, **device) as tab:
        tab.evaluate("document.querySelector('.read').scrollIntoView({ block: 'center' })")
        tab.wait_for_timeout(400)
        places = []
        for kept in ("null", MADE, "null", SKIPPED, "null"):
            settle(tab, kept)
            places.append(tab.locator(".read").bounding_box()["y"])
        return [abs(place - places[0]) for place in places[1:]]


@pytest.mark.parametrize("device", [PHONE, DESK], ids=["phone", "desk"])
def test_the_text_below_does_not_move_when_the_answer_unfolds_above(browser, tmp_path, device):
    assert max(moved(browser, tmp_path, device)) < 1


@pytest.mark.parametrize("room", [".dt-bet-room", ".dt-bet-entry[inert]"])
def test_sabotage_without_the_room_that_is_kept_the_text_moves(browser, tmp_path, room):
    assert max(moved(browser, tmp_path, PHONE, f"{room} {{ display: none !important }}")) > 15
