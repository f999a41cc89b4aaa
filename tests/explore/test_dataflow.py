"""The page plays a schedule by the library's own rule."""

import numpy as np
import pytest
from scripts import Scripts

from dtlib.collectives import (
    Switch,
    check_all_reduce,
    double_binary_tree_all_reduce,
    flat_all_reduce,
    halving_doubling_all_reduce,
    recursive_doubling_all_reduce,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    states,
    tree_all_reduce,
)
from dtlib.collectives.check import ScheduleError, at_owners
from dtlib.explore import Stepper
from dtlib.explore.stepper import without

ALL_REDUCES = [
    ring_all_reduce(5),
    tree_all_reduce(6),
    flat_all_reduce(4),
    halving_doubling_all_reduce(8),
    recursive_doubling_all_reduce(4),
    double_binary_tree_all_reduce(7),
]


@pytest.fixture(scope="module")
def js():
    return Scripts("js/dataflow.js")


def exported(schedule, collective="all-reduce") -> dict:
    topology = Switch(schedule.P, alpha=1e-6, beta=1e9)
    stepper = Stepper(schedule, n=1000, topology=topology, collective=collective, done=0)
    return stepper.spec["schedules"][0]


@pytest.mark.parametrize("schedule", ALL_REDUCES, ids=lambda s: s.name)
def test_the_page_plays_a_schedule_as_the_checker_does(js, schedule):
    found = js("playSchedule(schedule)", schedule=exported(schedule))
    assert np.array_equal(found, list(states(schedule)))


def test_an_all_gather_starts_with_what_each_rank_owns(js):
    schedule = ring_all_gather(4)
    found = js("playSchedule(schedule)", schedule=exported(schedule, "all-gather"))
    assert np.array_equal(found, list(states(schedule, at_owners)))


@pytest.mark.parametrize("schedule", ALL_REDUCES, ids=lambda s: s.name)
def test_a_dropped_message_spoils_the_same_cells_in_the_page(js, schedule):
    t, position = len(schedule) // 2, 0
    spec = exported(schedule)
    found = js(f"playSchedule(schedule, [{t}, {position}])", schedule=spec)
    *_, last = states(without(schedule, t, position))
    assert np.array_equal(found[-1], last)
    wrong = js("wrongCells(last, schedule.goal, schedule.wanted)", last=found[-1])
    assert wrong == np.argwhere((last != 1).any(axis=2)).tolist()
    assert wrong, "the comparison would pass if nothing were dropped"


def test_a_reduce_scatter_is_judged_by_the_chunks_that_a_rank_owns(js):
    spec = exported(ring_reduce_scatter(4), "reduce-scatter")
    assert spec["verdict"] == ""
    assert js("wrongCells(s.goal, s.goal, s.wanted)", s=spec) == []
    wrong = js("wrongCells(playSchedule(s, [0, 0])[3], s.goal, s.wanted)")
    assert wrong == [[3, 3]], "the first message's sum ends at the owner of chunk 3"


def test_the_page_says_what_the_checker_says():
    schedule = ring_all_reduce(3)
    breaks = exported(schedule)["breaks"]
    assert [len(round) for round in breaks] == [len(round) for round in schedule]
    for t, round in enumerate(breaks):
        for position, said in enumerate(round):
            with pytest.raises(ScheduleError) as error:
                check_all_reduce(without(schedule, t, position))
            assert said == str(error.value)


def test_bytes_sent_are_those_of_the_schedule(js):
    schedule = halving_doubling_all_reduce(8)
    spec = exported(schedule)
    chunks = js("chunksSent(s, s.rounds.length)", s=spec)
    assert [1000 * c / spec["parts"] for c in chunks] == [
        float(b) for b in schedule.sent_bytes(1000)
    ]


def test_a_send_reads_as_in_the_library(js):
    sends = [*halving_doubling_all_reduce(8).sends(), *tree_all_reduce(4).sends()]
    found = js("sends.map(describeSend)", sends=[[*map(int, send)] for send in sends])
    assert found == [str(send) for send in sends]
