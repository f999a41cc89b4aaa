"""Enter checks an answer that is chosen from a list, and the list opens by the other keys."""

import json

import pytest
from page_inspection import PATIENCE_MS, start_browser

from book._tools.layout import ROOT
from dtlib.exercises.declarations.on_page import asked_on_page
from dtlib.exercises.declarations.question import pauses_of

READER = ROOT / "book/_static/reader"
HEARS = "onkeydown: sentFromList,"
LAW = next(one for one in pauses_of("17") if one.slug == "pause-law-that-rounding-breaks")
IS_SO = "([list, open]) => list.matches(':open') === open"


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture
def asks(browser, tmp_path):
    """`asks(forgets)`: the list of a question on a page that counts what is sent."""
    contexts = []

    def asks(forgets: str = ""):
        scripts = [(READER / name).read_text() for name in ("kept.js", "judge.js", "answers.js")]
        assert HEARS in scripts[-1]
        scripts[-1] = scripts[-1].replace(forgets, "") if forgets else scripts[-1]
        asked = {LAW.slug: {"label": "pause 1"} | asked_on_page(LAW)}
        data = json.dumps({"notebook": "", "exercises": asked})
        (tmp_path / "page.html").write_text(
            f'<!doctype html><title>A question</title><div id="{LAW.slug}"></div>'
            f'<script type="application/json" id="dt-exercises">{data}</script>'
            + "".join(f"<script>{script}</script>" for script in scripts)
        )
        contexts.append(browser.new_context())
        tab = contexts[-1].new_page()
        tab.set_default_timeout(PATIENCE_MS)
        tab.goto((tmp_path / "page.html").as_uri())
        tab.evaluate("globalThis.sent = 0; addEventListener('submit', () => sent++)")
        return tab.get_by_role("combobox", name="law")

    yield asks
    for context in contexts:
        context.close()


def pressed(choice, *keys, opens=False) -> tuple[str, int, str]:
    """These keys in the list, which then is open or not: its choice, how often it was sent, and
    what is said of it."""
    tab = choice.page
    for key in keys:
        choice.press(key)
        tab.wait_for_timeout(100)
    tab.wait_for_function(IS_SO, arg=[choice.element_handle(), opens])
    verdict = tab.locator("[role=status]").text_content()
    return choice.input_value(), tab.evaluate("sent"), verdict


@pytest.mark.parametrize("opening", ["Space", "Alt+ArrowDown"])
def test_in_a_list_enter_takes_what_is_marked_and_then_checks_it(asks, opening):
    choice = asks()
    assert pressed(choice, "Enter") == ("", 1, "law: there is nothing here yet")
    assert pressed(choice, opening, opens=True)[:2] == ("", 1)
    assert pressed(choice, "ArrowDown", "Enter")[:2] == ("associativity", 1)
    taken, sent, verdict = pressed(choice, "Enter")
    assert (taken, sent) == ("associativity", 2) and verdict.startswith("✓")


def test_enter_that_is_held_down_checks_once_and_opens_nothing(asks):
    choice = asks()
    choice.focus()
    for _ in range(4):  # all but the first are repeats
        choice.page.keyboard.down("Enter")
    assert pressed(choice)[:2] == ("", 1)


def test_sabotage_a_form_that_does_not_hear_the_key_opens_the_list_and_checks_nothing(asks):
    assert pressed(asks(HEARS), "Enter", opens=True) == ("", 0, "")
