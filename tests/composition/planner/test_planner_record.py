"""What is recorded of the planner's accuracy: regrets by hand, and points that give no run away."""

from dataclasses import dataclass
from statistics import mean

import numpy as np
import pytest

from benchmarks.composition.planner_accuracy import (
    MARGIN,
    SHARE,
    Judged,
    error,
    regrets,
    repeated,
)
from benchmarks.composition.planner_fit import constants
from benchmarks.composition.planner_record import MOST, points
from dtlib import recordings
from dtlib.layout import Layout


@dataclass(frozen=True)
class Timed:
    name: str
    ranks: int
    layout: Layout
    seconds: float


def timed(seconds: float, **layout) -> Timed:
    return Timed("one", 8, Layout(**layout), seconds)


RUNS = [
    timed(2.0, dp=8), timed(4.0, dp=8), timed(2.4, dp=4, tp=2), timed(3.6, dp=2, tp=4),
    timed(6.0, tp=8), timed(2.5, dp=4, pp=2), timed(9.0, dp=2, pp=4),
]  # fmt: skip


def test_a_regret_is_what_the_order_by_prediction_finds():
    """The layout that was run twice counts with the median of its times, and a pipeline waits."""
    predicted = np.array([5.0, 5.0, 1.0, 2.0, 3.0, 0.9, 4.0])
    (cell,) = regrets(RUNS, predicted)
    best = 2.4
    order = [2.4, 2.5, 3.6, 6.0, 9.0]  # 0.9 of the pipeline is 1.035 with the margin
    assert 0.9 * MARGIN > 1.0
    behind = [time / best - 1 for time in order]
    assert cell.first == 0 and cell.five == pytest.approx(mean(behind))
    assert cell.four == pytest.approx(mean(behind[:4]))
    fastest = [2.4, 2.5, 3.0, 3.6, 6.0]
    assert cell.floor == pytest.approx(mean(time / best - 1 for time in fastest))
    assert repeated(RUNS) == [2.0]
    (other,) = regrets(RUNS, predicted[::-1])
    assert other.first > 0  # the twin: another order, another choice


def test_points_have_the_errors_and_no_measured_time():
    rng = np.random.default_rng(0)
    measured, seconds = rng.uniform(1, 9, 100), rng.uniform(1, 9, 100)
    ratios = (seconds / measured).tolist()
    table = Judged("some", ratios, ratios[::-1], seconds.tolist())
    found = points(table)
    assert len(found) == MOST
    assert [row[1] for row in found] == sorted(row[1] for row in found)
    assert found[0][1] == round(min(ratios), 4) and found[-1][1] == round(max(ratios), 4)
    for shown, ratio, _ in found:
        assert shown == float(f"{shown:.2g}")
        assert not np.isclose(shown / ratio, measured, rtol=1e-6).any()


def test_the_recording_is_one_and_its_points_are_its_errors():
    found = recordings.load("planner-accuracy")
    for name, count, middle in zip(
        *(found.about[k] for k in ("tables", "counts", "middles")), strict=True
    ):
        rows = found.about["points"][name]
        assert len(rows) == min(count, MOST)
        if count <= MOST and middle == "mean":
            assert found.median(f"engine, {name}") == pytest.approx(
                error([r[1] for r in rows]), abs=1e-4
            )
            assert found.median(f"one share, {name}") == pytest.approx(
                error([r[2] for r in rows]), abs=1e-4
            )
    assert set(found.about["goals"]) <= set(found.about["tables"]) | set(found.samples)


def test_the_page_says_how_many_constants_there_are_and_which_share():
    assert (len(constants()), SHARE) == (31, 0.45)
