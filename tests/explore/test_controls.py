"""Values of controls, and tasks that can be met and are not met already."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts import Scripts

from dtlib.explore import Task, between
from dtlib.explore.controls import slider_over
from dtlib.formulas.units import GB, KB, us

POSITIVE = st.floats(1e-9, 1e12)


@given(POSITIVE, POSITIVE, st.floats(0, 1))
def test_a_control_keeps_its_ends_and_its_start_and_is_in_order(a, b, part):
    low, high = sorted((float(f"{a:.6g}"), float(f"{b:.6g}")))
    if low == high:
        return
    start = min(max(float(f"{low + part * (high - low):.9g}"), low), high)
    control = between(low, high, start=start)
    assert control.values[0] == low and control.values[-1] == high
    assert control.values[control.index] == start
    assert list(control.values) == sorted(set(control.values))


def test_a_logarithmic_control_takes_preferred_numbers():
    values = between(1e3, 1e4, start=1e3, scale="log").values
    assert len(values) == 21
    ratios = [b / a for a, b in itertools.pairwise(values)]
    assert min(ratios) > 1.07 and max(ratios) < 1.19


def test_arithmetic_leaves_no_double_values():
    pairs = itertools.pairwise(between(0.1 * us, 100 * us, start=5 * us).values)
    assert min(math.log(b / a) for a, b in pairs) > 0.05


def test_whole_numbers_stay_whole():
    assert all(isinstance(value, int) for value in between(1 * KB, 1 * GB, start=1 * KB).values)
    assert between(2, 1024, start=8).values == tuple(2**k for k in range(1, 11))


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((5, 5), {"start": 5}, "must be the larger"),
        ((1, 10), {"start": 11}, "start 11 is outside 1 to 10"),
        ((-1, 10), {"start": 1, "scale": "log"}, "needs a range above 0"),
        ((1, 10), {"start": 1, "scale": "cubic"}, "scale 'cubic'"),
        ((3, 16), {"start": 4, "scale": "powers of two"}, "powers of two"),
    ],
)
def test_a_control_names_what_is_wrong(arguments, options, said):
    with pytest.raises(ValueError, match=said):
        between(*arguments, **options)


@pytest.mark.parametrize(
    ("unit", "values", "said"),
    [
        ("s", [0.0, 0.01, 0.2], "0 s to 200 ms"),
        ("%", [0, 0.5, 1], "0 % to 100 %"),
        ("×", [0.2, 1, 3], "0.2× to 3×"),
        ("", [1, 2, 1024], "1 to 1024"),
    ],
)
def test_a_slider_says_its_range_with_the_unit(unit, values, said):
    assert slider_over("x", "x", unit, values, values[0])["plain"] == said


CONDITIONS = [
    "ring < tree and P >= 64",
    "0.9 < ring / tree < 1.1 or not P > 3",
    "abs(ring - tree) <= max(ring, tree, P) ** 2",
    "-ring + 2 * tree != P",
    "min(ring, tree) == 2",
]
VALUES = st.integers(-5, 70)


@given(st.sampled_from(CONDITIONS), VALUES, VALUES.filter(bool), VALUES)
def test_a_condition_means_the_same_in_the_page(condition, ring, tree, P):
    names = {"ring": ring, "tree": tree, "P": P}
    task = Task("", condition, {})
    js = Scripts()
    assert js(f"Boolean({task.js(names)})", **names) == task.holds(names)


@pytest.mark.parametrize(
    "condition", ["ring < other", "ring.real > 1", "[ring]", "ring if P else 1", "print(ring)"]
)
def test_a_condition_that_the_page_cannot_know_is_refused(condition):
    with pytest.raises(ValueError, match="condition"):
        Task("", condition, {}).js(["ring", "P"])
