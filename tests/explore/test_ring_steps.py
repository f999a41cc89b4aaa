"""The steps of a ring in the page: the library's work, its critical path, and the task."""

import json

import numpy as np
import pytest
from page import opened
from scripts import Scripts

from dtlib.explore import RingSteps, Task
from dtlib.explore.ring_steps import LAYOUTS, TOKENS
from dtlib.parallelism.sequence.layouts import causal_work, contiguous, critical_path, zigzag

TASK = Task(
    "halve it",
    "causal == 1 and P == 8 and path <= P / 2",
    {"layout": 1},
    "An early and a late one.",
)


@pytest.fixture(scope="module")
def model():
    return Scripts("js/ring_steps_model.js")


def steps(**options) -> RingSteps:
    return RingSteps(**{"title": "Who waits for whom?"} | options)


@pytest.mark.parametrize("P", [2, 4, 8, 16])
def test_the_page_adds_up_the_steps_as_the_library_does(model, P):
    spec = steps().spec
    for i, layout in enumerate(LAYOUTS.values()):
        work = spec["work"][i][str(P)]
        exact = causal_work(layout, P, TOKENS)
        path = float(critical_path(exact))
        assert work == [[float(share) for share in step] for step in exact]
        assert model("lastEnd(work)", work=work) == pytest.approx(path)
        assert model("busyShare(work)", work=work) == pytest.approx(P / 2 / path)
        assert steps().values(P=P, layout=i)["path"] == pytest.approx(path)
    assert model(f"lastEnd(fullWork({P}))") == P


def test_the_mask_shows_in_each_step_what_the_library_computes_in_it(model):
    spec, P = steps().spec, 8
    for i, layout in enumerate((contiguous, zigzag)):
        owners = spec["owners"][i]["8"]
        shares = np.zeros((P, P))
        for q, owner in enumerate(owners):
            for k, other in enumerate(owners[: q + 1]):
                t = model(f"stepOf({owner}, {other}, {P})")
                shares[t, owner] += (0.5 if k == q else 1) / 4
        assert shares.tolist() == [[float(x) for x in step] for step in causal_work(layout, P)]


def test_sabotage_pieces_in_order_give_another_path(model):
    right = steps().spec["work"][1]["8"]
    wrong = steps().spec["work"][0]["8"]
    assert model("lastEnd(work)", work=right) == 4
    assert model("lastEnd(work)", work=wrong) == 7.5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"P": 3}, "P: one of ranks"),
        ({"P": 32, "ranks": (32,)}, "each from 2 to 16"),
        ({"layout": 3}, "layout: 0, 1 or 2"),
        ({"task": Task("", "path > 0", {})}, "met already at the start"),
        ({"task": Task("", "path < 0", {})}, "is not met by its solution"),
    ],
)
def test_what_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        steps(**options)


def test_it_is_the_same_on_every_build_and_has_a_figure_for_print():
    first, second = steps(task=TASK), steps(task=TASK)
    assert json.dumps(first.spec) == json.dumps(second.spec)
    assert first.static().html == second.static().html
    assert "7.5 of 8 blocks" in first.static().html
    assert repr(first) == "RingSteps('Who waits for whom?')"


def test_keys_change_layout_and_ranks_and_the_task_notices(browser, tmp_path):
    def says(tab, **state):
        values = steps().values(**state)
        tab.wait_for_function(
            "text => document.querySelector('.dt-summary').textContent.includes(text)",
            arg=f"over after {values['path']:g} of {values['P']} blocks",
        )

    viewport = {"width": 1000, "height": 900}
    with opened(browser, tmp_path, steps(task=TASK), viewport=viewport) as tab:
        says(tab)
        tab.get_by_role("radio", name="contiguous").focus()
        tab.keyboard.press("ArrowRight")
        says(tab, layout=1)
        assert "Done. An early and a late one." in tab.locator(".dt-task").inner_text()
        tab.get_by_role("checkbox").press(" ")
        says(tab, layout=1, causal=0)
        tab.get_by_role("checkbox").press(" ")
        tab.locator('input[type="range"]').first.press("ArrowLeft")
        says(tab, layout=1, P=4)
        tab.locator(".dt-reset").click()
        says(tab)
