"""Pipelines on the page: the script plays schedules as the library's simulator does."""

from functools import partial
from itertools import product

import pytest
from page import opened
from scripts import Scripts

from dtlib.explore import PipelineLab, Task
from dtlib.explore.kit.still import still
from dtlib.explore.pipeline_lab.pipeline_lab import RATIOS, STAGES, stored, timed
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
    return Scripts("pipeline_lab/model.js")


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


def test_keys_follow_a_micro_batch(browser, tmp_path):
    def says(tab, text):
        tab.wait_for_function(
            "text => document.querySelector('.dt-summary').textContent.includes(text)", arg=text
        )

    viewport = {"width": 1000, "height": 1000}
    with opened(browser, tmp_path, lab(), viewport=viewport) as tab:
        tab.get_by_role("button", name="0F0 on rank 0").focus()
        tab.keyboard.press("Enter")
        says(tab, "0F0, forward pass of micro-batch 0 through stage 0, starts on rank 0 at 0.")
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("Enter")
        says(tab, "waited 1 forward times for 0F0 on rank 0")
        assert tab.get_by_role("button", pressed=True).count() == 1
        tab.keyboard.press("Enter")
        says(tab, "GPipe, 4 ranks, 8 micro-batches: the step takes 33 forward times")


def test_a_refused_schedule_says_why_and_meets_no_task():
    refused = stored(SCHEDULES["interleaved, two stages a rank"], 8, 4)["refused"]
    shown = still(lab(task=TASK), p=8, m=4, schedule=2)
    assert shown["said"].endswith(refused)
    assert shown["names"]["idle"] is None and "NaN" not in "".join(shown["figures"])


def test_a_pipeline_schedule_knows_what_the_page_stores():
    kept = stored(lambda p, m: PipelineSchedule(["0F0 0B0 0W0", "1F0 1BW0"], m=1), 2, 1)
    assert kept == {"ranks": ["F0B0W0", "F0D0"], "stages": [[0], [1]]}
