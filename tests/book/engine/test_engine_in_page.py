"""Python in the page, in Chromium: verdicts, a stop, prints without end."""

import json
from functools import partial

import pytest
from page_inspection import start_browser

from book._engine.build import FOLDER
from book._tools.layout import ROOT

pytestmark = pytest.mark.site

START = """async (address) => {
    const { Engine } = await import(address);
    window.engine = new Engine();
    window.said = [];
    engine.addEventListener("change", ({ detail }) => said.push(detail));
}"""
# A loop that the page stops after a while, and what the page then knows.
STOPPED = """async () => {
    const run = engine.run({ code: "while True:\\n    pass" }).catch((error) => error.message);
    await new Promise((wait) => setTimeout(wait, 200));
    engine.interrupt();
    return [await run, engine.state];
}"""

KEPT = """caches.open("dtlib-python").then((store) => store.keys())
    .then((kept) => kept.map(({ url }) => url.split("/").pop()))"""


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture(scope="module")
def page(browser, home):
    assert (ROOT / "_build/html" / FOLDER / "engine.json").exists(), "the site has no Python"
    tab = browser.new_page()
    tab.requests = []
    tab.on("request", lambda request: tab.requests.append(request.url))
    tab.goto(f"{home}404.html")
    tab.evaluate(START, f"{home}_static/code/engine.js")
    tab.before_the_click = list(tab.requests)
    return tab


@pytest.fixture
def run(page):
    return partial(page.evaluate, "(task) => engine.run(task)")


def test_nothing_is_fetched_before_it_is_asked_for(page):
    assert not [url for url in page.before_the_click if "/python/" in url]


@pytest.mark.parametrize(
    "last, verdict, said",
    [
        ("[26, 25, 24, 27]", "Passed", ""),
        ("[25, 24, 27, 26]", "NotYet", "who passes the last chunk on"),
    ],
)
def test_an_exercise_is_judged_by_the_books_own_check(run, last, verdict, said):
    code = f"sent, owned = {last}, [28, 32, 36, 40]"
    judged = run({"code": code, "label": "12.1", "answer": "(sent, owned)"})
    assert judged["verdict"] == verdict and said in judged["text"]


def test_names_last_until_the_engine_is_stopped(page, run):
    run({"code": "kept = 6"})
    assert run({"code": "kept * 7"})["text"] == "42"
    assert page.evaluate(STOPPED) == ["stopped", "off"]
    assert "NameError" in run({"code": "kept"})["text"]


def test_prints_without_end_are_cut_and_the_page_goes_on(page, run):
    page.evaluate("said.length = 0")
    run({"code": "for i in range(400_000):\n    print(i)"})
    told = page.evaluate("said.filter((one) => one.out).map((one) => one.out)")
    assert sum(map(len, told)) < 250_000 and len(told) < 2_000
    assert "not shown" in told[-1]
    assert run({"code": "6 * 7"})["text"] == "42"


def test_what_the_browser_keeps_is_what_the_site_has(page):
    listed = json.loads((ROOT / "_build/html" / FOLDER / "engine.json").read_text())
    kept = page.evaluate(KEPT)
    packs, rooms = ([one["file"] for one in listed[kind]] for kind in ("packs", "rooms"))
    assert {*packs} < {*kept} <= {*packs, *rooms}
