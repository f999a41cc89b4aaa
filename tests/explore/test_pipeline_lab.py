"""Pipelines on the page: the script plays schedules as the library's simulator does."""

import json
from functools import partial
from itertools import product

import pytest
from page import opened
from scripts import Scripts

from dtlib.explore import PipelineLab, Task
from dtlib.explore.pipeline_lab import MICRO_BATCHES, RATIOS, STAGES, stored, timed
from dtlib.foundations import format_quantity
from dtlib.parallelism.pipeline import (
    PipelineSchedule,
    dual_pipe,
    gpipe,
    interleaved,
    one_f_one_b,
    zb_v,
    zero_bubble,
)

SCHEDULES = {
    "GPipe": gpipe,
    "1F1B": one_f_one_b,
    "interleaved, two stages a rank": partial(interleaved, v=2),
    "zero bubble, c = 1": partial(zero_bubble, c=1),
    "zero bubble, c = 2": partial(zero_bubble, c=2),
    "ZB-V": zb_v,
}
TASK = Task(
    "less idle",
    "idle < 0.1 and peak <= 4 and m <= 16",
    {"schedule": 3, "m": 16},
    "Half a backward.",
)


def lab(**options) -> PipelineLab:
    return PipelineLab(SCHEDULES, **{"title": "A pipeline"} | options)


@pytest.fixture(scope="module")
def model():
    return Scripts("js/pipeline_run.js")


@pytest.mark.parametrize("label", SCHEDULES)
def test_the_page_plays_every_schedule_as_the_simulator_does(model, label):
    build = SCHEDULES[label]
    for p, m, ratio in product(STAGES, (2, 8, 16), RATIOS):
        kept = stored(build, p, m)
        if "refused" in kept:
            with pytest.raises(ValueError, match=r".") as refused:
                build(p, m)
            assert kept["refused"] == str(refused.value)
            continue
        timeline = timed(build(p, m), ratio)
        half = {"f": 1, "b": ratio / 2, "w": ratio / 2}
        run = model("runPipeline(kept, times)", kept=kept, times=half)
        assert run["makespan"] == pytest.approx(float(timeline.makespan))
        assert run["idle"] == pytest.approx(float(timeline.bubble_fraction))
        assert run["wait"] == pytest.approx(float(timeline.stage_bubble), abs=1e-9)
        assert run["peaks"] == pytest.approx([float(x) for x in timeline.peak_activations])
        spans = {(s.rank, s.name): (float(s.start), float(s.stop)) for s in timeline.spans}
        found = {
            (s["rank"], f"{s['stage']}{s['kind']}{s['batch']}"): (s["start"], s["stop"])
            for s in run["spans"]
        }
        assert found == spans


def test_sabotage_a_row_with_two_actions_exchanged_gives_other_times(model):
    kept = stored(one_f_one_b, 4, 8)
    times = {"f": 1, "b": 1, "w": 1}
    right = model("runPipeline(kept, times)", kept=kept, times=times)
    row = kept["ranks"][0]
    late = {**kept, "ranks": [row[:6] + row[8:10] + row[6:8] + row[10:], *kept["ranks"][1:]]}
    wrong = model("runPipeline(kept, times)", kept=late, times=times)
    assert wrong["makespan"] > right["makespan"] or len(wrong["spans"]) < len(right["spans"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"p": 3}, "p: 3, but must be one of 2, 4, 8"),
        ({"ratio": 7}, "ratio: 7, but must be one of"),
        ({"task": Task("", "idle > 0", {})}, "met already at the start"),
        ({"task": Task("", "idle < 0", {})}, "is not met by its solution"),
        ({"task": Task("", "speed > 1", {})}, "no 'speed'; there are schedule"),
    ],
)
def test_a_lab_that_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        lab(**options)


def test_a_schedule_with_two_actions_at_once_is_refused():
    with pytest.raises(ValueError, match="two actions at once"):
        PipelineLab({"both ways": dual_pipe}, title="t")


def test_a_lab_is_the_same_on_every_build_and_has_a_figure_for_print():
    first, second = lab(task=TASK), lab(task=TASK)
    assert json.dumps(first.spec) == json.dumps(second.spec)
    assert first.static().html == second.static().html
    assert "27.3%" in first.static().html
    assert repr(first) == "PipelineLab('A pipeline')"
    assert all(kept for kept in first.spec["schedules"][0]["stored"].values())
    assert set(first.spec["schedules"][2]["stored"]) == {
        f"{p} {m}" for p, m in product(STAGES, MICRO_BATCHES)
    }


def test_keys_follow_a_micro_batch_and_the_task_notices(browser, tmp_path):
    shown = lab()

    def says(tab, **state):
        values = shown.values(**state)
        text = (
            f"the step takes {format_quantity(values['step'], '', 3)} forward times, "
            f"{format_quantity(values['idle'], '%', 3)} of all ranks' time is idle"
        )
        tab.wait_for_function(
            "text => document.querySelector('.dt-summary').textContent.includes(text)", arg=text
        )

    viewport = {"width": 1000, "height": 1000}
    with opened(browser, tmp_path, lab(task=TASK), viewport=viewport) as tab:
        says(tab)
        tab.get_by_label("1F1B").check()
        says(tab, schedule=1)
        assert shown.values(schedule=1)["step"] == shown.values()["step"]
        tab.get_by_label("micro-batches, 2 to 32").focus()
        tab.keyboard.press("ArrowRight")
        says(tab, schedule=1, m=16)
        tab.get_by_label("zero bubble, c = 1").check()
        says(tab, schedule=3, m=16)
        assert "Done. Half a backward." in tab.locator(".dt-task").inner_text()
        tab.locator(".dt-pipe-cursor").focus()
        tab.keyboard.press("ArrowRight")
        tab.wait_for_function(
            "document.querySelector('.dt-summary').textContent.startsWith('0F0, forward pass')"
        )
        tab.keyboard.press("ArrowDown")
        story = tab.locator(".dt-pipe-story")
        assert "1F0, forward pass of micro-batch 0 through stage 1, starts on rank 1 at 1." in (
            story.inner_text()
        )
        assert "waited 1 forward times for 0F0 on rank 0" in story.inner_text()
        tab.keyboard.press("Escape")
        assert story.is_hidden()
        tab.locator(".dt-reset").click()
        says(tab)


def test_a_refused_schedule_says_why(browser, tmp_path):
    with opened(
        browser, tmp_path, lab(p=8, m=8), theme="dark", viewport={"width": 390, "height": 900}
    ) as tab:
        tab.get_by_label("interleaved").check()
        tab.get_by_label("micro-batches, 2 to 32").focus()
        tab.keyboard.press("ArrowLeft")
        tab.wait_for_selector(".dt-pipe-story:not([hidden])")
        refused = stored(SCHEDULES["interleaved, two stages a rank"], 8, 4)["refused"]
        assert tab.locator(".dt-pipe-story").inner_text() == refused
        width = tab.evaluate("document.documentElement.scrollWidth")
        assert width <= 390


def test_a_pipeline_schedule_knows_what_the_page_stores():
    kept = stored(lambda p, m: PipelineSchedule(["0F0 0B0 0W0", "1F0 1BW0"], m=1), 2, 1)
    assert kept == {"ranks": ["F0B0W0", "F0D0"], "stages": [[0], [1]]}
