"""Wrong answers of the lab 'Break the schedule' that no slip derives: (exercise, answer, why)."""

import numpy as np

from dtlib.collectives import (
    Schedule,
    Send,
    flat_all_reduce,
    recursive_doubling_all_reduce,
    ring_all_gather,
    ring_all_reduce,
)
from dtlib.exercises.labs import break_the_schedule as lab
from dtlib.exercises.labs.break_the_schedule.damage import patients, without
from dtlib.exercises.labs.break_the_schedule.laws import last, rounds

REPAIRED, (PAST_ONES, PAST_RANKS) = lab.repair.right(), lab.unnoticed.right()


def edited(schedule, edit):
    rounds = [list(round) for round in schedule]
    edit(rounds)
    return Schedule(schedule.P, schedule.chunks, rounds, schedule.name)


def repaired(name, edit):
    return REPAIRED | {name: edited(patients()[name], edit)}


def both_gone(rounds):
    rounds[2].remove(Send(0, 3, 0))
    rounds[3].remove(Send(2, 3, 0))


def other_senders(rounds):
    rounds[2] = [Send(1, 0, 0), Send(2, 3, 1)]
    rounds[3] = [Send(1, 3, 0), Send(1, 2, 0), Send(2, 1, 1), Send(2, 0, 1)]


def other_source(rounds):
    rounds[0][rounds[0].index(Send(0, 1, 3, True))] = Send(3, 1, 3, True)


def twice_past_ones(rounds):
    rounds[0][rounds[0].index(Send(1, 2, 0, True))] = Send(3, 2, 0, True)


def last_that_fits(schedule, held):
    fits = [x for x in rounds(schedule) if (last(without(schedule, *x)) == held).all()]
    return fits[-1]


def round_of_a_sufferer(schedule, held):
    rank, chunk, _ = np.argwhere(held != 1)[0]
    for t, round in enumerate(schedule):
        for send in round:
            if send.dst == rank and send.chunk <= chunk < send.chunk + send.count:
                return t, send
    return None


def around_with_strange_chunks(P, a, b):
    rest = [rank for rank in range(P) if rank not in (a, b)]
    order = [a, rest[0], b, *rest[1:]]
    rounds = [[Send(order[i], order[(i + 1) % P], (i - t) % P) for i in range(P)] for t in range(P)]
    return Schedule(P, P, rounds[:-1])


def around_by_direct_sends(P, a, b):
    return Schedule(P, P, [[Send(r, (r + t + 1) % P, r) for r in range(P)] for t in range(P - 1)])


def around_over_one_helper(P, a, b):
    helper = next(rank for rank in range(P) if rank not in (a, b))
    others = [rank for rank in range(P) if rank != helper]
    gather = [Send(rank, helper, rank) for rank in others]
    back = [Send(helper, rank, c) for rank in others for c in range(P) if c != rank]
    return Schedule(P, P, [gather, back])


def late_by_waiting(P, q):
    ring = [[Send(r, (r + 1) % P, (r - t) % P) for r in range(P)] for t in range(P - 1)]
    waits = [Send(r, (r + 1) % P, r) for r in range(1, q + 1)]
    ring[0] = [send for send in ring[0] if send not in waits]
    return Schedule(P, P, [*([send] for send in waits), *ring])


READ, SUMS, BLAME, REPAIR = (f"ex-break-{x}" for x in ("read", "fingerprints", "blame", "repair"))
PAST, AROUND, LATE = "ex-break-unnoticed", "ex-break-missing-link", "ex-break-late"

# fmt: off
WRONG = [
    (READ, (9, Send(2, 3, 0, True)), "the rounds are 0 to 5"),
    (READ, (1, 7), "second item must be a Send"),
    (SUMS, (lambda rank: 2**rank, lambda total, P: [int(total) >> r & 1 for r in range(P)]),
     "P = 2: a sum with .* in which read finds"),
    (SUMS, (lambda rank: rank, lambda total, P: [1] * P), "read finds"),
    (SUMS, (lambda rank: 4**rank, lambda total, P: [1]), "must have 2 items"),
    (BLAME, round_of_a_sufferer, "one send lost"),
    (REPAIR, repaired("redundant", both_gone), "redundant: .*lacks ranks"),
    (REPAIR, repaired("early", lambda r: r[0].remove(Send(3, 2, 0, True))), "early: .*lacks"),
    (REPAIR, repaired("swapped", lambda r: r[2].reverse()), "swapped goes wrong"),
    (REPAIR, repaired("swapped", other_senders), "more has changed than two destinations"),
    (REPAIR, dict.fromkeys(patients(), flat_all_reduce(4)), "keep the two chunks"),
    (REPAIR, 6, "keys redundant, early, swapped"),
    (PAST, (edited(PAST_ONES, twice_past_ones), PAST_RANKS), "unnoticed, but 2 sends differ"),
    (PAST, (recursive_doubling_all_reduce(4), PAST_RANKS), "has 4 chunks"),
    (PAST, (ring_all_reduce(3), PAST_RANKS), "for 3 ranks"),
    (AROUND, around_with_strange_chunks, "goes wrong|is no all-gather"),
    (AROUND, around_by_direct_sends, "needs the link that is missing"),
    (AROUND, around_over_one_helper, "chunks at once"),
    (AROUND, lambda P, a, b: ring_all_gather(P), "needs the link that is missing"),
    (AROUND, lambda P, a, b: 6, "return a Schedule, got int"),
    (LATE, late_by_waiting, "right, but in .* rounds; fewer"),
    (LATE, lambda P, q: ring_all_gather(P), "rank 0 is not there yet"),
    (LATE, lambda P, q: lab.late.reference(P + 1, q), "the schedule is for 3 ranks"),
]

RIGHT = [
    (READ, (1, (2, 3, 0, True))),
    (SUMS, lab._digits(5)),
    (SUMS, lab._digits(8)),
    (BLAME, last_that_fits),
    (REPAIR, repaired("redundant", lambda r: r[3].remove(Send(2, 3, 0)))),
    (PAST, (edited(ring_all_reduce(4), other_source), PAST_RANKS)),
]
