"""A worksheet computes in the page what its sheet computes, and refuses what would mislead."""

import random
import re

import pytest
from every_widget import EVERY, made
from page import opened
from scripts import Scripts

from dtlib import estimate
from dtlib.explore import Task, Worksheet, between
from dtlib.explore.kit.still import still
from dtlib.formulas.sheet import Sheet, line
from dtlib.formulas.units import readable
from dtlib.foundations import Cluster, catalog, published_models, training_flops

SHEET = EVERY[Worksheet]["sheet"]
START = {"params": 30e9, "dp": 64, "zero": 3}
DESK = {"viewport": {"width": 1440, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}


def states(worksheet, count: int) -> list[dict]:
    """States with a value of every input, the same ones in every run."""
    draw = random.Random(0)
    controls = worksheet.spec["controls"]
    return [{one["name"]: draw.choice(one["values"]) for one in controls} for _ in range(count)]


def differences(worksheet, sheet: Sheet, count: int) -> set[str]:
    """The names that the page gives another value than the sheet."""
    found = set()
    for state in states(worksheet, count):
        there = still(worksheet, **state)["names"]
        expected = sheet.values_at(**state).items()
        found |= {key for key, value in expected if there[key] != pytest.approx(value, rel=1e-12)}
    return found


def test_the_page_computes_what_the_sheet_computes():
    assert differences(made(Worksheet), SHEET, 20) == set()


def test_sabotage_a_line_that_is_fed_by_another_quantity_has_another_value():
    worksheet = made(Worksheet)
    fed = [one | {"feeds": ["zero", "dp", "dp"]} if one["key"] == "state" else one
           for one in worksheet.spec["lines"]]  # fmt: skip
    worksheet.spec = worksheet.spec | {"lines": fed}
    assert differences(worksheet, SHEET, 5) == {"state", "memory"}


def test_an_estimate_is_a_sheet_and_runs_in_the_page():
    run = estimate(published_models["llama-3.1-8b"], Cluster(catalog["dgx-h100"], 8), batch=512,
                   seq=8192, tp=2, pp=2, zero=1, recompute="selective", tokens=15e12)  # fmt: skip
    inputs = {"gathered_time": between(0.01, 1, start=0.1)}
    assert differences(Worksheet(run, inputs, title="Llama"), run, 3) == set()


def test_the_page_reads_quantities_as_the_library_does():
    scripts, draw = Scripts("../drawing/quantities.js"), random.Random(1)
    for unit in ("", "s", "B", "FLOP"):
        for _ in range(100):
            value = 10 ** draw.uniform(-3, 16)
            assert scripts("readable(value, unit)", value=value, unit=unit) == readable(value, unit)


def segments(figure: str) -> list[float]:
    """The widths of all segments of the bars."""
    return [float(wide) for wide in re.findall(r'height="24" x="[\d.]+" width="([\d.]+)"', figure)]


def shares(values) -> list[float]:
    """Each part of the two totals as a share of its whole bar."""
    longest = {"step": max(values["step"], SHEET.values_at(**START)["step"]),
               "memory": max(values["memory"], 1.5 * values["hbm"])}  # fmt: skip
    return [values[part] / longest[key] for key in longest for part in SHEET.lines[key].parts]


@pytest.mark.parametrize("change", [{}, {"dp": 1}, {"zero": 1, "params": 1e9}])
def test_a_segment_is_as_wide_as_its_part_of_the_limit(change):
    [figure] = still(made(Worksheet), **change)["figures"]
    values = SHEET.values_at(**START | change)
    assert segments(figure) == pytest.approx([690 * share for share in shares(values)], abs=0.02)
    over = values["memory"] > values["hbm"]
    assert ("too much for 80 GB (memory of one GPU)" in figure) == over


def test_sabotage_bars_of_another_state_are_as_wide_as_theirs():
    [figure] = still(made(Worksheet), dp=1)["figures"]
    assert segments(figure) != pytest.approx(
        [690 * share for share in shares(SHEET.values_at(**START))], abs=0.02
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"task": Task("", "memory < hbm", {})}, "met already at the start"),
        ({"task": Task("", "memory > 9 * hbm", {"dp": 512})}, "not met by its solution"),
        ({"task": Task("", "memory > hbm", {"P": 8})}, "'P' is no input; inputs are params, dp"),
        ({"task": Task("", "memory > hbm", {"dp": 3})}, "dp: 3, but must be one of 1, 2"),
        ({"task": Task("", "ram > hbm", {})}, "no 'ram'"),
        ({"open_": ["ram"]}, "no line 'ram'"),
        ({"open_": ["state", "run"]}, "open_: at most 1; got 2"),
        ({"hidden": ["hbm"]}, "no line 'hbm'"),
        ({"hidden": ["step", "memory"]}, "no total to show"),
        ({"inputs": {"step": between(1, 8, start=1)}}, "'step' is not given"),
        ({"sheet": Sheet({"dp": 1.0, "params": 1e9, "tokens": 1e9}, {"work": training_flops}),
          "inputs": {"dp": between(1, 8, start=1)}, "open_": []}, "'dp' moves nothing"),
    ],
)  # fmt: skip
def test_a_worksheet_names_what_is_wrong(options, says):
    with pytest.raises(ValueError, match=says):
        made(Worksheet, **options)


def test_what_is_hidden_has_neither_a_bar_nor_a_row():
    shown = made(Worksheet, hidden=["memory", "run"])
    assert (shown.spec["bars"], shown.spec["results"]) == (["step"], [])
    assert "memory" not in still(shown)["figures"][0]


def test_a_line_that_no_other_needs_is_a_result():
    sheet = Sheet(SHEET.given, SHEET.lines | {"more": line(training_flops, tokens="tokens")})
    assert made(Worksheet, sheet=sheet).spec["results"] == ["run", "more"]


@pytest.fixture
def tab(browser, tmp_path):
    with opened(browser, tmp_path, made(Worksheet), **DESK) as tab:
        yield tab


PARTS = ("arithmetic", "gradients", "state", "run")


def said(tab) -> list[str]:
    """What the rows that can be pressed say."""
    buttons = tab.locator(".dt-drawing [role=button]")
    return [one.get_attribute("aria-label") for one in buttons.all()]


def shown(tab, **change) -> bool:
    """Whether each row says the sheet's value."""
    values = SHEET.values_at(**START | change)
    expected = [f", {readable(values[part], SHEET.unit(part))}" for part in PARTS]
    return all(value in row for row, value in zip(said(tab), expected, strict=True))


def test_a_slider_moves_every_part_to_the_sheet_s_value(tab):
    assert shown(tab)
    tab.get_by_role("slider", name="replicas").press("ArrowRight")
    assert shown(tab, dp=128) and not shown(tab)
    tab.get_by_role("button", name="Reset").click()
    assert shown(tab)


def test_arrows_walk_the_parts_and_one_line_is_open_with_its_numbers(tab):
    line = tab.locator(".dt-opened")
    shown = line.locator(".dt-number").all_text_contents()
    assert [number.replace("\u202f", " ") for number in shown] == ["30 billion", "64"] * 3
    tab.get_by_role("button", name="weights, gradients").focus()
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("Enter")
    assert line.get_attribute("aria-label") == "gradients" and line.count() == 1
    pressed = tab.locator("[aria-pressed=true]")
    assert pressed.count() == 1 and pressed.evaluate("one => one === document.activeElement")
    tab.keyboard.press("Enter")
    assert line.count() == 0


def test_a_line_leads_on_to_what_feeds_it(tab):
    tab.get_by_role("button", name="arithmetic").click()
    tab.get_by_role("button", name="work", exact=True).press("Enter")
    line = tab.locator(".dt-opened")
    assert line.get_attribute("aria-label") == "work"
    assert line.evaluate("one => one === document.activeElement")
    assert readable(SHEET.values_at(**START)["work"], "FLOP") in line.inner_text()


def test_a_press_on_a_segment_opens_its_line(tab):
    segment = tab.locator(".dt-drawing > rect").first
    segment.click(position={"x": 20, "y": 10})
    assert tab.locator(".dt-opened").get_attribute("aria-label") == "arithmetic"


STOP = """() => {
  const inside = [...document.querySelectorAll(".dt-widget *")];
  return inside.indexOf(document.activeElement);
}"""


def test_few_stops_lead_through_it_by_tab(tab):
    stops = set()
    for _ in range(20):
        tab.keyboard.press("Tab")
        stops.add(tab.evaluate(STOP))
    assert 5 <= len(stops - {-1}) <= 8


def test_what_a_slider_changes_blinks_and_nothing_else_does(tab):
    blinking = tab.locator(".dt-blink")
    assert blinking.count() == 0
    tab.get_by_role("slider", name="ZeRO stage").press("ArrowLeft")
    assert blinking.count() == 2  # a segment, and the value in its row
    tab.get_by_role("button", name="arithmetic").click()
    assert blinking.count() == 0


@pytest.mark.parametrize("motion, seen", [("no-preference", "dt-blink"), ("reduce", "none")])
def test_who_prefers_no_motion_sees_no_blinking(browser, tmp_path, motion, seen):
    with opened(browser, tmp_path, made(Worksheet), reduced_motion=motion, **DESK) as tab:
        tab.get_by_role("slider", name="ZeRO stage").press("ArrowLeft")
        look = "one => getComputedStyle(one).animationName"
        assert tab.locator(".dt-blink").first.evaluate(look) == seen


@pytest.mark.parametrize("device", [DESK, PHONE], ids=["desk", "phone"])
def test_the_bars_are_seen_while_a_slider_moves(browser, tmp_path, device):
    with opened(browser, tmp_path, made(Worksheet), **device) as tab:
        slider = tab.get_by_role("slider", name="ZeRO stage")
        slider.scroll_into_view_if_needed()
        slider.press("ArrowLeft")
        figure, touched = tab.locator(".dt-drawing").bounding_box(), slider.bounding_box()
        assert figure["y"] >= 0 and touched["y"] + touched["height"] <= tab.viewport_size["height"]
        if device is PHONE:
            assert touched["y"] >= figure["y"] + figure["height"]
        else:
            assert tab.locator(".dt-widget").bounding_box()["height"] <= 900
