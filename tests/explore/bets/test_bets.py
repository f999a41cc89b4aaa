"""A bet is empty before a touch, refuses what is none, and opens its answer; both on one line."""

import json
import math
import re

import pytest
from every_widget import made
from page import opened

from dtlib.explore import PipelineLab, Stepper, answer, bet
from dtlib.explore.kit.still import called, still

playwright = pytest.importorskip("playwright.sync_api")

KEPT = "localStorage.getItem('dtlib-bet:9.1')"
PHONE = {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True}
SPACE = "<p style='height: 1500px'>A page to scroll.</p>"
FIRST = "Before you read on: mark the line, or write a number from 100 µs to 100 s."


def pair():
    question = bet("9.1", "How long?", unit="ms", anchor=35.0, anchor_label="8 GPUs", high=100_000)
    return [question, answer("9.1", 40, unit="ms", conclusion="So much.")]


def share():
    question = bet("9.2", "Which share?", unit="%", low=1.0, high=100.0)
    return [question, answer("9.2", 0.27)]


@pytest.fixture
def tab(browser, tmp_path):
    with opened(browser, tmp_path, *pair()) as tab:
        yield tab


@pytest.fixture
def group(tab):
    return tab.locator(".dt-kind-bet")


def kept(tab) -> dict | None:
    return json.loads(tab.evaluate(KEPT) or "null")


def said(place) -> str:
    """The sentence of a widget, once it has changed to what it will be."""
    place.page.wait_for_timeout(300)
    return place.locator(".dt-summary").inner_text()


# Without a browser.


@pytest.mark.parametrize("value", [0.5, 20, 39, 40, 41, 70, 100_000])
def test_how_far_a_bet_is_off_is_what_python_says(value):
    _, truth = pair()
    state = {"value": value, "settled": "placed"}
    found = still(truth, **state)
    off = truth.names(**state)["off"]
    assert found["names"]["off"] == pytest.approx(off) == math.exp(abs(math.log(value / 40)))
    right = "right on the spot" in found["said"]
    assert right == (off < 1.05)
    assert right or float(re.search(r"a factor ([\d,.]+)\.", found["said"])[1].replace(",", ""))


@pytest.mark.parametrize(("value", "words"), [(50, "off by 23 points"), (28, "right on the spot")])
def test_of_a_share_the_difference_is_said(value, words):
    _, truth = share()
    state = {"value": value, "settled": "placed"}
    assert truth.spec["scale"] == "linear" and pair()[1].spec["scale"] == "log"
    assert f"it is 27 %, {words}." in still(truth, **state)["said"]
    assert still(truth, **state)["names"]["off"] == pytest.approx(truth.names(**state)["off"])


def test_sabotage_a_page_with_another_answer_is_off_by_something_else():
    _, truth = pair()
    expected = truth.names(value=70, settled="placed")["off"]
    truth.spec = truth.spec | {"answer": 30}
    found = still(truth, value=70, settled="placed")["names"]["off"]
    assert found != pytest.approx(expected)


def test_on_paper_stands_the_question_and_at_the_end_the_answer():
    question, truth = pair()
    assert "How long?" in question.static().html and FIRST in question.static().html
    assert "40 ms" not in question.static().html
    assert "It is 40 ms. So much." in truth.static().html
    assert "You said" not in truth.static().html and "waits" not in truth.static().html


@pytest.mark.parametrize("make", [pair, share])
@pytest.mark.parametrize("width", [320, 690])
def test_every_key_leads_to_another_value_of_the_line(make, width):
    spec = make()[0].spec
    script = make()[0]._esm.replace("export default ", "")
    value, seen = None, []
    for key in ["ArrowRight"] * 30 + ["PageDown", "PageUp", "ArrowLeft", "ArrowDown", "ArrowUp"]:
        keys = called(script, "keysOf(spec, value)", spec=spec, value=value)
        assert spec["low"] <= keys[key]["value"] <= spec["high"] and keys[key]["value"] != value
        value = keys[key]["value"]
        seen.append(value)
    assert seen[:30] == sorted(set(seen[:30]))
    assert keys["Home"] == {"value": spec["low"]} and keys["End"] == {"value": spec["high"]}


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        ("GB", "500 MB", 0.5),
        ("GB", "40 kB", 4e-5),
        ("GB", "2 T", 2000),
        ("ms", "70us", 0.07),
        ("ms", "2 min", 120_000),
        ("d", "270 days", 270),
        ("×", "4x", 4),
        ("times", "4 ×", 4),
        ("", "3k", 3000),
        ("", "1 million", 1e6),
        ("%", "50 percent", 50),
        ("GB", "5 s", None),
        ("", "5 GB", None),
        ("ms", "5 M", None),
    ],
)
def test_units_and_factors_that_a_unit_carries_are_understood(unit, text, value):
    question = bet("9.3", "How much?", unit=unit, low=1e-6, high=1e7)
    script = question._esm.replace("export default ", "")
    found = called(script, "readNumber(text, spec)", text=text, spec=question.spec)
    assert found == (value and pytest.approx(value))


@pytest.mark.parametrize("value", [-5, 0, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["anchor", "low", "high"])
def test_a_line_without_ends_is_refused_by_the_library(name, value):
    with pytest.raises(ValueError, match=f"bet '9.2': {name} .* is not a positive number"):
        bet("9.2", "How long?", unit="ms", **{"anchor": 3, "low": 1, "high": 10} | {name: value})


@pytest.mark.parametrize("make", [pair, share])
def test_both_are_the_same_on_every_build(make):
    for first, second in zip(make(), make(), strict=True):
        assert json.dumps(first.spec) == json.dumps(second.spec)
        assert first.static().html == second.static().html
        assert not re.search(r"NaN|Infinity|undefined|null", first.static().html)


# In a page.


def test_a_bet_starts_without_a_mark_and_cannot_be_placed(tab, group):
    slider = group.get_by_role("slider")
    assert slider.get_attribute("aria-valuetext") == "no bet yet"
    assert group.locator(".dt-bet-thumb").count() == 0
    assert group.get_by_role("textbox").input_value() == ""
    place = group.get_by_role("button", name="I bet")
    assert place.is_disabled()
    reason = tab.locator(f"#{place.get_attribute('aria-describedby')}")
    assert reason.inner_text() == FIRST
    slider.press("Enter")
    assert kept(tab) is None
    truth = tab.locator(".dt-kind-answer")
    assert "40 ms" not in truth.inner_text() and "You said" not in truth.inner_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("abc", "“abc” is not a number in ms. Write one from 100 µs to 100 s."),
        ("-5", "“-5” is not on the line, which goes from 100 µs to 100 s."),
        ("0", "“0” is not on the line, which goes from 100 µs to 100 s."),
        ("1e999", "“1e999” is not on the line, which goes from 100 µs to 100 s."),
        ("200 s", "“200 s” is not on the line, which goes from 100 µs to 100 s."),
        ("5 GB", "“5 GB” is not a number in ms. Write one from 100 µs to 100 s."),
        ("1.000,5", "“1.000,5” is not a number in ms. Write one from 100 µs to 100 s."),
        ("1 2", "“1 2” is not a number in ms. Write one from 100 µs to 100 s."),
        ("  ", "Write a number from 100 µs to 100 s first, or mark the line, or skip."),
    ],
)
def test_what_is_no_bet_is_refused_with_what_is_allowed_and_not_kept(tab, group, text, says):
    field = group.get_by_role("textbox")
    field.fill("70")
    field.fill(text)
    assert group.get_by_role("button", name="I bet").is_disabled()
    assert group.locator(".dt-bet-thumb").count() == 0
    field.press("Enter")
    assert group.get_by_role("alert").inner_text() == says
    assert field.get_attribute("aria-invalid") == "true"
    assert kept(tab) is None
    field.fill("70")
    field.press("Enter")
    assert kept(tab) == {"value": 70, "unit": "ms"} and "You bet 70 ms." in said(group)


@pytest.mark.parametrize(
    ("text", "value", "words"),
    [
        ("100,5", 100.5, "100.5 ms"),
        ("1,000", 1000, "1 s"),
        ("12,345.5 ms", 12345.5, "12.3455 s"),
        ("4 s", 4000, "4 s"),
        ("1e3", 1000, "1 s"),
        (".5", 0.5, "500 µs"),
    ],
)
def test_a_number_is_kept_and_shown_as_it_was_written(tab, group, text, value, words):
    group.get_by_role("textbox").fill(text)
    group.get_by_role("button", name="I bet").click()
    assert kept(tab)["value"] == pytest.approx(value, rel=1e-12)
    assert f"You bet {words}." in said(group)
    assert f"You said {words}, it is 40 ms, " in said(tab.locator(".dt-kind-answer"))


@pytest.mark.parametrize(("text", "holds"), [("70", "and"), ("100", "not")])
def test_who_says_how_sure_hears_whether_it_held(tab, group, text, holds):
    group.get_by_role("textbox").fill(text)
    group.get_by_role("combobox").select_option("2")
    group.get_by_role("button", name="I bet").click()
    assert kept(tab) == {"value": float(text), "unit": "ms", "sure": 2}
    assert f"You bet {text} ms, within a factor of 2. The answer" in said(group)
    heard = said(tab.locator(".dt-kind-answer"))
    assert f", {holds} within a factor of 2, as you believed. So much." in heard
    group.get_by_role("button", name="Erase my bet").click()
    assert kept(tab) is None and group.get_by_role("combobox").input_value() == ""


def opened_or_not(sure, wanted: bool) -> None:
    """Wait until the list is open, or not; who expects nothing to happen waits first."""
    sure.page.wait_for_timeout(100)
    is_so = "([list, wanted]) => list.matches(':open') === wanted"
    sure.page.wait_for_function(is_so, arg=[sure.element_handle(), wanted])


def test_enter_places_the_bet_from_the_list_too_and_the_list_still_opens(tab, group):
    sure = group.get_by_role("combobox")
    sure.press("Enter")
    opened_or_not(sure, False)
    assert group.get_by_role("alert").inner_text().startswith("Write a number from 100 µs to")
    group.get_by_role("textbox").fill("70")
    for opening, taken in (("Space", "2"), ("Alt+ArrowDown", "10")):
        sure.press(opening)
        opened_or_not(sure, True)
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("Enter")
        opened_or_not(sure, False)
        assert sure.input_value() == taken and kept(tab) is None
    sure.press("Enter")
    assert kept(tab) == {"value": 70, "unit": "ms", "sure": 10}


def test_sabotage_where_the_list_does_not_hear_it_enter_opens_it_and_places_nothing(tab, group):
    group.get_by_role("textbox").fill("70")
    tab.evaluate("addEventListener('keydown', (event) => event.stopPropagation(), true)")
    sure = group.get_by_role("combobox")
    sure.press("Enter")
    opened_or_not(sure, True)
    assert kept(tab) is None


def test_the_ends_of_a_line_are_said_in_words_for_people():
    said = still(bet("9.3", "How many days?", unit="d", low=0.01, high=1000))["said"]
    assert said == "Before you read on: mark the line, or write a number from 0.01 d to 1,000 d."


def test_keys_make_a_mark_move_it_and_place_it_and_then_it_stays(tab, group):
    slider = group.get_by_role("slider")
    slider.focus()
    seen = []
    for key in ("ArrowRight", "PageUp", "ArrowLeft", "Home", "End", "PageDown"):
        tab.keyboard.press(key)
        seen.append(slider.get_attribute("aria-valuetext"))
    assert len(set(seen)) == 6 and seen[3:5] == ["100 µs", "100 s"]
    tab.keyboard.press("Enter")
    placed = kept(tab)
    assert slider.get_attribute("aria-disabled") == "true"
    tab.keyboard.press("ArrowLeft")
    box = slider.bounding_box()
    tab.mouse.click(box["x"] + 60, box["y"] + box["height"] / 2)
    assert kept(tab) == placed
    assert slider.get_attribute("aria-valuetext") == seen[-1]


def test_the_answer_is_locked_until_the_bet_is_placed_or_skipped(tab, group):
    truth = tab.locator(".dt-kind-answer")
    assert said(truth) == "The answer waits until you have bet, or skipped."
    truth.get_by_role("link", name="Place your bet first").click()
    assert tab.evaluate("document.activeElement.getAttribute('role')") == "slider"
    tab.keyboard.press("ArrowRight")
    assert "40 ms" not in truth.inner_text()  # a mark that is not placed is no bet
    tab.keyboard.press("Enter")
    assert re.match(r"You said .*, it is 40 ms, off by a factor .*\. So much\.", said(truth))
    assert not truth.get_by_role("link").is_visible()
    group.get_by_role("button", name="Erase my bet").click()
    assert kept(tab) is None and "40 ms" not in truth.locator("svg").text_content()
    assert said(truth) == "The answer waits until you have bet, or skipped."
    assert group.get_by_role("slider").get_attribute("aria-valuetext") == "no bet yet"


@pytest.mark.parametrize("place", [".dt-kind-bet", ".dt-kind-answer"])
def test_who_skips_hears_the_answer_and_nothing_of_a_bet(tab, group, place):
    tab.locator(place).get_by_role("button", name="Skip").press("Enter")
    assert kept(tab) == {"skipped": True, "unit": "ms"}
    truth = tab.locator(".dt-kind-answer")
    assert said(truth) == "It is 40 ms. So much."
    assert "You" not in said(truth) and truth.locator(".dt-bet-thumb").count() == 0
    assert said(group) == "Skipped. The answer comes below."
    assert tab.evaluate("document.activeElement !== document.body")


def test_a_bet_that_was_made_before_is_there_again(tab, group):
    group.get_by_role("textbox").fill("70")
    group.get_by_role("textbox").press("Enter")
    tab.reload()
    tab.wait_for_selector("html[data-widgets=ready]")
    assert "You bet 70 ms." in said(group)
    assert "You said 70 ms, it is 40 ms, off by a factor 1.8." in said(
        tab.locator(".dt-kind-answer")
    )


def thumbs_from_ticks(browser, folder, style="p {}") -> list[float]:
    """How many pixels the thumb is from each tick, when the tick's own value is the bet."""
    around = [made(PipelineLab), *pair(), made(Stepper)]
    with opened(browser, folder, *around, viewport={"width": 1100, "height": 900}) as tab:
        tab.add_style_tag(content=style)
        group = tab.locator(".dt-kind-bet")
        middle = "all => all.map((x) => x.getBoundingClientRect()).map((r) => r.x + r.width / 2)"
        ticks = group.locator(".dt-bet-tick").evaluate_all(middle)
        found = []
        for power, tick in enumerate(ticks, -1):
            group.get_by_role("textbox").fill(str(10.0**power))
            (thumb,) = group.locator(".dt-bet-thumb").evaluate_all(middle)
            found.append(abs(thumb - tick))
        slider = group.get_by_role("slider").bounding_box()
        height = slider["y"] + slider["height"] - 42
        for power, tick in enumerate(ticks, -1):  # and a press there is a bet of that value
            tab.mouse.click(tick, height)
            assert float(group.get_by_role("textbox").input_value().replace(",", "")) == (
                pytest.approx(10.0**power, rel=0.06)
            )
        return found


def test_a_thumb_stands_on_its_tick_whatever_else_is_on_the_page(browser, tmp_path):
    found = thumbs_from_ticks(browser, tmp_path)
    assert len(found) == 7 and max(found) <= 1


def test_sabotage_the_measure_sees_a_thumb_beside_its_tick(browser, tmp_path):
    aside = ".dt-bet-thumb { transform: translateX(3px) }"
    assert max(thumbs_from_ticks(browser, tmp_path, aside)) > 1


def swept(browser, folder, placed, along, prepared=lambda widget: widget) -> tuple[str, str, float]:
    """A finger's way from the mark, or the line: its end, what is marked, how the page moved."""
    with opened(browser, folder, SPACE, *map(prepared, pair()), SPACE, **PHONE) as tab:
        group = tab.locator(".dt-kind-bet")
        group.evaluate("node => node.scrollIntoView({ block: 'center' })")
        if placed:
            group.get_by_role("textbox").fill(placed)
        tab.evaluate("""() => {
          for (const end of ["pointerup", "pointercancel"])
            addEventListener(end, () => { globalThis.end ??= end }, true);
        }""")
        slider, before = group.get_by_role("slider"), tab.evaluate("scrollY")
        target = group.locator(".dt-bet-thumb") if placed else slider
        box = target.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] * (0.5 if placed else 0.6)
        finger = tab.context.new_cdp_session(tab)
        for step in range(13):
            point = {"x": x + along[0] * step / 12, "y": y + along[1] * step / 12}
            kind = "touchMove" if step else "touchStart"
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
        finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        end = tab.wait_for_function("globalThis.end").json_value()
        tab.wait_for_timeout(100)
        words = slider.get_attribute("aria-valuetext")
        return end, words, abs(tab.evaluate("scrollY") - before)


def test_a_finger_takes_the_mark_along_and_not_the_page(browser, tmp_path):
    end, words, scrolled = swept(browser, tmp_path, "70", (60, 60))
    assert end == "pointerup" and words not in ("70 ms", "no bet yet") and scrolled == 0


def test_a_finger_that_scrolls_the_page_over_an_empty_line_leaves_no_mark(browser, tmp_path):
    end, words, scrolled = swept(browser, tmp_path, "", (0, -120))
    assert end == "pointercancel" and words == "no bet yet" and scrolled > 20


def test_sabotage_a_scroll_that_is_not_undone_leaves_a_mark(browser, tmp_path):
    def forgetful(widget):
        assert "undo();" in widget._esm
        widget._esm = widget._esm.replace("undo();", ";")
        return widget

    end, words, _ = swept(browser, tmp_path, "", (0, -120), forgetful)
    assert end == "pointercancel" and words != "no bet yet"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1000])
def test_nothing_shuts_a_reader_out(browser, tmp_path, theme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    size = {"viewport": {"width": width, "height": 900}, "has_touch": width == 390}
    with opened(browser, tmp_path, *pair(), *share(), theme=theme, **size) as tab:
        for placed in (False, True):
            if placed:
                tab.get_by_role("textbox").first.fill("70")
                tab.get_by_role("textbox").first.press("Enter")
                tab.get_by_role("textbox").last.fill("abc")
                tab.get_by_role("textbox").last.press("Enter")
            found = axe.run(tab).response["violations"]
            assert [(fault["id"], fault["nodes"][0]["target"]) for fault in found] == []
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert tab.evaluate("document.getAnimations().length") == 0
            edges = tab.locator(".dt-drawing text").evaluate_all(
                "all => all.map((x) => x.getBoundingClientRect()).flatMap((r) => [r.left, r.right])"
            )
            assert min(edges) >= 0 and max(edges) <= width


def test_a_bet_and_its_answer_are_as_high_as_their_place_was_kept(browser, tmp_path):
    for width, room in ((390, "narrow"), (1000, "wide")):
        size = {"viewport": {"width": width, "height": 900}, "has_touch": width == 390}
        with opened(browser, tmp_path, *pair(), **size) as tab:
            boxes = tab.locator(".dt-widget").all()
            for widget, box in zip(pair(), boxes, strict=True):
                kept_room = re.search(rf"--dt-{room}: (\d+)px", widget.static().html)[1]
                assert box.bounding_box()["height"] == pytest.approx(int(kept_room), abs=2 * 22)
