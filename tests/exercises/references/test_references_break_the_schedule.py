"""What the lab 'Break the schedule' says of damage, of patients and of a late rank."""

from itertools import combinations

import pytest

from dtlib.collectives import (
    Schedule,
    ScheduleError,
    Send,
    check_all_gather,
    check_all_reduce,
    recursive_doubling_all_reduce,
    ring_all_reduce,
)
from dtlib.exercises.labs import break_the_schedule as lab
from dtlib.exercises.labs.break_the_schedule.damage import letters, patients, without
from dtlib.exercises.labs.break_the_schedule.laws import last, rounds


@pytest.mark.parametrize("P", range(2, 7))
def test_every_lost_message_of_a_ring_leaves_a_table_of_its_own(P):
    ring = ring_all_reduce(P)
    tables = [last(without(ring, t, send)) for t, send in rounds(ring)]
    assert not any((one == other).all() for one, other in combinations(tables, 2))
    assert all((table != 1).any() for table in tables)


@pytest.mark.parametrize("P", [2, 4, 8, 16])
def test_ones_notice_no_wrong_source_of_a_doubling_and_so_many_are_harmless(P):
    doubling, depth = recursive_doubling_all_reduce(P), P.bit_length() - 1
    total = harmless = 0
    for t, round in enumerate(doubling):
        for i, send in enumerate(round):
            for src in set(range(P)) - {send.src, send.dst}:
                changed = [list(sends) for sends in doubling]
                changed[t][i] = send._replace(src=src)
                held = last(Schedule(P, 1, changed))
                assert (held.sum(axis=2) == P).all()
                total, harmless = total + 1, harmless + int((held == 1).all())
    assert total == P * depth * (P - 2)
    assert harmless == P * (P - 1 - depth)
    assert P != 8 or lab.harmless.right() == (total, 0, harmless)


def test_each_patient_is_ill_and_only_the_redundant_one_has_right_sums():
    for name, patient in patients().items():
        with pytest.raises(ScheduleError):
            check_all_reduce(patient)
        assert (last(patient) == 1).all() == (name == "redundant")


@pytest.mark.parametrize("P", range(2, 9))
def test_a_late_rank_costs_one_round_and_no_schedule_does_without(P):
    """With one chunk in and out per round, P - 1 rounds would need every port in each of them."""
    for q in range(1, P // 2 + 1):
        check_all_gather(lab.late.reference(P, q))
        needed, silent = P * (P - 1), q
        assert P * (P - 1) - silent < needed <= P * P - silent


def test_letters_say_who_is_in_a_sum_and_how_often():
    assert letters([0, 2, 1]) == "bbc"
    assert letters([0, 0]) == "-"


def test_a_send_that_is_not_there_cannot_get_lost():
    with pytest.raises(ValueError, match="round 0 of the ring all-reduce has no send 0→2"):
        without(ring_all_reduce(4), 0, Send(0, 2, 0))
