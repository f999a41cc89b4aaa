"""The page fills experts as the library does, and its task can be done."""

import pytest
from page import opened
from scripts import Scripts

from dtlib.explore import RouterBalance, Task
from dtlib.explore.router_balance import CAPACITIES, CHOSEN, EXPERTS, SKEWS
from dtlib.foundations import format_quantity
from dtlib.parallelism import fill_experts

TASK = Task(
    "At skew 1, drop less than 5 %.",
    "skew >= 1 and dropped < 0.05",
    {"skew": 1, "capacity": 5},
    "Most places are empty.",
)


def widget(**options):
    return RouterBalance(title="Who gets how much", **{"task": TASK} | options)


def test_the_page_counts_drops_and_waste_as_the_library_does():
    scripts = Scripts("router_model.js")
    for name, loads in widget(task=None).spec["loads"].items():
        experts, k, _ = name.split()
        assert len(loads) == int(experts) and sum(loads) == 4096 * int(k)
        for c in (CAPACITIES[0], CAPACITIES[2], CAPACITIES[-1]):
            found, ours = scripts("fillExperts(l, c)", l=loads, c=c), fill_experts(loads, c)
            assert found["capacity"] == ours.capacity
            for part in ("dropped", "wasted", "busiest"):
                assert found[part] == pytest.approx(getattr(ours, part), abs=1e-9)


def test_the_widget_is_the_same_on_every_build_and_has_a_figure_for_print():
    first, second = widget(), widget()
    assert first.spec == second.spec and first.static().html == second.static().html
    assert set(first.spec["loads"]) == {
        f"{e} {k} {s}" for e in EXPERTS for k in CHOSEN for s in SKEWS
    }
    assert len(str(first.spec)) < 40_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"experts": 7}, "experts: 7, but must be one of 8, 16"),
        ({"capacity": 0.5}, "capacity: 0.5"),
        ({"task": Task("", "dropped < 1", {})}, "met already"),
        ({"task": Task("", "wasted > 1", {"skew": 2})}, "is not met by its solution"),
        ({"task": Task("", "gamma > 1", {})}, "no 'gamma'"),
    ],
)
def test_the_widget_names_what_is_wrong(options, said):
    with pytest.raises(ValueError, match=said):
        widget(**options)


@pytest.fixture
def tab(browser, tmp_path, request):
    theme = getattr(request, "param", "light")
    options = {"viewport": {"width": 390, "height": 900}, "has_touch": True}
    with opened(browser, tmp_path, widget(), theme=theme, **options) as tab:
        yield tab


def test_in_the_browser_keys_move_the_loads_to_the_library_s_numbers(tab):
    start = widget().filled(experts=16, k=2, skew=0.5, capacity=1.25)
    key = tab.locator(".dt-router-key")
    assert f"dropped {format_quantity(start.dropped, '%')}" in key.text_content()
    skew, capacity = (tab.locator(".dt-controls .dt-range").nth(i) for i in (2, 3))
    for _ in range(SKEWS.index(1) - SKEWS.index(0.5)):
        skew.press("ArrowRight")
    for _ in range(CAPACITIES.index(5) - CAPACITIES.index(1.25)):
        capacity.press("ArrowRight")
    end = widget().filled(experts=16, k=2, skew=1, capacity=5)
    assert f"empty places {format_quantity(end.wasted, '%')}" in key.text_content()
    assert tab.locator(".dt-task.is-met").count() == 1
    tab.locator(".dt-reset").click()
    assert f"dropped {format_quantity(start.dropped, '%')}" in key.text_content()


@pytest.mark.parametrize("tab", ["light", "dark"], indirect=True)
def test_nothing_shuts_a_reader_out_and_a_phone_shows_it_all(tab):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(tab).response["violations"]
    assert [(fault["id"], fault["nodes"][0]["target"]) for fault in found] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
