"""Widgets of several kinds on one page: the style sheet of one does not reach into another."""

import re
from functools import partial

import pytest
from every_widget import EVERY, made, name
from page import opened

from dtlib import explore
from dtlib.explore import answer, bet
from dtlib.explore.bets.answering import Answer
from dtlib.explore.bets.betting import Bet
from dtlib.explore.kit.source import SEAM, kit_script, kit_sheet
from dtlib.explore.kit.widget import Widget

# What of each kind made the others look wrong, whichever came last: rules of equal weight.
KINDS = {
    "bet": lambda: bet("8.1", "How long?", unit="ms", anchor=30.0),
    "answer": lambda: answer("8.1", 40, unit="ms"),
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
    widget._css, count = re.subn(r"\.dt-kit\.dt-kind-\w+ \{", "main .dt-kit {", widget._css)
    assert count <= 1
    return widget


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


# A fault that readers met.


def stacked(widget: Widget) -> Widget:
    """The widget with a sheet that puts the buttons of every player below each other."""
    widget._css += (
        "\nmain .dt-transport, main .dt-transport .dt-button { display: block !important }"
    )
    return widget


def rows_of_buttons(browser, folder, prepared=lambda widget: widget) -> int:
    """How many rows the stepper's buttons take."""
    widgets = [prepared(make()) for make in KINDS.values()]
    with opened(browser, folder, *widgets, viewport={"width": 1100, "height": 900}) as tab:
        tops = tab.locator(".dt-kind-stepper .dt-transport .dt-button").evaluate_all(
            "all => all.map((x) => Math.round(x.getBoundingClientRect().top))"
        )
        return len(set(tops))


def test_transport_buttons_stand_in_one_row(browser, tmp_path):
    assert rows_of_buttons(browser, tmp_path) == 1


def test_sabotage_the_measure_sees_buttons_below_each_other(browser, tmp_path):
    assert rows_of_buttons(browser, tmp_path, stacked) > 1


def kinds(cls) -> list[type]:
    """The kinds that have a script of their own, below a class."""
    below = [kind for sub in cls.__subclasses__() for kind in [sub, *kinds(sub)]]
    return [kind for kind in below if isinstance(kind.__dict__.get("_esm"), str)]


def test_every_kind_begins_where_its_sheet_and_its_keys_are_looked_after():
    assert all(hasattr(explore, one) for one in explore.__all__)  # and so each is imported
    found = {kind for kind in kinds(Widget) if kind.__module__.startswith("dtlib.explore")}
    assert found - {*EVERY} >= {Bet, Answer}
    for kind in found:
        sheet = kind._css.removeprefix(kit_sheet() + SEAM)
        on_top, inside, _ = sheet.partition(f".dt-kit.dt-kind-{kind.__name__.lower()} {{")
        assert bool(sheet) == bool(inside) and (not on_top or on_top.startswith("@keyframes"))
        assert kind._esm.startswith(kit_script() + SEAM)
