"""A code cell of the page runs after what it needs, once, and is changed where it stands."""

import pytest
from code_tab import PAGE, with_double
from page_inspection import PHONE, axe_faults

pytestmark = pytest.mark.site
NEEDY = """() => {
  const cells = JSON.parse(document.getElementById("dt-cells").textContent);
  const shown = [...document.querySelectorAll("[data-cell]:has(> .cell_input button.dt-run)")];
  const place = shown.find((one) => cells[one.dataset.cell].needs.length > 1
    && one.querySelector(":scope > .cell_output"));
  return [place.dataset.cell, cells[place.dataset.cell].needs.length];
}"""


def opened(tab):
    """A cell that needs others, after its first run; and how many it needs."""
    name, needs = tab.evaluate(NEEDY)
    place = tab.locator(f'[data-cell="{name}"]')
    place.hover()
    place.get_by_role("button", name="Run").click()
    has_run(tab, needs + 1)
    return place, needs


def has_run(tab, count):
    tab.wait_for_function(f"globalThis.asked?.length === {count}")
    tab.locator(".dt-bench button:enabled", has_text="Run").first.wait_for()


def test_what_a_cell_needs_runs_before_it_once_and_again_after_a_stop(tab):
    place, needs = opened(tab)
    assert tab.evaluate("asked.at(-1).code") == place.get_by_role("textbox").input_value()
    place.get_by_role("button", name="Run").click()
    has_run(tab, needs + 2)
    place.get_by_role("textbox").fill("while True: pass")
    place.get_by_role("button", name="Run").click()
    place.get_by_role("button", name="Stop").click()
    place.get_by_role("status").filter(has_text="Stopped").wait_for()
    place.get_by_role("textbox").fill("6 * 7")
    place.get_by_role("textbox").press("Control+Enter")
    has_run(tab, 2 * needs + 4)


def test_yours_stands_below_what_is_printed_and_reset_gives_the_page_back(tab):
    place, _ = opened(tab)
    place.get_by_role("textbox").fill("6 * 7")
    place.get_by_role("textbox").press("Shift+Enter")
    place.get_by_role("group", name="Output of").get_by_text("42").wait_for()
    assert place.locator(".dt-whose").all_inner_texts() == ["as printed in the book", "yours"]
    tab.reload()
    place.scroll_into_view_if_needed()
    place.get_by_role("textbox").wait_for()
    assert place.get_by_role("textbox").input_value() == "6 * 7"
    place.get_by_role("button", name="Reset").click()
    assert place.locator(".cell_input").is_visible() and not place.locator(".dt-whose").count()
    assert tab.evaluate("dtKept.names().filter((name) => name.startsWith('dtlib-code'))") == []


def test_who_leaves_for_another_way_to_run_it_finds_the_way_back(tab):
    exercise = tab.locator("#ex-repair-the-ring")
    exercise.get_by_role("link", name="other ways to run it").click()
    back = tab.locator("#take-along").get_by_role("link", name="Back to exercise 12.6")
    assert back.count() == 1 and tab.url.endswith("#take-along")
    back.click()
    assert tab.url.endswith("#ex-repair-the-ring")


def test_a_cell_in_work_fits_a_phone_and_axe_finds_nothing(browser, home):
    context = browser.new_context(viewport=PHONE)
    tab = with_double(context.new_page())
    tab.goto(home + PAGE)
    opened(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert axe_faults(tab) == []
    context.close()


def test_without_a_script_nothing_offers_to_run(browser, home):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(home + PAGE)
    assert tab.locator(".dt-run, .dt-bench").count() == 0
    assert tab.locator("#ex-repair-the-ring .stub").is_visible()
    context.close()
