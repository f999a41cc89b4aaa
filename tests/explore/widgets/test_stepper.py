"""The page plays a schedule by the library's own rule, and says what the checker says."""

import numpy as np
import pytest
from page import opened
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
from dtlib.explore import Stepper, Task
from dtlib.explore.kit.still import still
from dtlib.explore.stepper.stepper import without

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
    return Scripts("stepper/model.js")


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


SWITCH = Switch(4, alpha=5e-6, beta=50e9)


def ring(**options) -> Stepper:
    return Stepper(ring_all_reduce(4), n=64e6, topology=SWITCH, **options)


def test_a_ring_ends_complete_with_the_least_bytes():
    end = still(ring(), done=99)
    assert "16 of 16 chunks complete; the busiest rank has sent 96 MB. No all-reduce" in end["said"]
    assert end["figures"][0].count("is-complete") == 16
    assert ring().spec["bound"] == ring_all_reduce(4).sent_bytes(64e6)[0]


def test_a_dropped_message_brings_the_checker_s_words_and_a_task_may_ask_for_it():
    shown = ring(task=Task("Spoil one everywhere.", "wrong == 4", {"drop": (0, 0)}))
    found = still(shown, done=99, drop=[0, 2])
    assert (found["names"]["wrong"], found["names"]["dropped"]) == (4, 0)
    assert found["figures"][0].count("is-lost") == 4
    assert shown.names(drop=(0, 2)) == {"done": 1, "rounds": 6, "wrong": 4, "dropped": 0}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"collective": "all-sum"}, "collective 'all-sum'; allowed are"),
        ({"task": Task("", "wrong == 0", {})}, "met already at the start"),
        ({"task": Task("", "wrong == 1", {"drop": (0, 0)})}, "not met by its solution"),
    ],
)
def test_a_stepper_names_what_is_wrong(options, said):
    with pytest.raises(ValueError, match=said):
        ring(**options)


def test_a_stepper_refuses_ranks_that_nobody_could_see():
    with pytest.raises(ValueError, match="at most 16 ranks"):
        Stepper(ring_all_reduce(17), n=1, topology=Switch(17, 1e-6, 1e9))


def test_keys_drop_a_message_and_follow_a_rank(browser, tmp_path):
    with pytest.raises(ScheduleError) as error:
        check_all_reduce(without(ring_all_reduce(4), 0, 1))
    with opened(browser, tmp_path, ring(), viewport={"width": 1000, "height": 900}) as tab:
        tab.get_by_role("button", name="0→1 adds chunk 3").focus()
        for key in ("ArrowRight", "Enter"):
            tab.keyboard.press(key)
        assert tab.locator(".dt-row-value").first.text_content() == str(error.value)
        tab.keyboard.press("Enter")
        assert tab.locator(".dt-row").count() == 0
        tab.get_by_role("button", name="follow rank 1").click()
        pale = tab.locator(".dt-widget .dt-message[opacity]").count()
        assert (pale, tab.locator(".dt-widget .dt-message").count()) == (2, 4)


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_chunks_move_only_for_readers_who_like_motion(browser, tmp_path, motion):
    with opened(browser, tmp_path, ring(), reduced_motion=motion) as tab:
        seen = tab.get_by_role("button", name="One round on").evaluate(
            "step => { step.click(); return document.querySelectorAll('.dt-token').length; }"
        )
        assert (seen == 0) == (motion == "reduce")
        tab.wait_for_function("!document.querySelector('.dt-token')")
