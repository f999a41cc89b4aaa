"""ZeRO's stages step by step: the page shows the bytes that the library's step has counted."""

import json

import pytest
from page import opened
from scripts import Scripts

from dtlib.explore import Task, ZeroStages
from dtlib.foundations import format_quantity
from dtlib.memory import ZeroStep, model_state_bytes, zero_sent_bytes

TASK = Task(
    "save", "micro_batches == 4 and held_share <= 0.4 and sent_share <= 1",
    {"stage": 1, "ranks": 8, "micro_batches": 4}, "Saved.",
)  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return Scripts("js/zero_stages_model.js")


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize(("ranks", "m"), [(2, 1), (4, 2), (8, 4)])
def test_what_is_exported_is_the_step_of_the_library(model, stage, ranks, m):
    shown = ZeroStages()
    step = ZeroStep(stage, ranks, [1e9] * 3, m)
    state = {"stage": stage, "ranks": ranks, "micro_batches": m, "done": 0}
    bytes_ = model("zeroBytes(spec, state)", spec=shown.spec, state=state)
    assert bytes_["held"] == [moment.held for moment in step.moments]
    assert bytes_["sent"] == [moment.sent for moment in step.moments]
    assert bytes_["sent"][-1] == pytest.approx(zero_sent_bytes(3e9, stage, ranks, m, 2))
    assert model("zeroValues(spec, state)", spec=shown.spec, state=state) == shown.values(**state)
    run = model("zeroRun(spec, state)", spec=shown.spec, state=state)
    assert [tuple(action) for action in run["actions"]] == list(step.actions)


@pytest.mark.parametrize("stage", range(4))
def test_the_strips_have_the_area_of_the_bytes(model, stage):
    """Solid and hatched strips together: the account, but for the part beside a gathered unit."""
    ranks, m = 4, 2
    spec = ZeroStages().spec
    run = spec["runs"][f"{stage} {m}"]
    held = spec["bytes"][f"{stage} {ranks} {m}"]["held"]

    def area(letter, rank):
        strips = model("zeroStrips(letter, rank, ranks)", letter=letter, rank=rank, ranks=ranks)
        return sum(to - start for start, to, _ in strips)

    areas = {x: area(x, 1) for x in ("p", "w", "n", "o", "b", "sum")}
    assert area("p", 0) == area("p", 3) == 0.25
    for i, bytes_ in enumerate(held):
        drawn = 0.0
        for w, g in zip(run["weights"][i], run["gradients"][i], strict=True):
            whole = 0.25 if stage == 3 and w == "w" else 0
            drawn += 2 * (areas["w" if w == "s" else w] + whole)
            drawn += 2 * areas["sum" if g == "s" else g] + 12 * areas["p" if stage else "w"]
        assert drawn * 1e9 == pytest.approx(bytes_)
    assert model_state_bytes(3e9, stage, ranks) in held


def test_every_action_is_said_in_words(model):
    for key, run in ZeroStages().spec["runs"].items():
        stage = int(key[0])
        for action in run["actions"]:
            words = model("zeroWords(a, stage, true)", a=action, stage=stage)
            assert words
            assert "undefined" not in words


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ranks": (16,)}, "ranks: 16; the figure has room for 8"),
        ({"units": [1] * 5}, "units: 5; the figure has room for 4"),
        ({"stage": 4}, "stage = 4; allowed are 0, 1, 2 and 3"),
        ({"done": 99}, "done = 99; this step has 22 actions"),
        ({"task": Task("", "stage == 3", {})}, "met already at the start"),
        ({"task": Task("", "peak < 0", {})}, "is not met by its solution"),
        ({"task": Task("", "speed > 1", {})}, "no 'speed'; there are stage"),
    ],
)
def test_a_figure_that_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        ZeroStages(**options)


def test_it_is_the_same_on_every_build_and_has_a_figure_for_print():
    first, second = ZeroStages(task=TASK), ZeroStages(task=TASK)
    assert json.dumps(first.spec) == json.dumps(second.spec)
    assert first.static().html == second.static().html
    assert "stage 2: at most 18 GB held, 9 GB sent" in first.static().html


def test_keys_step_and_the_task_notices(browser, tmp_path):
    shown = ZeroStages(task=TASK)

    def says(tab, done, **state):
        state = {"stage": 3, "ranks": 4, "micro_batches": 1} | state
        step = ZeroStep(state["stage"], state["ranks"], [1e9] * 3, state["micro_batches"])
        moment = step.moments[done]
        held, sent = (format_quantity(n, "B", 3) for n in (moment.held, moment.sent))
        tab.wait_for_function(
            "text => document.querySelector('.dt-summary').textContent.includes(text)",
            arg=f"action {done} of {len(step.actions)}: ",
        )
        tab.wait_for_function(
            "text => document.querySelector('.dt-summary').textContent.includes(text)",
            arg=f"A rank holds {held} and has sent {sent};",
        )

    with opened(browser, tmp_path, shown, viewport={"width": 1000, "height": 1000}) as tab:
        says(tab, 14)
        tab.get_by_label("One action on").click()
        says(tab, 15)
        tab.get_by_label("Actions done").focus()
        tab.keyboard.press("Home")
        says(tab, 0)
        tab.keyboard.press("ArrowRight")
        says(tab, 1)
        tab.keyboard.press("End")
        says(tab, 22)
        tab.get_by_role("radio", name="stage 1").check()
        says(tab, 13, stage=1)
        tab.get_by_role("slider", name="micro-batches").focus()
        tab.keyboard.press("End")
        says(tab, 31, stage=1, micro_batches=4)
        assert "Done" not in tab.locator(".dt-task").inner_text()
        tab.get_by_role("slider", name="ranks, 2 to 8").focus()
        tab.keyboard.press("End")
        says(tab, 31, stage=1, micro_batches=4, ranks=8)
        assert "Done. Saved." in tab.locator(".dt-task").inner_text()
        tab.locator(".dt-reset").click()
        says(tab, 14)
