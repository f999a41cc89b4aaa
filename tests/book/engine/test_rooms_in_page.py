"""Rooms come into the page when they are opened: in Chromium, with what the site has."""

import json

import pytest
from opened_rooms import cells_of, opened
from page_inspection import start_browser

from book._engine.build import FOLDER
from book._tools.layout import ROOT, notebook_sources, select
from book.cells.in_page import told_by

pytestmark = pytest.mark.site

RUN = """async ([address, task]) => {
    const { Engine } = await import(address);
    window.engine ??= new Engine();
    return engine.run(task).then(({ text }) => text, ({ message }) => `failed: ${message}`);
}"""
KEPT = """() => caches.open("dtlib-python").then((store) => store.keys())
    .then((kept) => kept.some(({ url }) => url.includes("/memory-")))"""
STATES = "from dtlib.memory import model_state_bytes\nmodel_state_bytes(1e9, 1, 8)"
FACES = "import dtlib.memory, dtlib.collectives\n'model_state_bytes' in dir(dtlib.memory)"


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture
def tab(browser, home):
    """A page of a browser that has kept nothing, and the names of the packs that it asks for."""
    context = browser.new_context()
    tab = context.new_page()
    tab.asked = []
    context.on("request", lambda request: tab.asked.extend(pack_of(request.url)))
    tab.goto(f"{home}404.html")
    tab.engine = f"{home}_static/code/engine.js"
    yield tab
    context.close()


def pack_of(url: str) -> list[str]:
    file = url.rpartition("/")[2]
    return [file.rpartition("-")[0]] if file.endswith(".pack") else []


def run(tab, code: str, **task) -> str:
    return tab.evaluate(RUN, [tab.engine, {"code": code} | task])


def asked(tab) -> list[str]:
    """The packs since it was asked before."""
    found = sorted(tab.asked)
    tab.asked.clear()
    return found


def test_a_room_comes_when_a_module_of_it_is_imported_and_not_with_its_face(tab):
    assert run(tab, FACES) == "True" and asked(tab) == ["dtlib", "numpy", "python"]
    assert run(tab, STATES) == "5500000000.0" and asked(tab) == ["memory"]
    assert run(tab, STATES) == "5500000000.0" and asked(tab) == []


def test_what_was_opened_once_is_kept_and_comes_with_the_next_start(tab):
    # A busy machine tells of what a worker asked for after it has told what came of it.
    with tab.context.expect_event("request", lambda request: pack_of(request.url) == ["memory"]):
        run(tab, STATES)
    tab.wait_for_function(KEPT)
    tab.reload()
    asked(tab)
    assert run(tab, STATES) == "5500000000.0" and asked(tab) == []


def test_a_page_that_lacks_a_pack_says_which_and_goes_on_when_it_is_there(tab):
    run(tab, "kept = 1")
    tab.route("**/memory-*.pack", lambda route: route.fulfill(status=404))
    told = run(tab, STATES)
    (file,) = [one for one in listed() if one.startswith("memory-") and "exercises" not in one]
    assert told.startswith("failed: Python ended here") and f"{file}: 404" in told
    tab.unroute("**/memory-*.pack")
    assert run(tab, STATES) == "5500000000.0"


def listed() -> list[str]:
    folder = ROOT / "_build/html" / FOLDER
    rooms = json.loads((folder / "engine.json").read_text(encoding="utf-8"))["rooms"]
    return [one["file"] for one in rooms]


def test_all_of_a_chapter_opens_in_the_page_what_it_opens_in_a_bare_python(tab):
    (source,) = select(["26"], notebook_sources())
    told = told_by(tab, tab.engine, cells_of(source))["cells"]
    assert "elsewhere" not in {one["verdict"] for one in told}
    assert "waits" in run(tab, "", label="26.1", answer="...")
    assert set(asked(tab)) == opened(source) | {"dtlib", "numpy", "python"}
