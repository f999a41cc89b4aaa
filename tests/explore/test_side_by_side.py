"""Widgets of several kinds on one page: the style sheet of one does not reach into another."""

import io
import re
from functools import partial

import matplotlib.image
import numpy as np
import pytest
from every_widget import EVERY, made, name
from page import opened

from dtlib import explore
from dtlib.collectives import (
    ring_all_reduce_time,
    tree_all_reduce_time,
)
from dtlib.explore import Explorer, Fastest, MemoryBar, answer, bet, between
from dtlib.explore.widget import Widget
from dtlib.formulas.units import GB, KB, us

N = {"n": between(1 * KB, 10 * GB, start=1 * GB)}
P = {"P": between(2, 1024, start=8)}
LINK = {"alpha": 2 * us, "beta": 50 * GB}
THUMB = np.array([204, 121, 167]) / 255  # what a bet is drawn with on a light page

# What of each kind made the others look wrong, whichever came last: rules of equal weight.
KINDS = {
    "bet": lambda: bet("8.1", "How long?", unit="ms", anchor=30.0),
    "answer": lambda: answer("8.1", 40, unit="ms"),
    "explorer": lambda: Explorer(
        {"ring": ring_all_reduce_time}, x=N, sliders=P, fixed=LINK, title="Ring"
    ),
    "fastest": lambda: Fastest(
        {"ring": ring_all_reduce_time, "tree": tree_all_reduce_time},
        x=N,
        y=P,
        sliders={},
        fixed=LINK,
        title="Map",
    ),
    "memory bar": MemoryBar,
    **{name(kind): partial(made, kind) for kind in EVERY},
}

# Of every element of a widget, where it stands in it and what it looks like.
LOOKS = r"""(root) => {
  const from = root.getBoundingClientRect();
  const round = (x) => Math.round(10 * x) / 10;
  return [...root.querySelectorAll("*")].map((node) => {
    const box = node.getBoundingClientRect();
    const look = getComputedStyle(node);
    return [
      node.tagName + "." + node.getAttribute("class"),
      node.parentNode.closest(".dt-drawing")
        ? "drawn" // where a mark is, it says itself
        : box.width || box.height
        ? [box.x - from.x, box.y - from.y, box.width, box.height].map(round).join(" ")
        : "hidden",
      ...["display", "color", "fill", "stroke", "cursor", "borderBottomWidth", "fontSize"].map(
        (name) => look[name],
      ),
    ].join(" | ").replace(/-\d+-over/, "-over");
  });
}"""


def let_loose(widget: Widget) -> Widget:
    """The widget with a style sheet that reaches every other one on the page, as sheets do."""
    widget._css, count = re.subn(r":is\(\.dt-kind-\w+, |(?m:^)\.dt-kit(?= \{)", _loose, widget._css)
    assert count == 1
    return widget


def _loose(match) -> str:
    return "main" if match[0] == ".dt-kit" else ":is(main, "


def looks(browser, folder, names, prepared=lambda widget: widget) -> dict[str, list[str]]:
    """What each widget of a page looks like."""
    widgets = [prepared(KINDS[name]()) for name in names]
    with opened(browser, folder, *widgets, viewport={"width": 1100, "height": 900}) as tab:
        found = tab.locator(".dt-widget").all()
        return {name: root.evaluate(LOOKS) for name, root in zip(names, found, strict=True)}


@pytest.fixture(scope="module")
def alone(browser, tmp_path_factory):
    return {
        name: looks(browser, tmp_path_factory.mktemp("alone"), [name])[name]
        for name in KINDS
        if name != "answer"
    }


@pytest.mark.parametrize("order", [1, -1], ids=["one way", "the other way"])
def test_a_widget_looks_beside_others_as_it_does_alone(browser, tmp_path, alone, order):
    KINDS["bet"]()
    beside = looks(browser, tmp_path, list(KINDS)[::order])
    for one, found in alone.items():
        assert beside[one] == found, one


def test_sabotage_sheets_that_reach_further_make_others_look_wrong(browser, tmp_path, alone):
    KINDS["bet"]()
    beside = looks(browser, tmp_path, list(KINDS), let_loose)
    wrong = {name for name in alone if beside[name] != alone[name]}
    assert "bet" in wrong


# The two faults that readers met.


def stacked(widget: Widget) -> Widget:
    """The widget with a sheet that puts the buttons of every player below each other."""
    widget._css += (
        "\nmain .dt-transport, main .dt-transport .dt-button { display: block !important }"
    )
    return widget


def faults(browser, folder, prepared=lambda widget: widget) -> dict[str, float]:
    """How far thumbs are from their ticks, and how many rows the stepper's buttons take."""
    names = ["bet", "explorer", "memory bar", *map(name, EVERY)]
    widgets = [prepared(KINDS[name]()) for name in names]
    with opened(browser, folder, *widgets, viewport={"width": 1100, "height": 900}) as tab:
        tops = tab.locator(".dt-kind-stepper .dt-transport .dt-button").evaluate_all(
            "all => all.map((x) => Math.round(x.getBoundingClientRect().top))"
        )
        ticks = tab.locator(".dt-bet-scale g:not(.dt-bet-mark)").all()
        return {
            "rows": len(set(tops)),
            "pixels": max(_distance(tab, tick) for tick in ticks),
            "ticks": len(ticks),
        }


def _distance(tab, tick) -> float:
    """Between a tick and the thumb, when the tick's own value is the bet."""
    field = tab.locator(".dt-bet").get_by_role("textbox")
    field.fill(tick.text_content())
    field.press("Tab")
    line = tick.locator("line").bounding_box()
    return abs(line["x"] + line["width"] / 2 - _thumb(tab))


def _thumb(tab) -> float:
    """The middle of what has the thumb's colour, on the screen."""
    slider = tab.locator(".dt-bet-range")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    clip = {**box, "x": box["x"] - 20, "width": box["width"] + 40}
    picture = matplotlib.image.imread(io.BytesIO(tab.screenshot(clip=clip)))[..., :3]
    columns = np.flatnonzero((abs(picture - THUMB) < 0.02).all(axis=2).any(axis=0))
    if not columns.size:
        return float("inf")  # another widget's colour
    return clip["x"] + (columns.min() + columns.max() + 1) / 2


def test_a_thumb_stands_on_its_tick_and_transport_buttons_in_one_row(browser, tmp_path):
    found = faults(browser, tmp_path)
    assert found["ticks"] >= 5
    assert found["pixels"] <= 1
    assert found["rows"] == 1


def test_sabotage_the_measure_sees_both_faults(browser, tmp_path):
    assert faults(browser, tmp_path, let_loose)["pixels"] > 1
    assert faults(browser, tmp_path, stacked)["rows"] > 1


def test_every_kind_begins_where_its_sheet_and_its_keys_are_looked_after():
    def kinds(cls):
        own = [cls] if isinstance(cls.__dict__.get("_esm"), str) else []
        return own + [kind for sub in cls.__subclasses__() for kind in kinds(sub)]

    assert all(hasattr(explore, one) for one in explore.__all__)  # and so each is imported
    found = kinds(Widget)
    assert len(found) + len(EVERY) >= 25
    for kind in found:
        name = f"dt-kind-{kind.__name__.lower()}"
        assert kind._esm.endswith(f'export default {{ render: within("{name}", render) }};')
        assert f":is(.{name}, .dt-static) {{" in kind._css
