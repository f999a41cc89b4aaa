"""The curve that a reader draws: what may be asked, and a drawing in the browser, key by key."""

import pytest
from page import opened

from dtlib.collectives import ring_all_reduce_time
from dtlib.explore import Sketch, between
from dtlib.formulas.units import GB, format_quantity, us
from dtlib.parallelism import data_parallel_step_time, evenly_divided_time

playwright = pytest.importorskip("playwright.sync_api")
TITLE = "Draw the time of a step."
FIXED = {"compute": 100, "n": 10 * GB, "alpha": 10 * us, "beta": 50 * GB}


def sketch(**changes):
    arguments = {
        "x": {"P": between(1, 65536, start=1)},
        "at": [64, 4096],
        "fixed": FIXED,
        "title": TITLE,
        "y_range": (1e-3, 1e3),
        "guide": ("the work alone", evenly_divided_time),
        "labels": {"P": "GPUs"},
    }
    return Sketch("a-sketch", data_parallel_step_time, **arguments | changes)


def test_the_curve_is_the_formula_s_at_every_value_of_the_axis():
    spec = sketch().spec
    for P, height in zip(spec["x"]["values"], spec["curve"], strict=True):
        ring = ring_all_reduce_time(10 * GB, P, 10 * us, 50 * GB)
        assert height == pytest.approx(100 / P + ring, rel=1e-12)
    assert spec["truth"] == [spec["curve"][6], spec["curve"][12]]
    assert spec["given"] == 100


def test_the_static_figure_does_not_give_the_curve_away():
    figure = sketch().static().html
    assert "Empty axes" in figure
    assert format_quantity(sketch().spec["truth"][0], "s") not in figure


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"at": [64]}, "2 to 6 points to draw; got 1"),
        ({"at": [1, 64]}, "1 is not a value of P to draw at"),
        ({"at": [3, 64]}, "3 is not a value of P to draw at"),
        ({"y_range": (1, 1e3)}, "does not contain the curve"),
        ({"fixed": {"compute": 100}}, "needs 'n'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        sketch(**changes)


@pytest.fixture
def tab(browser, tmp_path):
    with opened(browser, tmp_path, sketch()) as tab:
        yield tab


def test_a_drawing_is_made_compared_kept_and_begun_again(tab):
    group = tab.get_by_role("group", name=TITLE, exact=True)
    summary = group.locator(".dt-summary")
    points = group.get_by_role("slider")
    assert points.count() == 2
    assert points.first.get_attribute("aria-valuetext") == "100 s"
    points.first.focus()
    tab.keyboard.press("ArrowDown")
    assert points.first.get_attribute("aria-valuetext") == "89 s"
    tab.keyboard.press("End")
    assert points.first.get_attribute("aria-valuetext") == "17 min"
    assert group.locator(".dt-curve").count() == 0

    group.get_by_role("button", name="Show what happens").click()
    truth = format_quantity(sketch().spec["truth"][0], "s")
    assert group.locator(".dt-curve").count() == 1
    playwright.expect(summary).to_contain_text(f"On 64 GPUs you drew 17 min; it is {truth}.")
    assert points.first.is_disabled()

    tab.reload()
    tab.wait_for_selector("html[data-widgets=ready]")
    playwright.expect(summary).to_contain_text(f"it is {truth}")
    group.get_by_role("button", name="Reset").click()
    assert group.locator(".dt-curve").count() == 0
    assert points.first.get_attribute("aria-valuetext") == "100 s"


def test_what_nobody_has_drawn_is_nobody_s_bet(tab):
    group = tab.get_by_role("group", name=TITLE, exact=True)
    kept = "localStorage.getItem('dtlib-bet:a-sketch')"
    group.get_by_role("button", name="Show what happens").click()
    assert "Draw first" in group.get_by_role("status").inner_text()
    assert group.locator(".dt-curve").count() == 0 and tab.evaluate(kept) is None

    group.get_by_role("button", name="Skip").click()
    assert group.locator(".dt-curve").count() == 1
    assert group.locator(".dt-drawn, .dt-gap, .dt-dot-mine").count() == 0
    truths = [format_quantity(value, "s") for value in sketch().spec["truth"]]
    said = f"It is {truths[0]} on 64 GPUs, {truths[1]} on 4,096 GPUs."
    playwright.expect(group.locator(".dt-summary")).to_contain_text(said)
    assert "you drew" not in group.inner_text()


def test_a_drawing_takes_the_question_for_one_away(tab):
    group = tab.get_by_role("group", name=TITLE, exact=True)
    group.get_by_role("button", name="Show what happens").click()
    group.get_by_role("slider").first.press("ArrowDown")
    assert group.get_by_role("status").inner_text() == ""
    group.get_by_role("button", name="Show what happens").click()
    playwright.expect(group.locator(".dt-summary")).to_contain_text("you drew")


def test_a_sweep_of_the_pointer_sets_every_point_that_it_passes(tab):
    group = tab.get_by_role("group", name=TITLE, exact=True)
    box = group.locator("svg.dt-plot").bounding_box()
    level = box["y"] + box["height"] / 2
    tab.mouse.move(box["x"] + 80, level)
    tab.mouse.down()
    tab.mouse.move(box["x"] + box["width"] - 40, level)
    tab.mouse.up()
    said = [group.get_by_role("slider").nth(i).get_attribute("aria-valuetext") for i in range(2)]
    assert said[0] == said[1] != "100 s"
