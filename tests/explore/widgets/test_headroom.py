"""Bars of headroom: what may be asked, and the library's numbers in the browser, key by key."""

import pytest
from page import opened

from dtlib.explore import Headroom, Task, between
from dtlib.explore.kit.still import still
from dtlib.foundations import (
    catalog,
    format_quantity,
    link_headroom,
    memory_headroom,
    message_time,
    port_headroom,
)

playwright = pytest.importorskip("playwright.sync_api")

TITLE = "Who waits?"
NODE = catalog["dgx-h100"]
MACHINE = {
    "ranks_per_node": NODE.gpus,
    "element_bytes": 2,
    "peak": NODE.gpu.peak("bf16"),
    "bandwidth": NODE.gpu.hbm_bandwidth,
    "beta": NODE.link.beta,
    "port_beta": NODE.nic.beta,
}
BARS = {"memory": memory_headroom, "link": link_headroom, "network ports": port_headroom}


def bars(**changes):
    arguments = {
        "resources": BARS,
        "sliders": {
            "tokens_per_rank": between(250, 64000, start=4000),
            "tp": between(2, 64, start=8),
            "nics": [1, 2, 4, 8],
            "hidden": between(1024, 16384, start=8192),
        },
        "grips": {"memory": "tokens_per_rank", "link": "tp", "network ports": "tokens_per_rank"},
        "fixed": MACHINE,
        "title": TITLE,
        "task": Task("Nobody.", "speed >= 1", {"nics": 8}, "All eight."),
    }
    return Headroom(**arguments | changes)


def test_the_bars_are_the_formulas():
    widget = bars()
    start = {"tokens_per_rank": 4000, "tp": 8, "nics": 1, "hidden": 8192} | MACHINE
    for label, value in widget.headrooms().items():
        formula = BARS[label]
        assert value == formula(**{name: start[name] for name in formula.parameters})


def test_the_speed_lies_between_the_sum_and_the_longest_time_in_python_and_in_the_page():
    widget = bars()
    for change in ({}, {"nics": 8}, {"tp": 64, "nics": 8}, {"tokens_per_rank": 250}):
        serial, overlapped = widget.speeds(**change)
        busy = [1, *(1 / h for h in widget.headrooms(**change).values())]
        assert (serial, overlapped) == pytest.approx((1 / sum(busy), 1 / max(busy)))
        assert overlapped / len(busy) <= serial < overlapped
        shares = " and ".join(format_quantity(share, "%", 2) for share in (serial, overlapped))
        assert f"Between {shares} of the peak rate." in still(widget, **change)["said"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"resources": {"memory": memory_headroom}}, "at least two"),
        ({"resources": BARS | {"time": message_time}}, "'time' is in s; a headroom has no"),
        ({"grips": {"memory": "tokens_per_rank", "link": "tp"}}, "'network ports' needs one of"),
        ({"ends": (2, 100)}, "must lie between them"),
        ({"fixed": {}}, "needs 'peak'"),
        ({"task": Task("", "speed > 0", {})}, "met already at the start"),
        ({"task": Task("", "speed > 1", {})}, "not met by its solution"),
    ],
)
def test_what_would_mislead_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        bars(**changes)


@pytest.fixture
def tab(browser, tmp_path):
    with opened(browser, tmp_path, bars()) as tab:
        yield tab


def shown(group) -> list[str]:
    return group.locator(".dt-row-value").all_inner_texts()


def expected(**changes) -> list[str]:
    return [format_quantity(value, "×", 2) for value in bars().headrooms(**changes).values()]


def test_keys_and_pointer_move_the_bars_to_the_library_s_values_and_the_task_is_noticed(tab):
    group = tab.get_by_role("group", name=TITLE, exact=True)
    assert shown(group) == expected()
    group.get_by_role("slider", name="network ports").press("End")
    assert shown(group) == expected(nics=8)
    assert "Done. All eight." in group.inner_text()
    said = "Nothing is slower than the arithmetic."
    playwright.expect(group.locator(".dt-summary")).to_contain_text(said)
    handle = group.locator(".dt-handle").nth(1).bounding_box()
    tab.mouse.move(handle["x"] + 5, handle["y"] + 5)
    tab.mouse.down()
    tab.mouse.move(handle["x"] - 2000, handle["y"] + 5)
    tab.mouse.up()
    assert shown(group) == expected(nics=8, tp=64)
    group.get_by_role("button", name="Reset").click()
    assert shown(group) == expected()
