"""Many layouts at once are the layouts one by one."""

import random

import numpy as np
import pytest

from dtlib.layout import POLICIES, Layout, even_stages
from dtlib.layouts import Layouts


def some_layouts(count: int, layers: int) -> list[Layout]:
    dice = random.Random(1)
    found = []
    for _ in range(count):
        pp = dice.choice([1, 2, 3, 4, 5, 8])
        flash = dice.random() < 0.5
        found.append(
            Layout(
                tp=dice.choice([1, 2, 8]), cp=dice.choice([1, 2]), pp=pp, dp=dice.choice([1, 4, 6]),
                zero=dice.randrange(4), interleave=1 if pp == 1 else dice.choice([1, 2]),
                micro_batch=dice.choice([1, 2, 4]), sequence_parallel=not flash, flash=flash,
                recompute=dice.choice(POLICIES),
                stages=even_stages(layers, pp) if layers % pp else None,
            )
        )  # fmt: skip
    return found


def test_there_and_back():
    rows = some_layouts(200, 32)
    columns = Layouts.of(rows, 32)
    assert [columns[i] for i in range(len(rows))] == rows
    assert columns.ranks.tolist() == [row.ranks for row in rows]
    assert columns.most_layers.tolist() == [max(even_stages(32, row.pp)) for row in rows]
    whole = np.array([row.recompute == "full" for row in rows])
    assert (columns.is_full == whole).all()
    assert [columns[whole][i] for i in range(whole.sum())] == [
        row for row in rows if row.recompute == "full"
    ]


def test_micro_batches_are_those_of_each():
    rows = some_layouts(50, 32)
    assert Layouts.of(rows, 32).micro_batches(96).tolist() == [r.micro_batches(96) for r in rows]
    with pytest.raises(ValueError, match="batch is 20, but must be a multiple of dp x micro_batch"):
        Layouts.of([Layout(), Layout(dp=8)], 32).micro_batches(20)


def test_stages_of_their_own_stay_with_their_layouts():
    rows = [Layout(pp=2, stages=[20, 12]), Layout(pp=4), Layout(pp=3, stages=[2, 25, 5])]
    columns = Layouts.of(rows, 32)
    assert [columns[i] for i in range(3)] == rows
    assert [columns[::-1][i] for i in range(3)] == rows[::-1]
    ends = columns.most_layers, columns.first_layers, columns.last_layers
    assert [column.tolist() for column in ends] == [[20, 8, 25], [20, 8, 2], [12, 8, 5]]
    even = Layouts.of([Layout(pp=3, stages=[11, 11, 10])], 32)
    assert even.stages is None and even.last_layers.tolist() == [10]


def test_stages_that_are_not_the_layers_are_refused():
    with pytest.raises(ValueError, match=r"stages is \(20, 13\), but must be counts that add"):
        Layouts.of([Layout(pp=2, stages=[20, 13])], 32)
    with pytest.raises(ValueError, match="even_stages: pp is 64, but must be at most 32"):
        Layouts.of([Layout(pp=64)], 32)[0]
