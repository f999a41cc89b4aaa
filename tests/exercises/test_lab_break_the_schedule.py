"""Every check of the lab 'Break the schedule': the solution passes; stub and wrong answers fail."""

from itertools import combinations

import numpy as np
import pytest
from exercise_cases import Case, EveryExercise

from dtlib.collectives import (
    Schedule,
    ScheduleError,
    Send,
    check_all_gather,
    check_all_reduce,
    flat_all_reduce,
    recursive_doubling_all_reduce,
    ring_all_gather,
    ring_all_reduce,
    states,
)
from dtlib.exercises.damage import letters, patients, without

RING = ring_all_reduce(4)


def final(schedule):
    *_, held = states(schedule)
    return held


def edited(schedule, edit):
    rounds = [list(round) for round in schedule]
    edit(rounds)
    return Schedule(schedule.P, schedule.chunks, rounds, schedule.name)


def base(b):
    return lambda rank: b**rank, lambda total, P: [int(total) // b**r % b for r in range(P)]


def bits():
    return lambda rank: 2**rank, lambda total, P: [int(total) >> r & 1 for r in range(P)]


def missing_send(schedule, held, last=False):
    found = [
        (t, send)
        for t, round in enumerate(schedule)
        for send in round
        if (final(without(schedule, t, send)) == held).all()
    ]
    return found[-1 if last else 0]


def first_send(schedule, held):
    return 0, next(iter(schedule.rounds[0]))


def round_of_a_sufferer(schedule, held):
    rank, chunk, _ = np.argwhere(held != 1)[0]
    for t, round in enumerate(schedule):
        for send in round:
            if send.dst == rank and send.chunk <= chunk < send.chunk + send.count:
                return t, send
    return None


def redundant(rounds):
    rounds[2].remove(Send(0, 3, 0))


def redundant_later(rounds):
    rounds[3].remove(Send(2, 3, 0))


def both_gone(rounds):
    redundant(rounds)
    redundant_later(rounds)


def early(rounds, to=1):
    rounds[0].remove(Send(3, 2, 0, True))
    rounds[to].append(Send(3, 2, 0, True))


def swapped(rounds):
    rounds[2] = [Send(1, 0, 0), Send(2, 3, 1)]


def other_senders(rounds):
    swapped(rounds)
    rounds[3] = [Send(1, 3, 0), Send(1, 2, 0), Send(2, 1, 1), Send(2, 0, 1)]


REPAIRS = {"redundant": redundant, "early": early, "swapped": swapped}


def repaired(**other):
    edits = REPAIRS | other
    return {name: edited(patient, edits[name]) for name, patient in patients().items()}


def replaced(t, old, new):
    def edit(rounds):
        rounds[t][rounds[t].index(old)] = new

    return edited(RING, edit)


FIRST = Send(0, 1, 3, True)
PAST_ONES = replaced(0, FIRST, FIRST._replace(src=2))
PAST_RANKS = without(RING, 0, FIRST)


def twice_past_ones():
    """Two sends of the first round come from wrong ranks."""
    other = Send(1, 2, 0, True)

    def edit(rounds):
        rounds[0][rounds[0].index(other)] = other._replace(src=3)

    return edited(PAST_ONES, edit)


def around(P, a, b, order=None):
    rest = [rank for rank in range(P) if rank not in (a, b)]
    order = order(P, a, b) if order else [a, rest[0], b, *rest[1:]]
    rounds = [
        [Send(order[i], order[(i + 1) % P], order[(i - t) % P]) for i in range(P)]
        for t in range(P - 1)
    ]
    return Schedule(P, P, rounds, "around")


def around_with_strange_chunks(P, a, b):
    rest = [rank for rank in range(P) if rank not in (a, b)]
    order = [a, rest[0], b, *rest[1:]]
    rounds = [[Send(order[i], order[(i + 1) % P], (i - t) % P) for i in range(P)] for t in range(P)]
    return Schedule(P, P, rounds[:-1], "around")


def around_in_halves(P, a, b):
    """Every round of the ring twice as long: even places first, then odd ones."""
    rounds = [part for round in around(P, a, b) for part in (list(round)[::2], list(round)[1::2])]
    return Schedule(P, P, rounds, "slowly around")


def around_by_direct_sends(P, a, b):
    rounds = [[Send(r, (r + t + 1) % P, r) for r in range(P)] for t in range(P - 1)]
    return Schedule(P, P, rounds, "direct")


def around_over_one_helper(P, a, b):
    helper = next(rank for rank in range(P) if rank not in (a, b))
    others = [rank for rank in range(P) if rank != helper]
    gather = [Send(rank, helper, rank) for rank in others]
    back = [Send(helper, rank, c) for rank in others for c in range(P) if c != rank]
    return Schedule(P, P, [gather, back], "over one helper")


def late(P, q, helpers=True):
    rounds = [
        [Send(r, (r + t + 1) % P, r) for r in range(P) if r > 0 or t >= q] for t in range(P - 1)
    ]
    holders = [0, *range(q + 1, P)] if helpers else [0] * q
    rounds.append([Send(holders[i], i + 1, 0) for i in range(q)])
    return Schedule(P, P, rounds, "late")


def late_by_waiting(P, q):
    ring = [[Send(r, (r + 1) % P, (r - t) % P) for r in range(P)] for t in range(P - 1)]
    waits = [[Send(r, (r + 1) % P, r)] for r in range(1, q + 1)]
    rounds = [*waits, *ring]
    for sends in waits:
        rounds[q].remove(sends[0])
    return Schedule(P, P, rounds, "waiting")


def late_not_at_all(P, q):
    return Schedule(
        P, P, [[Send(r, (r + t + 1) % P, r) for r in range(P)] for t in range(P - 1)], "not late"
    )


CASES = {
    "ex-break-read": Case(
        solution=(1, Send(2, 3, 0, True)),
        also_right=[(1, (2, 3, 0, True))],
        wrong=[
            ((0, Send(1, 2, 0, True)), "without that send rank 0 would end with acd in chunk 0"),
            ((2, Send(3, 0, 0, True)), "would end with a in chunk 0"),
            ((1, Send(2, 3, 0)), "has no send 2→3 keeps chunk 0"),
            ((9, Send(2, 3, 0, True)), "the rounds are 0 to 5"),
            ((1, 7), "second item must be a Send"),
        ],
    ),
    "ex-break-fingerprints": Case(
        solution=base(4),
        also_right=[base(5), base(8)],
        wrong=[
            (base(10), "beyond the whole numbers that float32 holds"),
            (bits(), "P = 2: a sum with .* in which read finds"),
            (base(3), "P = 2: a sum with .* read finds"),
            ((lambda rank: rank, lambda total, P: [1] * P), "read finds"),
            ((lambda rank: 4**rank, lambda total, P: [1]), "must have 2 items"),
            ((lambda rank: -rank, base(4)[1]), "must not be negative"),
            ((lambda rank: 0.5, base(4)[1]), "must be a whole number"),
        ],
    ),
    "ex-break-blame": Case(
        solution=missing_send,
        also_right=[lambda schedule, held: missing_send(schedule, held, last=True)],
        wrong=[
            (first_send, "without the send that you name it would hold"),
            (round_of_a_sufferer, "one send lost"),
            (lambda schedule, held: (0, Send(0, 1, 0)), "has no send"),
        ],
    ),
    "ex-break-repair": Case(
        solution=repaired(),
        also_right=[repaired(redundant=redundant_later)],
        wrong=[
            (patients(), "redundant: still the patient"),
            (repaired(redundant=both_gone), "redundant: .*lacks ranks"),
            (repaired(early=lambda r: early(r, to=2)), "is overwritten while it is being sent"),
            (repaired(early=lambda r: r[0].remove(Send(3, 2, 0, True))), "early: .*lacks"),
            (repaired(swapped=lambda r: r[2].reverse()), "swapped goes wrong"),
            (repaired(swapped=other_senders), "more has changed than two destinations"),
            (dict.fromkeys(patients(), flat_all_reduce(4)), "keep the two chunks"),
            (repaired() | {"early": repaired()["swapped"]}, "than the round of one send"),
            (6, "keys redundant, early, swapped"),
        ],
    ),
    "ex-break-unnoticed": Case(
        solution=(PAST_ONES, PAST_RANKS),
        also_right=[(replaced(0, FIRST, FIRST._replace(src=3)), PAST_RANKS)],
        wrong=[
            ((RING, PAST_RANKS), "past_ones: every contribution is where it should be"),
            ((PAST_RANKS, PAST_RANKS), "past_ones: noticed. Where every rank gives 1"),
            ((PAST_ONES, PAST_ONES), "past_ranks: noticed. Where every rank gives its number"),
            ((twice_past_ones(), PAST_RANKS), "past_ones: unnoticed, but 2 sends differ"),
            ((recursive_doubling_all_reduce(4), PAST_RANKS), "has 4 chunks"),
            ((ring_all_reduce(3), PAST_RANKS), "for 3 ranks"),
        ],
    ),
    "ex-break-harmless": Case(
        solution=(144, 0, 32),
        wrong=[
            ((24, 0, 32), "damages: each send has several"),
            ((168, 0, 32), "nobody sends to itself"),
            ((144, 112, 32), "noticed by ones: a sum of ones cannot tell"),
            ((144, 5, 32), "count how many ones"),
            ((144, 0, 56), "no damage"),
            ((144, 0, 4), "one receiver of eight"),
            ((144, 0, 112), "the harmful ones"),
        ],
        secret=[144, 32],
    ),
    "ex-break-missing-link": Case(
        solution=around,
        wrong=[
            (lambda P, a, b: around(P, a, b, lambda P, a, b: list(range(P))), "needs the link"),
            (around_with_strange_chunks, "goes wrong|is no all-gather"),
            (around_in_halves, "right, but in .* rounds"),
            (around_by_direct_sends, "needs the link that is missing"),
            (around_over_one_helper, "chunks at once"),
            (lambda P, a, b: ring_all_gather(P), "that is the library's own ring_all_gather"),
            (lambda P, a, b: 6, "give a Schedule, got int"),
        ],
    ),
    "ex-break-late": Case(
        solution=late,
        wrong=[
            (late_by_waiting, "right, but in .* rounds; fewer"),
            (late_not_at_all, "but rank 0 is not there yet"),
            (lambda P, q: late(P, q, helpers=False), "rank 0 sends 2 chunks at once"),
            (lambda P, q: ring_all_gather(P), "write the rounds yourself"),
            (lambda P, q: late(P + 1, q), "the schedule is for 3 ranks"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


@pytest.mark.parametrize("P", range(2, 7))
def test_every_lost_message_of_a_ring_leaves_a_table_of_its_own(P):
    ring = ring_all_reduce(P)
    lost = [(t, send) for t, round in enumerate(ring) for send in round]
    tables = [final(without(ring, t, send)) for t, send in lost]
    assert not any((one == other).all() for one, other in combinations(tables, 2))
    assert all((table != 1).any() for table in tables)


@pytest.mark.parametrize("P", [2, 4, 8, 16])
def test_ones_notice_no_wrong_source_of_a_doubling_and_so_many_are_harmless(P):
    doubling, rounds = recursive_doubling_all_reduce(P), P.bit_length() - 1
    total = harmless = 0
    for t, round in enumerate(doubling):
        for i, send in enumerate(round):
            for src in set(range(P)) - {send.src, send.dst}:
                changed = [list(sends) for sends in doubling]
                changed[t][i] = send._replace(src=src)
                held = final(Schedule(P, 1, changed))
                assert (held.sum(axis=2) == P).all()
                total, harmless = total + 1, harmless + int((held == 1).all())
    assert total == P * rounds * (P - 2)
    assert harmless == P * (P - 1 - rounds)


def test_each_patient_is_ill_and_only_the_redundant_one_has_right_sums():
    for name, patient in patients().items():
        with pytest.raises(ScheduleError):
            check_all_reduce(patient)
        assert (final(patient) == 1).all() == (name == "redundant")


@pytest.mark.parametrize("P", range(2, 9))
def test_a_late_rank_costs_one_round_and_no_schedule_does_without(P):
    """With one chunk in and out per round, P - 1 rounds would need every port in each of them."""
    for q in range(1, P // 2 + 1):
        check_all_gather(late(P, q))
        needed, silent = P * (P - 1), q
        assert P * (P - 1) - silent < needed <= P * P - silent


def test_letters_say_who_is_in_a_sum_and_how_often():
    assert letters([0, 2, 1]) == "bbc"
    assert letters([0, 0]) == "-"


def test_a_send_that_is_not_there_cannot_get_lost():
    with pytest.raises(ValueError, match="round 0 of the ring all-reduce has no send 0→2"):
        without(RING, 0, Send(0, 2, 0))
