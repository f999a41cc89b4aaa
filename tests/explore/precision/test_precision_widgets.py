"""A window for gradients and an outlier among blocks: what they show is what a cast does."""

import numpy as np
import pytest

from dtlib.efficiency import E4M3, FloatFormat, block_quantise, cast, rms_error
from dtlib.explore import FormatWindow, OutlierBlocks, Task
from dtlib.explore.kit.still import still

COUNTS = {power: 1 + power % 5 for power in range(-32, 4)}


@pytest.fixture(scope="module")
def window():
    return FormatWindow(title="A window", counts=COUNTS)


@pytest.fixture(scope="module")
def blocks():
    return OutlierBlocks(title="An outlier")


@pytest.mark.parametrize("bits", [(5, 10), (8, 7), (4, 3), (2, 1)])
@pytest.mark.parametrize("power", [0, 9, 24])
def test_shares_are_what_a_cast_does_to_one_number_of_each_power(window, bits, power):
    kind, total = FloatFormat("built", *bits), sum(COUNTS.values())
    found = dict.fromkeys(("kept", "fewer", "zero", "over"), 0)
    for binade, count in COUNTS.items():
        x = 2.0 ** (binade + power)
        y = cast(1.01 * x, kind)
        if y == 0:
            name = "zero"
        elif np.isinf(y):
            name = "over"
        else:
            name = "fewer" if x < kind.least_normal else "kept"
        found[name] += count / total
    seen = still(window, exponent_bits=bits[0], mantissa_bits=bits[1], power=power)["names"]
    assert {name: seen[name] for name in found} == pytest.approx(found)


def test_a_scale_moves_the_shares(window):
    first, moved = (still(window, power=power)["names"] for power in (0, 16))
    assert moved["kept"] > first["kept"] and moved["zero"] < first["zero"]


def test_the_others_of_a_block_are_lost_whatever_the_outlier_and_no_more(blocks):
    for block in (16, 32, 128):
        seen = still(blocks, block=block, outlier=2**24)["names"]
        assert seen["INT8"] == pytest.approx(((block - 1) / 4096) ** 0.5, rel=0.3)
    x = np.random.default_rng(0).normal(size=4096)
    x[0] = 2.0**20
    due = rms_error(x[1:], block_quantise(x, E4M3, 32).values[1:])
    assert still(blocks, block=32, outlier=2**20)["names"]["E4M3"] == pytest.approx(due, abs=1e-5)
    assert still(blocks, block=4096, outlier=2**20)["names"]["E4M3"] > 0.9


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FormatWindow(title="t", counts={}), "counts is {}"),
        (lambda: FormatWindow(title="t", counts={0: 1}, exponent_bits=9), "exponent_bits: 9"),
        (lambda: OutlierBlocks(title="t", block=17), "block is 17"),
        (lambda: OutlierBlocks(title="t", task=Task("", "INT8 < 1", {})), "met already"),
    ],
)
def test_the_widgets_name_what_is_wrong(make, said):
    with pytest.raises(ValueError, match=said):
        make()
