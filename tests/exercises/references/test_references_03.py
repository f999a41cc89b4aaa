"""What the exercises of chapter 3 compare with, found in another way."""

from itertools import permutations

import pytest

from dtlib.exercises.chapters.foundations.ch03 import (
    _best_order,
    _by_bytes,
    _clusters,
    _latency_at,
    _memories,
    _seconds,
    design_placement,
)
from dtlib.foundations import Axis, AxisOrder, Level, best_axis_order
from dtlib.machines.axis_order import nested_read_time


def test_the_latency_of_the_last_byte_is_that_of_its_level():
    for capacities, latencies in _memories():
        levels = [*zip([*capacities, 0], latencies, strict=True)]
        for size, latency in zip([1000, *(c + 1 for c in capacities)], latencies, strict=True):
            found = _latency_at(lambda size, levels=levels: nested_read_time(size, levels), size)
            assert found == pytest.approx(latency, rel=1e-6)


def test_the_exercise_and_the_library_time_every_order_alike():
    for axes, levels in _clusters():
        named = [Axis(*axis) for axis in axes]
        walls = [Level(str(i), *level) for i, level in enumerate(levels)]
        for order, axis in zip(permutations(axes), permutations(named), strict=True):
            assert _seconds(order, levels) == pytest.approx(AxisOrder(walls, axis).time)
        best = min(_seconds(order, levels) for order in permutations(axes))
        assert best_axis_order(walls, named).time == pytest.approx(best)


def test_sorting_by_bytes_fails_on_as_many_machines_as_a_right_answer_is_told():
    def seconds(order, axes, levels):
        named = {axis[0]: axis for axis in axes}
        return _seconds([named[name] for name in order(axes, levels)], levels)

    fails = sum(seconds(_by_bytes, *c) > 1.000001 * seconds(_best_order, *c) for c in _clusters())
    assert design_placement.verified == f"12 machines, {fails} of which refute sorting by bytes"
