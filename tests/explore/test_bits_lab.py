"""The bits lab: the page rounds, adds and bounds as the library does."""

import json
import math

import pytest
from page import opened
from scripts import Scripts

from dtlib.explore import BitsLab, Task
from dtlib.parallelism import summation_error_bound
from dtlib.parallelism.data.rounding import (
    BITS,
    ORDERS,
    condition_number,
    hard_numbers,
    rounded,
    summed,
    unit_roundoff,
)

TASK = Task("lose it", "error >= 1 and kind == 0", {"kind": 0, "condition": 1e8, "P": 64}, "Lost.")


def lab(**options) -> BitsLab:
    return BitsLab(**{"title": "How many digits are right?", "task": TASK} | options)


@pytest.fixture(scope="module")
def model():
    return Scripts("js/bits_model.js")


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("P", [2, 3, 8, 64])
def test_the_page_rounds_and_adds_as_the_library_does(model, kind, P):
    for seed, condition in enumerate((1, 30, 1e4, 1e8)):
        values = hard_numbers(P, condition, seed)
        found = model("hardNumbers(P, condition, seed)", P=P, condition=condition, seed=seed)
        assert found == pytest.approx(values, rel=1e-7, abs=1e-15)
        given = {"values": values, "bits": BITS[kind]}
        assert model("values.map(v => roundTo(v, bits))", **given) == [
            rounded(v, kind) for v in values
        ]
        for order in ORDERS:
            for chunk in (0, P - 1):
                got = model("sumIn(order, values, bits, chunk)", order=order, chunk=chunk, **given)
                assert got == summed(values, order, kind, chunk)
        assert model("exactSum(values)", **given) == math.fsum(values)
        c = condition_number(values)
        bound = summation_error_bound(unit_roundoff(kind), P + 1, c)
        assert model("boundOf(P, c, bits)", P=P, c=c, **given) == pytest.approx(bound)


def test_sabotage_rounding_half_away_from_zero_is_noticed(model):
    assert model("roundTo(x, 8)", x=1 + 1 / 256) == 1 == rounded(1 + 1 / 256, "bf16")
    assert model("roundTo(x, 8)", x=1 + 3 / 256) == 1 + 2 / 128 == rounded(1 + 3 / 256, "bf16")


def test_a_lab_that_would_mislead_is_refused():
    with pytest.raises(ValueError, match="met already at the start"):
        lab(task=Task("", "P == 8", {}))
    with pytest.raises(ValueError, match="is not met by its solution"):
        lab(task=Task("", "P == 8 and order == 0", {"order": 2}))


def test_a_lab_is_the_same_on_every_build_and_has_a_figure_for_print():
    assert json.dumps(lab().spec) == json.dumps(lab().spec)
    assert lab().static().html == lab().static().html
    assert repr(lab()) == "BitsLab('How many digits are right?')"


def test_keys_change_the_format_and_the_task_notices(browser, tmp_path):
    with opened(browser, tmp_path, lab(), viewport={"width": 900, "height": 1000}) as tab:
        summary = tab.locator(".dt-summary")
        assert "8 ranks, ring, bf16, condition number 100" in summary.inner_text()
        tab.get_by_label("fp32").check()
        for name in ("ranks", "condition number"):
            tab.locator(f'input[aria-label^="{name}"]').focus()
            tab.keyboard.press("End")
        tab.wait_for_function(
            "document.querySelector('.dt-summary').textContent.includes('64 ranks, ring, fp32')"
        )
        state = {"kind": 0, "condition": 1e8, "P": 64, "order": 1}
        done = lab().values(**state)["error"] >= 1
        assert ("Done. Lost." in tab.locator(".dt-task").inner_text()) == done
        tab.locator(".dt-reset").click()
        tab.wait_for_function(
            "document.querySelector('.dt-summary').textContent.includes('8 ranks, ring, bf16')"
        )
