"""Widgets on a page: fetched when the reader comes near, what they share once, with room kept."""

import json
import shutil
import sys
from pathlib import Path
from threading import Thread

import pytest
import quickjs
from bs4 import BeautifulSoup
from page_inspection import PHONE, start_browser

from book._tools.layout import ROOT, notebook_sources
from book._tools.serve import server
from dtlib.collectives import ring_all_reduce_time, tree_all_reduce_time
from dtlib.explore import Explorer, Fastest, bet, between
from dtlib.explore.kit import source
from dtlib.formulas.units import GB, KB, us

sys.path.append(str(ROOT / "book/_ext"))
import widgets as places

SITE = ROOT / "_build/html"
MOST_ROOM_MISSED = 24  # px: a line of text
PAIR = {"ring": ring_all_reduce_time, "tree": tree_all_reduce_time}
FAR = '<div style="height: 4000px">far away</div>'


def stored(widget) -> dict:
    """A widget's state as a notebook keeps it."""
    by_jupyter = {"_model_name": "AnyModel", "layout": "IPY_MODEL_0", "tooltip": None}
    return by_jupyter | {name: getattr(widget, name) for name in ("_esm", "_css", "spec")}


@pytest.fixture(scope="module")
def pair():
    """Two widgets of two kinds."""
    n, ranks = {"n": between(KB, GB, start=KB)}, {"P": between(2, 64, start=8)}
    link = {"alpha": between(us, 100 * us, start=2 * us), "beta": between(GB, 100 * GB, start=GB)}
    explorer = Explorer(PAIR, x=n, sliders=ranks | link, title="Ring or tree")
    return explorer, Fastest(PAIR, x=n, y=ranks, sliders=link, title="The map")


@pytest.fixture(scope="module")
def browser():
    yield from start_browser()


@pytest.fixture
def written(tmp_path, pair):
    """A small site: a page with two widgets, the second far down, and the first once more."""
    files = places.Files()
    explorer, fastest = (
        places.place(files, "room/page", stored(one), one.static().html) for one in pair
    )
    body = explorer + FAR + fastest + explorer
    for address, text in files.items():
        file = tmp_path / address
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for name in ("widgets.js", "widgets.css", "colours.css"):
        shutil.copy(ROOT / "book/_static" / name, tmp_path / "_static")
    links = '<link rel="stylesheet" href="../_static/colours.css">'
    links += '<link rel="stylesheet" href="../_static/widgets.css"><link rel="icon" href="data:,">'
    script = '<script defer src="../_static/widgets.js"></script>'
    html = f"<!doctype html><html><head>{links}{script}</head><body>{body}</body></html>"
    (tmp_path / "room/page.html").write_text(html)
    return tmp_path


@pytest.fixture
def visit(browser, written):
    """Open the small site's page in a tab that keeps what it asked for and what it said."""
    with server(str(written)) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        tab = browser.new_context().new_page()
        tab.asked, tab.said = [], []
        tab.on("request", lambda request: tab.asked.append(request.url.rsplit("/", 1)[1]))
        tab.on("console", lambda message: tab.said.append(message.text))

        def open_page():
            tab.goto(f"http://127.0.0.1:{running.server_port}/room/page.html")
            tab.wait_for_selector(".dt-place.is-live, .dt-stays")
            return tab

        yield tab, open_page
        tab.context.close()
        running.shutdown()


def started(tab, beginning: str) -> list[str]:
    return [name for name in tab.asked if name.startswith(beginning)]


def test_the_kit_s_names_are_those_that_its_scripts_declare():
    context = quickjs.Context()
    context.eval(source.kit_script())
    for name in places.shared_names():
        assert context.eval(f"typeof {name}") != "undefined", name


def test_the_kit_is_one_module_of_all_kinds(pair):
    files = places.Files()
    (kit, first), (same, second) = (files.script("kind", widget._esm) for widget in pair)
    assert kit == same != first != second
    assert len(files) == 3
    for own in (first, second):
        text = files[f"{places.FOLDER}/{own}"]
        assert "function frame(" not in text and f'from "./{kit}"' in text
    assert "function frame(" in files[f"{places.FOLDER}/{kit}"]


def test_a_script_of_another_kit_stays_whole(pair):
    files = places.Files()
    whole = pair[0]._esm.replace("const", "let", 1)
    assert len(files.script("explorer", whole)) == 1
    assert list(files.values()) == [whole]


def test_the_kit_s_sheet_is_one_of_all_kinds(pair):
    files = places.Files()
    kits = {files.sheets("kind", widget._css)[0] for widget in pair}
    assert len(kits) == 1
    assert files[f"{places.FOLDER}/{kits.pop()}"] == source.kit_sheet()


def test_a_place_names_what_its_widget_needs_and_keeps_its_room(pair):
    files = places.Files()
    html = places.place(files, "room/page", stored(pair[0]), pair[0].static().html)
    found = BeautifulSoup(html, "html.parser").div
    assert found["style"].startswith("--dt-wide: ") and "--dt-narrow: " in found["style"]
    assert not found.figure.get("style") and found.figure.svg
    names = found["data-modules"].split() + found["data-sheets"].split()
    assert all(f"{places.FOLDER}/{name}" in files for name in names)
    assert json.loads(files[f"room/{found['data-state']}"]) == {"spec": pair[0].spec}


def test_a_bet_can_be_linked_to_before_it_is_there(pair):
    wager = bet("12.1", "How long?", unit="ms", anchor=35.0)
    html = places.place(places.Files(), "room/page", stored(wager), wager.static().html)
    assert BeautifulSoup(html, "html.parser").div["id"] == "bet-12.1"
    other = places.place(places.Files(), "room/page", stored(pair[0]), "", 2)
    assert BeautifulSoup(other, "html.parser").div["id"] == "explorer-2"


def test_only_what_is_near_is_fetched_and_each_thing_once(visit):
    tab, open_page = visit
    open_page()
    assert started(tab, "explorer-") and not started(tab, "fastest-")
    tab.locator(".dt-place").nth(2).scroll_into_view_if_needed()
    tab.wait_for_selector("html[data-widgets=ready]")
    assert len(tab.asked) == len({*tab.asked})
    assert started(tab, "fastest-")
    assert tab.locator(".is-live .dt-widget").count() == 3
    assert tab.locator(".dt-static:visible").count() == 0
    assert tab.said == []


def test_a_link_brings_a_widget_as_it_stood(visit):
    tab, open_page = visit
    place = open_page().locator("#explorer-1")
    slider, link = place.get_by_role("slider").nth(0), place.get_by_role("button", name="Copy the")
    slider.press("End")
    moved = slider.get_attribute("aria-valuetext")
    link.click()
    address = tab.url
    assert "#explorer-1?" in address
    place.get_by_role("button", name="Reset").click()
    assert slider.get_attribute("aria-valuetext") != moved
    tab.goto("about:blank")
    tab.goto(address)
    tab.wait_for_function("document.querySelector('#explorer-1')?.classList.contains('is-live')")
    assert slider.get_attribute("aria-valuetext") == moved


@pytest.mark.parametrize("state", ["P=7.5", "P=%22x%22", "nobody=1", "P=1e", "P=[8]"])
def test_sabotage_an_address_asks_for_nothing_that_a_widget_does_not_have(visit, state):
    tab, open_page = visit
    sliders = open_page().locator("#explorer-1").get_by_role("slider")
    start = [one.get_attribute("aria-valuetext") for one in sliders.all()]
    tab.goto(f"{tab.url}#explorer-1?{state}")
    tab.wait_for_timeout(300)
    assert [one.get_attribute("aria-valuetext") for one in sliders.all()] == start
    assert tab.said == []


def test_what_does_not_come_leaves_the_figure_and_says_so(visit):
    tab, open_page = visit
    tab.route("**/explorer-*.js", lambda route: route.abort())
    open_page()
    first = tab.locator(".dt-place").first
    assert first.locator(".dt-static").is_visible()
    assert "did not come" in first.locator(".dt-stays").inner_text()
    assert first.locator(".dt-widget").count() == 0


def test_a_page_from_a_disk_says_how_its_figures_move(browser, written):
    tab = browser.new_context().new_page()
    tab.goto((written / "room/page.html").as_uri())
    first = tab.locator(".dt-place").first
    assert "http.server" in first.locator(".dt-stays").inner_text()
    assert first.locator(".dt-static").is_visible()
    tab.context.close()


def test_without_scripts_and_in_print_the_figures_stand(browser, visit, written):
    tab, open_page = visit
    open_page().emulate_media(media="print")
    assert tab.locator(".dt-static:visible").count() == 3
    assert tab.locator(".dt-widget:visible").count() == 0
    still = browser.new_context(java_script_enabled=False).new_page()
    still.goto((written / "room/page.html").as_uri())
    assert still.locator(".dt-static:visible").count() == 3
    still.context.close()


STATE, VIEW = (f"application/vnd.jupyter.widget-{kind}+json" for kind in ("state", "view"))


def shown_by(notebook: Path) -> list[dict]:
    """The specs of a notebook's widgets, in the order in which its cells show them."""
    whole = json.loads(notebook.read_text())
    states = whole["metadata"].get("widgets", {}).get(STATE, {}).get("state", {})
    outputs = [output for cell in whole["cells"] for output in cell.get("outputs", [])]
    views = [output["data"][VIEW] for output in outputs if VIEW in output.get("data", {})]
    return [states[view["model_id"]]["state"]["spec"] for view in views]


def page_of(source_file: Path) -> Path:
    return SITE / source_file.relative_to(ROOT).with_suffix(".html")


WITH_WIDGETS = [s for s in notebook_sources() if shown_by(s.with_suffix(".ipynb"))]


@pytest.mark.site
@pytest.mark.parametrize("text", WITH_WIDGETS, ids=lambda text: text.stem)
def test_a_page_s_places_have_the_data_of_the_notebook_and_the_page_has_none(text):
    page = page_of(text)
    soup = BeautifulSoup(page.read_text(), "html.parser")
    assert not soup.find("script", type=[STATE, VIEW])
    found = soup.find_all(class_="dt-place")
    data = [json.loads((page.parent / place["data-state"]).read_text())["spec"] for place in found]
    assert data == shown_by(text.with_suffix(".ipynb"))
    assert all(place.find(class_="dt-static") for place in found)
    for place in found:
        for name in (*place["data-modules"].split(), *place["data-sheets"].split()):
            assert (SITE / places.FOLDER / name).is_file()


@pytest.mark.site
def test_the_site_has_one_kit():
    for ending in ("js", "css"):
        assert len(list((SITE / places.FOLDER).glob(f"kit-*.{ending}"))) == 1


@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 900}, PHONE], ids=["desk", "phone"])
def test_a_widget_takes_the_room_that_was_kept(visit, viewport):
    tab, open_page = visit
    tab.set_viewport_size(viewport)
    open_page()
    tab.add_style_tag(content="body { max-width: 690px; margin: auto; padding: 0 16px }")
    first = tab.locator(".dt-place").first
    taken = first.locator(".dt-widget").evaluate("box => box.getBoundingClientRect().height")
    kept = "(place, name) => parseFloat(getComputedStyle(place).getPropertyValue(name))"
    room = first.evaluate(kept, "--dt-wide" if viewport["width"] > 600 else "--dt-narrow")
    assert taken <= room + MOST_ROOM_MISSED
