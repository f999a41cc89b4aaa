"""The steps of a ring in the page: the library's work, its critical path, and the task."""

import numpy as np
import pytest
from page import opened
from scripts import Scripts

from dtlib.explore import RingSteps, Task
from dtlib.explore.ring_steps.ring_steps import LAYOUTS, TOKENS
from dtlib.parallelism.sequence.layouts import causal_work, contiguous, critical_path, zigzag


@pytest.fixture(scope="module")
def model():
    return Scripts("ring_steps/model.js")


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
        assert steps().names(P=P, layout=i, causal=1)["path"] == pytest.approx(path)
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
        ({"P": 3}, "P: 3, but must be one of 2, 4"),
        ({"P": 32, "ranks": (32,)}, "each from 2 to 16"),
        ({"layout": 3}, "layout: 3, but must be one of 0, 1, 2"),
        ({"task": Task("", "path > 0", {})}, "met already at the start"),
        ({"task": Task("", "path < 0", {})}, "is not met by its solution"),
    ],
)
def test_what_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        steps(**options)


def test_a_press_on_a_step_shows_its_part_of_the_mask(browser, tmp_path):
    viewport = {"width": 1000, "height": 1200}
    with opened(browser, tmp_path, steps(), viewport=viewport) as tab:
        tab.locator(".dt-widget .dt-ring-step").nth(5).click()
        assert tab.locator(".dt-row-value").last.inner_text() == "5"
        assert tab.locator(".dt-scrub").input_value() == "5"
        tab.get_by_role("slider", name="ranks").press("ArrowLeft")
        assert tab.locator(".dt-scrub").input_value() == "0"
