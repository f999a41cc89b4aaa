"""One run on more and more GPUs: its numbers, what is said when, a line drawn in the browser."""

import re

import pytest
from page import opened

from dtlib.collectives import ring_all_reduce_time
from dtlib.explore import OneRun
from dtlib.explore.kit.still import still
from dtlib.explore.one_run.one_run import COLUMNS
from dtlib.formulas.units import GB, day, us
from dtlib.foundations import catalog
from dtlib.models.work import training_time
from dtlib.parallelism import data_parallel_fastest_ranks, evenly_divided_time

playwright = pytest.importorskip("playwright.sync_api")
TITLE = "One run."
RUN = {"params": 175e9, "tokens": 300e9}
STEP = {"compute": 100, "n": 10 * GB, "alpha": 10 * us, "beta": 50 * GB}
A100 = catalog["a100-sxm"]
YEAR = 365.25 * day
ALONE = training_time(**RUN, P=1, peak=A100.peak("bf16"), mfu=1)
SHOWN = COLUMNS + 1
BAR = re.compile(r'width="([\d.]+)" height="30" fill="var\(--dt-(forward|communication)')
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def run(**changes):
    return OneRun(**{"title": TITLE, "gpu": A100} | RUN | STEP | changes)


def told(**state) -> str:
    """All that a state shows and says."""
    seen = still(run(), **state)
    return seen["said"] + "".join(seen["figures"])


def seconds(P: float) -> float:
    """The whole run on P GPUs, from the formulas of its two parts."""
    talk = ring_all_reduce_time(STEP["n"], P, STEP["alpha"], STEP["beta"])
    return ALONE / STEP["compute"] * (evenly_divided_time(STEP["compute"], P) + talk)


def headline(P: int) -> str:
    return re.search(r"takes ([\d.,]+ \w+)\.", still(run(), drawn=SHOWN, P=P)["said"])[1]


@pytest.mark.parametrize("P", [1, 2, 64, 2048, 65536])
def test_the_run_is_its_steps_each_of_work_and_ring(P):
    number, unit = headline(P).split()
    size = {"years": YEAR, "year": YEAR, "days": day, "hours": 3600}[unit]
    assert float(number.replace(",", "")) == pytest.approx(seconds(P) / size, rel=0.05)
    best = data_parallel_fastest_ranks(**STEP)
    assert run().names(P=P, drawn=SHOWN)["longer"] == pytest.approx(seconds(P) / seconds(best))


def test_alone_it_takes_the_years_of_the_page_s_first_words():
    said = still(run())["said"]
    assert said.startswith(f"On one GPU this run takes {round(ALONE / YEAR)} years.")
    assert "On one GPU this run takes 16 years." in still(run(tokens=150e9))["said"]  # sabotage


def test_nothing_gives_the_line_away_before_the_reader_s_is_whole():
    for drawn in range(0, SHOWN, 8):
        state = told(drawn=drawn)
        assert "dt-curve" not in state and "% computing" not in state and "you drew" not in state
    after = told(drawn=SHOWN)  # sabotage
    assert "dt-curve" in after and "% computing" in after and "you drew" in after


def test_nothing_is_said_of_a_line_that_nobody_drew():
    for state in ({}, {"drawn": 0, "P": 64}):
        assert "you say" not in told(**state) and "dt-drawn" not in told(**state)
    assert "you say" in told(drawn=8) and "dt-drawn" in told(drawn=8)


@pytest.mark.parametrize(
    ("factor", "says"),
    [
        (1 / 40, "you drew 5 days. It is 200 days: 40 times as long."),
        (10, "you drew 5.5 years. It is 200 days: 10 times less."),
        (1, "you drew 200 days, and 200 days it is."),
    ],
)
def test_only_the_end_that_was_drawn_is_compared(factor, says):
    hand = [ALONE] * COLUMNS + [seconds(65536) * factor]
    assert f"For 65,536 GPUs {says}" in still(run(), drawn=SHOWN, hand=hand)["said"]


def test_the_shortest_run_is_found_around_the_fastest_number_and_nowhere_else():
    widget = run()
    best = data_parallel_fastest_ranks(**STEP)
    met = [P for P in widget.spec["controls"][1]["values"] if widget.names(P=P)["longer"] < 1.005]
    assert met and all(best / 1.3 < P < 1.3 * best for P in met)
    for P in met:
        assert "Found: 57 days" in still(widget, drawn=SHOWN, P=P)["said"]
    assert "Found" not in still(widget, drawn=SHOWN, P=8192)["said"]


def test_the_bar_and_the_clock_have_the_proportions_of_the_step():
    for P in (1024, 8192):
        bars = {name: float(width) for width, name in BAR.findall(told(drawn=SHOWN, P=P))}
        talk = ring_all_reduce_time(STEP["n"], P, STEP["alpha"], STEP["beta"])
        work = STEP["compute"] / P
        assert bars["forward"] / bars["communication"] == pytest.approx(work / talk, rel=0.03)


# In a browser.


@pytest.fixture
def tab(browser, tmp_path):
    with opened(browser, tmp_path, run()) as tab:
        yield tab


def words(tab) -> str:
    return tab.locator("svg.dt-drawing").text_content()


def stroke(tab, *shares: float) -> None:
    """A line from the dot through these shares of the way to the right edge."""
    box = tab.locator(".dt-widget .dt-paper").bounding_box()
    x, wide = box["x"] + 30, box["width"] - 52
    tab.mouse.move(x, box["y"] + 24)
    tab.mouse.down()
    for share in shares:
        tab.mouse.move(x + share * wide, box["y"] + 24 + share * (box["height"] - 40))


def test_a_stroke_to_the_edge_shows_the_line_when_it_is_let_go(tab):
    stroke(tab, 0.2, 0.5)
    tab.mouse.up()
    assert "Draw on to the right edge" in words(tab)
    assert tab.locator(".dt-widget .dt-curve").count() == 0
    stroke(tab, 0.5, 0.8, 1)
    assert "Let go" in words(tab) and tab.locator(".dt-widget .dt-curve").count() == 0
    tab.mouse.up()
    assert tab.locator(".dt-widget .dt-curve").count() == 1
    assert "200 days." in words(tab) and "Slide to the shortest run." in words(tab)


def test_the_plot_is_then_the_slider_and_reset_takes_the_line_away(tab):
    stroke(tab, 0.5, 1)
    tab.mouse.up()
    foot = tab.locator(".dt-widget .dt-grab").bounding_box()
    y = foot["y"] + foot["height"] / 2
    tab.mouse.move(foot["x"] + foot["width"] / 2, y)
    tab.mouse.down()
    for _ in range(200):
        if "Found" in words(tab):
            break
        box = tab.locator(".dt-widget .dt-handle").bounding_box()
        tab.mouse.move(box["x"] + box["width"] / 2 - 6, y)
    tab.mouse.up()
    assert "The work divides; the talking does not." in words(tab)
    tab.get_by_role("button", name="Reset").click()
    assert tab.locator(".dt-widget").locator(".dt-curve, .dt-drawn").count() == 0
    assert "32 years." in words(tab)


def test_by_keys_the_pen_draws_mends_and_shows(tab):
    slider = tab.get_by_role("slider")
    slider.press("ArrowRight")
    slider.press("ArrowDown")
    assert "two" not in words(tab) and "On 2 GPUs you say it takes16 years?" in words(tab)
    slider.press("ArrowLeft")
    assert "32 years." in words(tab)
    for _ in range(COLUMNS // 4):
        slider.press("ArrowRight")
    slider.press("PageDown")
    assert "2 years?" in words(tab)
    slider.press("Enter")
    assert "For 65,536 GPUs you drew 2 years" in words(tab)
    slider.press("ArrowLeft")
    assert "65,536 GPUs this run" not in words(tab)


def test_a_finger_draws_down_the_paper_and_the_page_stays(browser, tmp_path):
    space = "<p style='height: 1500px'>A page to scroll.</p>"
    with opened(browser, tmp_path, space, run(), space, **PHONE) as tab:
        paper = tab.locator(".dt-widget .dt-paper")
        paper.evaluate("node => node.scrollIntoView({ block: 'center' })")
        at, box = tab.evaluate("scrollY"), paper.bounding_box()
        finger = tab.context.new_cdp_session(tab)
        for step in range(21):
            share = step / 20
            point = {
                "x": box["x"] + 30 + share * (box["width"] - 52),
                "y": box["y"] + 24 + 120 * share,
            }
            kind = "touchMove" if step else "touchStart"
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
        finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        tab.wait_for_selector(".dt-widget .dt-curve")
        assert tab.evaluate("scrollY") == at


def test_on_a_phone_it_is_whole_in_one_screen(browser, tmp_path):
    with opened(browser, tmp_path, run(), **PHONE) as tab:
        assert tab.locator(".dt-widget").bounding_box()["height"] < 844 - 52 - 60  # bar, title
