"""What chapter 14's exercise on events compares with is the library's simulation."""

import pytest

from dtlib.exercises.chapters.parallelism.ch14 import _step_time, _steps
from dtlib.parallelism import simulate_step


def test_the_events_of_the_exercise_are_those_of_the_library():
    ends = [simulate_step(*step).makespan for _, step in _steps()]
    assert [_step_time(*step) for _, step in _steps()] == pytest.approx(ends)
    assert [_step_time(*step, queue=False) for _, step in _steps()] != pytest.approx(ends)
