"""Two matrices, cut by the reader: the widget shows the library's steps and bytes."""

import json

import pytest
from page import opened

from dtlib.explore import Cuts, Task
from dtlib.foundations import format_quantity
from dtlib.parallelism.tensor.splits import split_steps

SIZES = {"tokens": 4096, "hidden": 8192, "ffn": 32768}
TASK = Task(
    "one", "divided == 2 and collectives == 1", {"first": "columns", "second": "rows"}, "Found."
)


def cuts(**options) -> Cuts:
    return Cuts(**{"title": "Where to cut?"} | SIZES | options)


def test_bytes_are_those_of_the_library():
    shown = cuts()
    for P, ways in shown.spec["cases"].items():
        for i, first in enumerate(shown.spec["ways"]):
            for j, second in enumerate(shown.spec["ways"]):
                steps = split_steps(first, second, 8192, 32768)
                for step, case in zip(steps, ways[i][j], strict=True):
                    sent = [step.sent_bytes(w, int(P), 4096, 2) for w in ("forward", "backward")]
                    assert case["bytes"] == sent
    assert shown.values(first="columns", second="rows", P=8) == {
        "divided": 2,
        "collectives": 1,
        "sent": 4 * 7 / 8 * 4096 * 8192 * 2,
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"first": "diagonal"}, "first = 'diagonal'; allowed are columns, rows, undivided"),
        ({"P": 3}, "P = 3; allowed are 2, 4, 8"),
        ({"task": Task("", "divided == 2", {})}, "met already at the start"),
        ({"task": Task("", "collectives == 7", {})}, "is not met by its solution"),
    ],
)
def test_what_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        cuts(**options)


def test_it_is_the_same_on_every_build_and_has_a_figure_for_print():
    first, second = cuts(task=TASK), cuts(task=TASK)
    assert json.dumps(first.spec) == json.dumps(second.spec)
    assert first.static().html == second.static().html
    assert first.static().html.count("<tr>") == 10


def test_keys_cut_the_matrices_and_the_task_notices(browser, tmp_path):
    shown = cuts(task=TASK)
    with opened(browser, tmp_path, shown, viewport={"width": 800, "height": 900}) as tab:
        sent = format_quantity(2 * 3 / 4 * 4096 * 8192 * 2, "B", 3)
        tab.locator("fieldset").nth(1).locator("input").first.focus()
        tab.keyboard.press("ArrowDown")
        tab.wait_for_function(
            "text => document.querySelector('.dt-summary').textContent.includes(text)",
            arg=f"1 collective forward, {sent} sent forward and {sent} backward",
        )
        assert "Found." in tab.locator(".dt-task").inner_text()
        assert "W₂: by rows" in tab.locator(".dt-stage svg").get_attribute("aria-label")
        tab.get_by_role("button", name="Reset").click()
        assert "Found." not in tab.locator(".dt-task").inner_text()
