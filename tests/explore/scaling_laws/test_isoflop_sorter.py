"""The sorter of isoFLOP runs: the page draws what was fitted, and where nothing was run."""

from functools import cache

import pytest

from dtlib.drawing.svg import called
from dtlib.explore import IsoflopSorter
from dtlib.explore.isoflop_sorter.isoflop_sorter import RUN
from dtlib.scaling_laws import fit_isoflop, porian_runs

START = {"counted": 0, "warmup": "long", "training": "kaplan", "budget": 1e17}


@cache
def whole() -> IsoflopSorter:
    return IsoflopSorter(title="Sort them")


def seen(script: str | None = None, **change) -> dict:
    """What the widget's script says of a state, without a page."""
    text = (script or whole()._esm).replace("export default widget(", "const drawing = widget(")
    return called(text, "view(spec, state)", spec=whole().spec, state=START | change)


@pytest.mark.parametrize("switches", RUN)
def test_the_page_has_the_exponents_that_the_library_fits(switches):
    state = dict(zip(("counted", "warmup", "training"), switches, strict=True))
    fit = fit_isoflop(porian_runs(RUN[switches]))
    names = seen(**state)["names"]
    assert names == whole().names(**state)
    assert names["exponent"] == pytest.approx(fit.law.exponent, rel=1e-4)
    assert names["used"] == len(fit.used)


def test_settings_that_nobody_ran_have_no_exponent_and_the_page_says_so():
    found = seen(warmup="short")
    assert found["names"] == {"there": 0, "exponent": 0, "used": 0}
    assert "No runs" in found["said"]


def test_a_budget_without_a_best_model_gives_its_reason():
    assert "2 points near the lowest" in seen(budget=1.25e16)["said"]


def test_a_script_that_confuses_two_settings_is_noticed():
    wrong = whole()._esm.replace("t === training", "true")
    assert wrong != whole()._esm
    state = {"counted": 1, "warmup": "short", "training": "tuned"}
    assert seen(wrong, **state)["names"] != whole().names(**state)
