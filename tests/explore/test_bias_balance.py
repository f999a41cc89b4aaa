"""The run of a balancer on the page is the library's, and its task can be done."""

import pytest
from page import opened

from dtlib.explore import BiasBalance, Task
from dtlib.explore.bias_balance import GAMMAS
from dtlib.foundations import format_quantity
from dtlib.parallelism import balanced_by_bias

TASK = Task("Below 1.15.", "busiest < 1.15 and step <= 60", {"gamma": 0.01, "step": 60}, "Yes.")


@pytest.fixture(scope="module")
def widget():
    return BiasBalance(title="Move the biases", task=TASK)


def test_what_is_shown_is_the_run_of_the_library(widget):
    run = balanced_by_bias(0.01, steps=301)
    for step in (0, 5, 60, 300):
        assert widget.busiest(gamma=0.01, step=step) == pytest.approx(run[step])
    assert len(str(widget.spec)) < 60_000
    assert widget.spec == BiasBalance(title="Move the biases", task=TASK).spec


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gamma": 0.5}, "gamma: 0.5, but must be one of 0.0001"),
        ({"step": 3}, "step: 3"),
        ({"task": Task("", "busiest > 1", {})}, "met already"),
        ({"task": Task("", "busiest < 1", {"step": 300})}, "is not met by its solution"),
    ],
)
def test_the_widget_names_what_is_wrong(options, said):
    with pytest.raises(ValueError, match=said):
        BiasBalance(title="Move the biases", **options)


def test_no_run_with_a_tenth_does_the_task(widget):
    assert min(widget.busiest(gamma=0.1, step=t) for t in range(0, 301, 5)) > 1.5


@pytest.fixture
def tab(browser, tmp_path, request, widget):
    theme = getattr(request, "param", "light")
    options = {"viewport": {"width": 390, "height": 1000}, "has_touch": True}
    with opened(browser, tmp_path, widget, theme=theme, **options) as tab:
        yield tab


def test_in_the_browser_keys_lead_to_the_library_s_number(tab, widget):
    gamma, step = (tab.locator(".dt-controls .dt-range").nth(i) for i in (0, 1))
    for _ in range(GAMMAS.index(0.01) - GAMMAS.index(0.001)):
        gamma.press("ArrowRight")
    for _ in range(12):
        step.press("ArrowRight")
    shown = format_quantity(widget.busiest(gamma=0.01, step=60), "×", 3)
    assert shown in tab.locator(".dt-router-key").text_content()
    assert tab.locator(".dt-task.is-met").count() == 1
    tab.locator(".dt-reset").click()
    assert tab.locator(".dt-task.is-met").count() == 0


@pytest.mark.parametrize("tab", ["light", "dark"], indirect=True)
def test_nothing_shuts_a_reader_out_and_a_phone_shows_it_all(tab):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(tab).response["violations"]
    assert [(fault["id"], fault["nodes"][0]["target"]) for fault in found] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
