"""Logs of a practice run: what is in them can be found, and what is not in them costs nothing."""

from dataclasses import replace
from statistics import median

import pytest
from wrong_answers import MODULES

from dtlib.collectives import ring_all_reduce_time
from dtlib.exercises.practice.run import (
    MB,
    Logs,
    Record,
    draw_machine,
    logs_of,
    practice_logs,
)

autopsy = MODULES["all_reduce_autopsy"]


@pytest.mark.parametrize("seed", range(300, 330))
def test_every_cause_can_be_found_on_any_machine(seed):
    machine, raw = draw_machine(seed), practice_logs(seed)
    assert autopsy.clock_offsets(raw) == pytest.approx(machine.offsets, abs=machine.alpha / 2)
    logs = raw.aligned(machine.offsets)
    alpha, beta = autopsy.healthy_link(logs)
    assert alpha == pytest.approx(machine.alpha, rel=0.15)
    assert beta == pytest.approx(machine.beta, rel=0.05)
    assert autopsy.straggler(logs) == (machine.straggler, pytest.approx(machine.delay, rel=0.1))
    link = (machine.slow_link, pytest.approx(machine.slow_factor, rel=0.06))
    assert autopsy.slow_link(logs) == link
    assert autopsy.contention(logs) == pytest.approx(machine.contention, abs=0.03)
    assert autopsy.gains(raw, 256 * MB) == pytest.approx(machine.gains(256 * MB), rel=0.15)


def test_the_ring_of_a_machine_without_faults_is_the_formula():
    sound = replace(draw_machine(5), slow_factor=1.0, delay=0.0)
    expected = ring_all_reduce_time(64 * MB, sound.ranks, sound.alpha, sound.beta)
    assert sound.all_reduce_time(64 * MB, busy=False) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_removing_a_cause_gains_what_the_run_without_it_shows(seed):
    machine = draw_machine(seed)
    without = {
        "straggler": replace(machine, delay=0.0),
        "slow link": replace(machine, slow_factor=1.0),
        "contention": replace(machine, contention=0.0),
    }

    def seconds(machine):
        calls = practice_logs(seed, machine).aligned(machine.offsets).calls("all-reduce", busy=True)
        whole = [max(waits) + rest for waits, rest in map(autopsy.split, calls)]
        return median(w for w, c in zip(whole, calls, strict=True) if c[0].bytes == 256 * MB)

    for cause, gain in machine.gains(256 * MB).items():
        shown = seconds(machine) - seconds(without[cause])
        assert shown == pytest.approx(gain, rel=0.1, abs=0.05 * seconds(machine))


def test_the_same_seed_makes_the_same_logs_and_another_others():
    assert practice_logs(3) == practice_logs(3)
    assert practice_logs(3) != practice_logs(4)


def test_logs_of_ranks_find_the_one_that_sleeps():
    sleeps = [0.0, 0.0, 0.05, 0.0]
    ranks = [
        [Record(i, "all-reduce", r, 4, False, i + sleeps[r], i + 0.06) for i in range(5)]
        for r in range(4)
    ]
    assert autopsy.straggler(logs_of(ranks)) == (2, pytest.approx(0.05))


def test_logs_want_an_offset_for_each_rank():
    with pytest.raises(ValueError, match="2 ranks have 2 offsets, got 1"):
        Logs(2, ()).aligned([0.0])
