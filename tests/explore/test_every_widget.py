"""What every widget promises its reader, whatever it shows."""

import json
import re
import time
from contextlib import ExitStack
from functools import cache

import pytest
from every_widget import EVERY, KEYS, made, name, solution
from page import host, opened, page

from dtlib.explore import BiasBalance
from dtlib.explore.kit.source import SEAM, kit_script, kit_sheet
from dtlib.explore.kit.still import still
from dtlib.explore.kit.widget import Widget

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
DESK = {"viewport": {"width": 1000, "height": 900}}
LINE = 22  # px of a line of text: by so much a place may be kept too high or too low

every_kind = pytest.mark.parametrize("kind", EVERY, ids=name)


def test_no_widget_of_the_kit_is_left_out():
    import dtlib.explore as explore

    kinds = {getattr(explore, one) for one in explore.__all__}
    assert {kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Widget)} == {
        *EVERY
    }


@every_kind
def test_it_is_the_same_on_every_build_and_says_what_it_is(kind):
    first, second = made(kind), made(kind)
    assert json.dumps(first.spec) == json.dumps(second.spec)
    assert first.static().html == second.static().html
    assert repr(first) == repr(second) == f"{name(kind)}('A {name(kind)} to look at')"


@every_kind
def test_its_script_and_sheet_are_the_kit_and_little_more(kind):
    widget = made(kind)
    for text, shared in ((widget._esm, kit_script()), (widget._css, kit_sheet())):
        assert text.startswith(shared + SEAM)
    own = widget._esm.removeprefix(kit_script() + SEAM)
    assert own.count("export default widget({") == 1
    assert not re.search(r"\bimport |\bdocument\b|https?:", own)


@every_kind
def test_the_page_and_python_name_the_same_numbers_in_every_state(kind):
    widget = made(kind)
    for change, drawn in shown(kind):
        names = drawn["names"]
        state = {one: names[one] for one in {**start(widget), **change}}  # with what it entails
        assert state | change == state
        expected = widget.names(**state)
        assert {one: names[one] for one in expected} == pytest.approx(expected, abs=1e-3), change


def test_sabotage_a_page_that_counts_otherwise_names_other_numbers():
    widget = made(BiasBalance)
    widget.spec = widget.spec | {"copies": widget.spec["copies"] + 100}
    with pytest.raises(AssertionError):
        assert still(widget)["names"]["busiest"] == pytest.approx(
            widget.names(**start(widget))["busiest"], abs=1e-3
        )


@every_kind
def test_whatever_state_it_is_in_a_drawing_has_no_number_that_is_none(kind):
    for change, drawn in shown(kind):
        drawing = "".join(drawn["figures"])
        assert not re.search(r"NaN|Infinity|undefined|null", drawing), change


def start(widget) -> dict:
    return {one["name"]: one["values"][one["index"]] for one in widget.spec["controls"]}


@cache
def shown(kind) -> list[tuple[dict, dict]]:
    """Every one of its states, and what is seen and named there, for two tests."""
    widget = made(kind)
    return [(change, still(widget, **change)) for change in states(kind)]


def states(kind) -> list[dict]:
    """The first state, that of the solution, and every value of one control or another."""
    controls = made(kind).spec["controls"]
    return [{}, solution(kind), *({one["name"]: v} for one in controls for v in one["values"])]


# In a browser: one page with all kinds for each way of looking, opened once.


LOOKS = {"phone": PHONE, "desk": DESK, "no motion": DESK | {"reduced_motion": "reduce"}}


@pytest.fixture(scope="module")
def everything(browser, tmp_path_factory):
    """`everything(look, theme)`: the tab in which all kinds are looked at in this way."""
    tabs = {}
    with ExitStack() as open_tabs:

        def tab(look, theme="light"):
            if (look, theme) not in tabs:
                folder, kinds = tmp_path_factory.mktemp("every"), map(made, EVERY)
                page = opened(browser, folder, *kinds, theme=theme, **LOOKS[look])
                tabs[look, theme] = open_tabs.enter_context(page)
            return tabs[look, theme]

        yield tab


def place_of(tab, kind):
    """Where a kind stands among all."""
    return tab.locator(".dt-place").nth([*EVERY].index(kind))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("device", ["phone", "desk"])
def test_nothing_shuts_a_reader_out_and_a_phone_shows_it_all(everything, theme, device):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    from page_inspection import AT_ONCE, COLOURS

    tab = everything(device, theme)
    options = AT_ONCE | (COLOURS if theme == "dark" else {})
    found = axe.run(tab, options=options).response["violations"]
    assert [(fault["id"], fault["nodes"][0]["target"]) for fault in found] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= tab.viewport_size["width"]
    assert "clip" not in tab.evaluate("getComputedStyle(document.body).overflowX")
    if device == "phone":
        heights = tab.locator(".dt-widget :is(label, button):visible").evaluate_all(
            "all => all.map((one) => one.getBoundingClientRect().height)"
        )
        assert min(heights) >= 40
    assert tab.faults == []


@pytest.mark.parametrize("device", ["phone", "desk"])
def test_a_widget_is_as_high_as_its_place_was_kept(everything, device):
    """Before a hand has touched one."""
    boxes = everything(device).locator(".dt-widget").all()
    for kind, box in zip(EVERY, boxes, strict=True):
        (_, first), *_ = shown(kind)
        kept = first["narrow" if device == "phone" else "wide"]
        assert box.bounding_box()["height"] == pytest.approx(kept, abs=2 * LINE), name(kind)


@every_kind
def test_keys_alone_do_its_task_and_reset_undoes_it(everything, kind):
    tab = everything("desk")
    place = place_of(tab, kind)
    for control in made(kind).spec["controls"]:
        if control["name"] in solution(kind):
            turn(place, control, solution(kind)[control["name"]])
    for button, key, times in KEYS.get(kind, ()):
        place.get_by_role("button", name=button, exact=True).focus()
        for _ in range(times):
            tab.keyboard.press(key)
    place.locator(".dt-task.is-met").wait_for()
    said = still(made(kind), **solution(kind))["said"]
    summary = place.locator(".dt-summary").element_handle()
    tab.wait_for_function("([box, said]) => box.textContent === said", arg=[summary, said])
    place.get_by_role("button", name="Reset").press("Enter")
    assert place.locator(".dt-task.is-met").count() == 0
    assert tab.faults == []


def turn(place, control, value) -> None:
    """Bring a control to this value with the keyboard."""
    role = {"slider": "slider", "grip": "slider", "choice": "radio", "toggle": "checkbox"}[
        control["kind"]
    ]
    words = control["label"]
    if role == "radio":
        place = place.get_by_role("group", name=words, exact=True)
        words = control["words"][control["values"].index(value)]
    node = place.get_by_role(role, name=words).first
    if role != "slider":
        node.press("Space")
        return
    node.press("Home")
    for _ in range(control["values"].index(value)):
        node.press("ArrowRight")


@every_kind
def test_who_prefers_no_motion_sees_none_and_can_play_all_the_same(everything, kind):
    tab = everything("no motion")
    place = place_of(tab, kind)
    play = place.get_by_role("button", name="Play")
    if play.count():
        scrub = place.locator(".dt-scrub")
        scrub.press("Home")
        play.press("Enter")
        tab.wait_for_function("scrub => +scrub.value > 0", arg=scrub.element_handle())
    assert tab.evaluate("document.getAnimations().length") == 0
    assert tab.faults == []


def kinds_that_show(tab, part: str) -> list[str]:
    places = zip(EVERY, tab.locator(".dt-place").all(), strict=True)
    return [name(kind) for kind, place in places if place.locator(part).first.is_visible()]


def test_on_paper_and_without_scripts_stands_its_figure(browser, everything, tmp_path):
    tab, all_kinds = everything("desk"), [*map(name, EVERY)]
    assert kinds_that_show(tab, ".dt-static") == []
    assert kinds_that_show(tab, ".dt-widget") == all_kinds
    tab.emulate_media(media="print")
    assert kinds_that_show(tab, ".dt-static svg") == all_kinds
    assert kinds_that_show(tab, ".dt-widget") == []
    tab.emulate_media(media="screen")
    (tmp_path / "page.html").write_text(page(*map(made, EVERY)), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False, **DESK)
    tab = context.new_page()
    tab.goto((tmp_path / "page.html").as_uri())
    assert kinds_that_show(tab, ".dt-static svg") == all_kinds
    context.close()


# Room that is kept before a widget comes.


SHIFTS = """
  globalThis.shift = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) globalThis.shift += entry.value;
  }).observe({ type: "layout-shift", buffered: true });
"""


def shift(browser, folder, html: str, **device) -> float:
    """How far a page moves when its widgets come after the first paint."""
    file = folder / "late.html"
    file.write_text(html.replace(host(), ""), encoding="utf-8")
    context = browser.new_context(**device)
    context.add_init_script(SHIFTS)
    tab = context.new_page()
    tab.goto(file.as_uri())
    time.sleep(0.5)
    tab.add_script_tag(content=host())
    tab.wait_for_selector("html[data-widgets=ready]")
    time.sleep(0.5)
    found = tab.evaluate("globalThis.shift")
    context.close()
    return found


@pytest.mark.parametrize("device", [PHONE, DESK], ids=["phone", "desk"])
def test_a_page_does_not_move_when_its_widgets_come(browser, tmp_path, device):
    assert shift(browser, tmp_path, page(*map(made, EVERY)), **device) <= 0.05


def test_sabotage_a_page_that_keeps_no_room_moves(browser, tmp_path):
    html = re.sub(r"--dt-(wide|narrow): \d+px", "", page(*map(made, EVERY)))
    assert shift(browser, tmp_path, html, **PHONE) > 0.05
