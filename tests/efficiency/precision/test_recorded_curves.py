"""The recorded curves of the small GPT say what chapter 30 says of them."""

import pytest

from dtlib import recordings
from dtlib.efficiency import BF16, E5M2, FP16
from dtlib.scaling_laws.grid.language import ZipfWords


@pytest.fixture(scope="module")
def curves():
    return recordings.load("precision-curves").samples


def furthest(a, b) -> float:
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def test_bits_that_differ_leave_the_curve_where_it_is(curves):
    luck = furthest(curves["fp32, other weights"], curves["fp32"])
    assert furthest(curves["bf16"], curves["fp32"]) < luck / 3
    assert furthest(curves["E4M3, no scale"], curves["fp32"]) > 3 * luck


def test_no_run_goes_below_the_entropy(curves):
    assert min(min(losses) for losses in curves.values()) > ZipfWords().E


def test_fp16s_window_ends_above_most_of_the_recorded_gradients():
    counts = recordings.load("precision-gradients").samples
    found = {int(power): count for power, (count,) in counts.items() if power != "zero"}
    total = sum(found.values())
    below = {kind: sum(count for power, count in found.items() if power < kind.least_exponent)
             for kind in (FP16, BF16)}  # fmt: skip
    assert below[FP16] > 0.9 * total and below[BF16] == 0
    half = E5M2.least_exponent - E5M2.mantissa_bits - 1
    assert sum(count for power, count in found.items() if power < half) > total / 2
