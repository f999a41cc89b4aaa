"""The curve that a reader draws: what may be asked, and a drawing in the browser, key by key."""

import pytest
from page import opened

from dtlib.collectives import ring_all_reduce_time
from dtlib.explore import Sketch, between
from dtlib.explore.kit.still import still
from dtlib.formulas.units import GB, format_quantity, us
from dtlib.parallelism import data_parallel_step_time, evenly_divided_time

playwright = pytest.importorskip("playwright.sync_api")
TITLE = "Draw the time of a step."
FIXED = {"compute": 100, "n": 10 * GB, "alpha": 10 * us, "beta": 50 * GB}
SHOW = "Show what happens"


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


def truths(widget) -> list[float]:
    return [point["truth"] for point in widget.spec["points"]]


def test_the_curve_is_the_formula_s_at_every_value_of_the_axis():
    spec = sketch().spec
    for P, height in zip(spec["x"]["values"], spec["curve"], strict=True):
        ring = ring_all_reduce_time(10 * GB, P, 10 * us, 50 * GB)
        assert height == pytest.approx(100 / P + ring, rel=1e-12)
    assert truths(sketch()) == [spec["curve"][6], spec["curve"][12]]
    assert spec["given"] == 100


def told(widget, **state) -> str:
    """All that a state shows and says."""
    seen = still(widget, **state)
    return seen["said"] + "".join(seen["figures"])


def test_before_the_reveal_nothing_gives_the_curve_away():
    found = [format_quantity(value, "s") for value in truths(sketch())]
    for state in ({}, {"point_0": 1}):
        before = told(sketch(), **state)
        assert "dt-curve" not in before and not any(f">{truth}<" in before for truth in found)
    after = told(sketch(), point_0=1, stage="happens")  # sabotage
    assert "dt-curve" in after and any(f">{truth}<" in after for truth in found)


def test_the_start_is_an_empty_plot_with_its_one_given_point():
    start = told(sketch())
    assert start.count(">100 s<") == 2  # the axis and the dot
    assert "Draw it here" in start and "dt-drawn" not in start
    assert "dt-drawn" in told(sketch(), point_0=1) and "Draw it here" not in told(
        sketch(), point_0=1
    )


@pytest.mark.parametrize(
    ("drawn", "truth", "says"),
    [
        ({"point_0": 100}, 0, "On 64 GPUs you drew 100 s; it is {}. That is 51 times less."),
        (
            {"point_1": 0.1},
            1,
            "On 4,096 GPUs you drew 100 ms; it is {}. That is 5.1 times as much.",
        ),
        ({"point_0": 2.0}, 0, "On 64 GPUs you drew 2 s; it is {}. You had it."),
    ],
)
def test_only_what_was_drawn_is_compared(drawn, truth, says):
    said = still(sketch(), **drawn, stage="happens")["said"]
    assert said == says.format(format_quantity(truths(sketch())[truth], "s"))


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


@pytest.fixture
def group(tab):
    return tab.get_by_role("group", name=TITLE, exact=True)


KEPT = "localStorage.getItem('dtlib-bet:a-sketch')"


def test_a_drawing_is_made_compared_kept_and_begun_again(tab, group):
    summary, points = group.locator(".dt-summary"), group.get_by_role("slider")
    assert points.count() == 2
    assert points.first.get_attribute("aria-valuetext") == "not drawn"
    points.first.press("ArrowDown")
    assert points.first.get_attribute("aria-valuetext") == "17 min"
    assert points.first.evaluate("node => node === document.activeElement")
    assert group.locator(".dt-curve").count() == 0

    group.get_by_role("button", name=SHOW).press("Enter")
    truth = format_quantity(truths(sketch())[0], "s")
    assert group.locator(".dt-curve").count() == 1
    playwright.expect(summary).to_contain_text(f"On 64 GPUs you drew 17 min; it is {truth}.")
    assert points.count() == 0

    tab.reload()
    tab.wait_for_selector("html[data-widgets=ready]")
    playwright.expect(summary).to_contain_text(f"it is {truth}")
    group.get_by_role("button", name="Draw again").click()
    assert group.locator(".dt-curve, .dt-drawn").count() == 0
    assert points.first.get_attribute("aria-valuetext") == "not drawn"
    assert tab.evaluate(KEPT) is None


def test_what_nobody_has_drawn_is_nobody_s_bet(tab, group):
    assert group.get_by_role("button", name=SHOW).is_disabled()
    assert "Draw first, or skip." in group.inner_text()
    assert tab.evaluate(KEPT) is None

    group.get_by_role("button", name="Skip").click()
    assert group.locator(".dt-curve").count() == 1
    assert group.locator(".dt-drawn, .dt-gap, .dt-mine").count() == 0
    found = [format_quantity(value, "s") for value in truths(sketch())]
    said = f"It is {found[0]} on 64 GPUs, {found[1]} on 4,096 GPUs."
    playwright.expect(group.locator(".dt-summary")).to_contain_text(said)
    assert "you drew" not in group.inner_text()


def test_a_sweep_of_the_pointer_sets_every_point_that_it_passes(tab, group):
    box = group.locator("svg.dt-drawing").bounding_box()
    level = box["y"] + box["height"] / 2
    points = group.get_by_role("slider")
    said = [None, None]
    tab.mouse.move(box["x"] + 80, level)
    tab.mouse.down()
    said[0] = points.first.get_attribute("aria-valuetext")
    tab.mouse.move(box["x"] + box["width"] - 40, level)
    tab.mouse.up()
    said[1:] = [points.nth(i).get_attribute("aria-valuetext") for i in range(2)]
    assert said[0] == "not drawn" and said[1] == said[2] != "not drawn"
    assert "Done. That is your bet." in group.locator(".dt-task").inner_text()
    assert group.get_by_role("button", name=SHOW).is_enabled()


def test_a_finger_draws_from_the_dot_downwards_and_the_page_stays(browser, tmp_path):
    space = "<p style='height: 1500px'>A page to scroll.</p>"
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with opened(browser, tmp_path, space, sketch(), space, **phone) as tab:
        figure = tab.locator("svg.dt-drawing")
        figure.evaluate("node => node.scrollIntoView({ block: 'center' })")
        at, box = tab.evaluate("scrollY"), figure.bounding_box()
        finger = tab.context.new_cdp_session(tab)
        for step in range(13):
            point = {"x": box["x"] + 76 + 18 * step, "y": box["y"] + 85 + 12 * step}
            kind = "touchMove" if step else "touchStart"
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
        finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        tab.wait_for_selector(".dt-task.is-met")
        assert tab.evaluate("scrollY") == at
