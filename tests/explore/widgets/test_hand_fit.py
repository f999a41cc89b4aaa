"""A curve bent by hand: its error is Python's, and the third slider earns its place."""

import itertools

import pytest
from page import opened

from dtlib.collectives import streamed_time
from dtlib.explore import HandFit, between
from dtlib.foundations import GB, format_quantity, formula, us

# all-reduce of two A100s, 512 B to 512 MiB, aiconfigurator
MICROSECONDS = [9.98, 10.05, 10.0, 10.22, 10.97, 12.75, 12.78, 12.97, 13.45, 15.26, 19.37, 40.84,
                47.58, 55.78, 87.13, 128.2, 224.2, 391.5, 747.5, 1430.1, 2781.1]  # fmt: skip
POINTS = [(2 ** (9 + i), t * us) for i, t in enumerate(MICROSECONDS)]
SOLUTION = {"launch": 1e-5, "beta": 220 * GB, "handover": 6e-6}


@formula(symbol="T", unit="s", conditions="two ranks")
def two_rank_time(n, launch, beta, handover):
    return launch + streamed_time(n, beta, handover)


def hand_fit(**changes):
    arguments = {
        "x": {"n": between(512, 2**29, start=2**20)},
        "points": POINTS,
        "sliders": {
            "launch": between(1 * us, 100 * us, start=3 * us),
            "beta": between(10 * GB, 1000 * GB, start=300 * GB),
            "handover": between(0.0, 20 * us, start=0.0, step=0.5 * us),
        },
        "title": "By hand",
        "below": 0.08,
        "solution": SOLUTION,
        "found": "Found.",
        "source": "Points: somebody.",
    }
    return HandFit(two_rank_time, **arguments | changes)


def test_the_error_is_the_mean_of_the_relative_errors():
    errors = [abs((3e-6 + n / 300e9) / seconds - 1) for n, seconds in POINTS]
    assert hand_fit().error() == pytest.approx(sum(errors) / len(errors))


def test_two_sliders_are_not_enough_and_three_are():
    widget = hand_fit()
    values = widget._setting.controls
    pairs = itertools.product(values["launch"].values, values["beta"].values)
    assert min(widget.error(launch=a, beta=b) for a, b in pairs) > 0.17
    assert widget.error(**SOLUTION) < 0.07


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"points": [(512, 0.0)]}, "positive numbers"),
        ({"below": 0.9}, "met already at the start"),
        ({"below": 0.01}, "not met by its solution"),
        ({"solution": {"launch": 1.23e-5}}, "solution, launch: 1.23e-05"),
        ({"sliders": {"launch": between(1 * us, 9 * us, start=3 * us)}}, "needs 'beta'"),
    ],
)
def test_what_cannot_be_fitted_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        hand_fit(**changes)


@pytest.fixture
def tab(browser, tmp_path):
    with opened(browser, tmp_path, hand_fit()) as tab:
        yield tab


def test_a_key_press_moves_the_error_to_what_python_computes_and_reset_brings_it_back(tab):
    widget = hand_fit()
    shown = tab.locator(".dt-row-value")
    start = format_quantity(widget.error(), "%", 3)
    assert shown.text_content() == f"mean error {start}"
    slider = tab.locator("input[type=range]").first
    slider.focus()
    for _ in range(5):
        slider.press("ArrowRight")
    values = widget._setting.controls["launch"]
    moved = widget.error(launch=values.values[values.index + 5])
    assert shown.text_content() == f"mean error {format_quantity(moved, '%', 3)}"
    tab.locator(".dt-reset").click()
    assert shown.text_content() == f"mean error {start}"


def test_the_task_notices_its_solution(tab):
    controls = hand_fit()._setting.controls
    for slider, name in zip(tab.locator("input[type=range]").all(), SOLUTION, strict=True):
        slider.fill(str(controls[name].values.index(SOLUTION[name])))
    assert "Found." in tab.locator(".dt-task").text_content()
    assert tab.locator(".dt-widget .dt-fit-residual").count() == len(POINTS)
