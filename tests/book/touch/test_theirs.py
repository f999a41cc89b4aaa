"""A widget on the reader's machine: what was the book's own figure is theirs, and nothing else."""

import json

import pytest
import quickjs
from page_inspection import axe_faults, open_page, start_browser
from playwright.sync_api import expect

from book._ext.yours import machines
from book._tools.layout import ROOT
from dtlib.explore import Explorer, Task, ZeroStages
from dtlib.machines.alpha_beta import message_time
from dtlib.machines.hardware import catalog

CHAPTER = "chapters/1-foundations/04-the-alpha-beta-model.html"
DESK = {"gpu": "rtx-4090", "gpus": "4", "port": "ethernet-100", "ports": "1", "host": "pcie4-x16"}
SHARED = "?yours=rtx-4090~4~~ethernet-100~1"
PORT, MINE = catalog["ib-ndr400"], catalog["ethernet-100"]


@pytest.fixture(scope="module")
def script():
    context = quickjs.Context()
    text = (ROOT / "book/_static/reader/roles.js").read_text("utf-8")
    context.eval(text.replace("export ", ""))
    context.eval(f"const known = {json.dumps(machines())}")
    return context


def on_machine(script, spec: dict, chosen: dict = DESK) -> dict | None:
    """What a widget becomes on a machine of these choices."""
    roles = "rolesOf(completed(%s, known), known)"
    book, theirs = roles % "{}", roles % json.dumps(chosen)
    return json.loads(
        script.eval(f"JSON.stringify(onMachine({json.dumps(spec)}, {book}, {theirs}))")
    )


def explorer(alpha: float, beta: float = PORT.beta) -> dict:
    """A widget's spec whose slider starts at `alpha`, with a fixed `beta`."""
    task = Task("Be slow", "one > 1", {"n": 10**12})
    return Explorer({"one": message_time}, {"n": (1, 10**12, 10**6)}, {"alpha": [alpha, 1, 2]},
                    fixed={"beta": beta}, title="Toy", task=task).spec  # fmt: skip


def test_the_book_s_figures_become_theirs_and_the_task_steps_aside(script):
    spec = explorer(PORT.alpha)
    found = on_machine(script, spec)
    assert found["spec"]["fixed"] == [["beta", MINE.beta]]
    _, alpha = found["spec"]["controls"]
    assert alpha["values"][alpha["index"]] == MINE.alpha
    assert set(alpha["values"]) == {MINE.alpha, PORT.alpha, 1, 2}
    assert found["spec"]["task"] is None
    assert found["spec"]["controls"][0] == spec["controls"][0]
    assert {one["name"]: one["book"] for one in found["differs"]} == {
        "beta": "50 GB/s",
        "alpha": "2 µs",
    }


def test_a_value_that_is_no_figure_of_the_book_s_machine_stays(script):
    found = on_machine(script, explorer(PORT.alpha * 1.01))
    assert [one["name"] for one in found["differs"]] == ["beta"]
    assert on_machine(script, explorer(PORT.alpha * 1.01, PORT.beta - 1)) is None


def test_on_the_book_s_own_machine_nothing_differs_and_a_table_is_left_alone(script):
    assert on_machine(script, explorer(PORT.alpha), {}) is None
    assert on_machine(script, ZeroStages(title="Toy").spec) is None
    spec = explorer(PORT.alpha)
    assert on_machine(script, spec | {"gpus": [{"peak": 1}]}) is None


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.mark.site
def test_a_button_below_a_widget_shows_it_on_theirs_and_back(browser, home):
    page = browser.new_page()
    open_page(page, home + CHAPTER + SHARED)
    line = page.locator(".dt-theirs").first
    place = page.locator(".dt-place", has=line).first
    expect(line.get_by_role("status")).to_be_empty()
    before = place.locator(".dt-readout").inner_text()
    line.get_by_role("button", name="Show it on yours").press("Enter")
    expect(line.get_by_role("status")).to_contain_text("Yours, 4 × RTX 4090")
    expect(line.get_by_role("status")).to_contain_text("The book's: ")
    assert place.locator(".dt-readout").inner_text() != before
    assert not axe_faults(page)
    line.get_by_role("button", name="Show it on the book's machine").press("Enter")
    expect(line.get_by_role("status")).to_be_empty()
    assert place.locator(".dt-readout").inner_text() == before
    page.close()


@pytest.mark.site
def test_who_said_nothing_is_offered_nothing(browser, home):
    page = browser.new_page()
    open_page(page, home + CHAPTER)
    assert not page.locator(".dt-theirs").count()
    page.close()
