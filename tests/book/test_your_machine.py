"""A reader says what they have: numbers show theirs beside the book's, until they stop it."""

import json

import pytest
from page_inspection import axe_faults, start_browser
from playwright.sync_api import expect

pytestmark = pytest.mark.site
PAGE = "book/your-run.html"
SHARED = "?yours=rtx-4090~4~~ethernet-100~1"


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture
def tab(browser):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    yield context.new_page()
    context.close()


def theirs(tab):
    return tab.locator(".yours")


def test_a_choice_by_keys_shows_and_stays_until_it_is_undone(tab, home):
    tab.goto(home + PAGE)
    expect(theirs(tab)).to_have_count(0)
    button = tab.get_by_role("button", name="Say what you train")
    button.press("Enter")
    form = tab.get_by_role("dialog", name="Your machine")
    card = form.get_by_role("combobox", name="GPU", exact=True)
    card.focus()
    tab.keyboard.type("RTX 4090")
    expect(form.get_by_label("link between them")).to_have_value("pcie4-x16")
    form.get_by_label("GPUs in all").fill("1,024")
    form.get_by_label("GPUs in all").press("Tab")
    expect(form.get_by_role("status")).to_contain_text("8 × RTX 4090 on PCIe 4 x16")
    assert not axe_faults(tab)
    tab.keyboard.press("Escape")
    expect(button).to_be_focused()
    expect(tab.locator("[data-run-said]")).to_contain_text("Yours: Llama 3.1 8B")
    shown = theirs(tab).all_inner_texts()
    assert len(shown) > 10
    assert not axe_faults(tab)
    tab.reload()
    expect(theirs(tab)).to_have_count(len(shown))
    number = tab.locator("data[data-yours-said]").first
    number.focus()
    expect(tab.get_by_role("tooltip")).to_contain_text("with yours: ")
    button.click()
    form.get_by_role("button", name="Show the book's numbers only").click()
    expect(theirs(tab)).to_have_count(0)


def test_a_shared_address_shows_a_machine_and_keeps_nothing(tab, home):
    tab.goto(home + "chapters/1-foundations/02-the-roofline-with-a-network.html" + SHARED)
    expect(theirs(tab).first).to_be_visible()
    tab.goto(home + PAGE)
    tab.wait_for_load_state("networkidle")
    expect(theirs(tab)).to_have_count(0)


def test_what_is_no_number_is_refused_with_its_name(tab, home):
    tab.goto(home + PAGE)
    tab.get_by_role("button", name="Your machine").click()
    form = tab.get_by_role("dialog")
    form.get_by_label("GPUs in a machine").fill("many")
    form.get_by_label("GPUs in a machine").press("Tab")
    said = form.get_by_role("status")
    expect(said).to_have_text("GPUs in a machine: a number above 0, please, not 'many'.")
    form.get_by_label("or paste").fill("no report")
    expect(said).to_contain_text("That cannot be read")
    report = {"version": 1, "cores": 8, "gpus": [{"name": "T4", "entry": "t4"}]}
    form.get_by_label("or paste").fill(json.dumps(report))
    expect(form.get_by_role("combobox", name="GPU", exact=True)).to_have_value("t4")
    expect(said).to_contain_text("1 × T4")


def test_who_said_nothing_loads_nothing_of_it(tab, home):
    asked = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(home + PAGE, wait_until="networkidle")
    assert not [url for url in asked if "machine" in url or "roles" in url]
