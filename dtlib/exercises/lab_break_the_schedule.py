"""Graders of the lab 'Break the schedule'."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dtlib.collectives.builders.algorithms import (
    halving_doubling_all_reduce,
    ring_all_reduce,
    tree_all_reduce,
)
from dtlib.collectives.check import check_all_gather, check_all_reduce, states
from dtlib.collectives.schedule import Schedule, Send
from dtlib.exercises.damage import letters, patients, without
from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, unaided, whole
from dtlib.exercises.judges.schedules import must_pass
from dtlib.exercises.verdict import NotYet

TABLE = (1, Send(2, 3, 0, True))
LARGEST_EXACT_FLOAT32 = 2**24
BUILDERS = (
    "algorithms",
    "all_to_all",
    "double_binary_tree",
    "grouped",
    "parameter_server",
    "rooted",
)


@grader("ex-break-read")
def read_the_table(answer: Any) -> str:
    ring = ring_all_reduce(4)
    t, send = _a_send(answer, ring)
    held, theirs = _last(without(ring, *TABLE)), _last(without(ring, t, send))
    if (theirs != held).any():
        rank, chunk = np.argwhere((theirs != held).any(axis=2))[0]
        raise NotYet(
            f"without that send rank {rank} would end with {letters(theirs[rank, chunk])} in "
            f"chunk {chunk}, which is not what the table says"
        )
    return "no other lost send of this ring leaves that table"


@grader("ex-break-fingerprints")
def fingerprints(answer: Any) -> str:
    addend, read = items(answer, "(addend, read)", 2)
    function(addend, "addend(rank)")
    function(read, "read(total, P)")
    dice = np.random.default_rng(11)
    for P in (2, 3, 4, 8):
        gives = [call(addend, rank) for rank in range(P)]
        for rank, value in enumerate(gives):
            if whole(value, f"addend({rank})") < 0:
                raise NotYet(f"addend({rank}) must not be negative")
        tables = [[1] * P, [0] * P, *np.eye(P, dtype=int).tolist(), [3] * P]
        tables += dice.integers(0, 4, (50, P)).tolist()
        for counts in tables:
            total = sum(c * int(v) for c, v in zip(counts, gives, strict=True))
            exact = np.float32(total) == total and total <= LARGEST_EXACT_FLOAT32
            if not exact:
                raise NotYet(
                    f"P = {P}: a sum of {total:,} is beyond the whole numbers that float32 holds "
                    "one by one; addends must grow more slowly"
                )
            _compare_counts(call(read, float(total), P), counts, total, P)
    return "on 2 to 8 ranks every sum in float32 tells how often each rank is in it, up to 3 times"


def _compare_counts(given: Any, counts: list[int], total: int, P: int) -> None:
    given = [whole(c, f"P = {P}: a count") for c in items(given, f"P = {P}: the counts", P)]
    for rank in range(P):
        if given[rank] != counts[rank]:
            raise NotYet(
                f"P = {P}: a sum with {letters(counts)} in it is {total:,}, in which read "
                f"finds {letters(given)}"
            )


@grader("ex-break-blame")
def blame(answer: Any) -> str:
    function(answer, "missing_send(schedule, held)")
    judged = 0
    for P in (2, 3, 4, 5, 8):
        for build in (ring_all_reduce, tree_all_reduce, halving_doubling_all_reduce):
            if build is halving_doubling_all_reduce and P & (P - 1):
                continue
            schedule = build(P)
            for t, round in list(enumerate(schedule))[:: 1 if P < 5 else 3]:
                for send in list(round)[:: 1 if P < 5 else 2]:
                    _blame_one(answer, schedule, t, send)
                    judged += 1
    return f"{judged} lost sends of rings, trees and halving-doublings on 2 to 8 ranks, each found"


def _blame_one(answer: Callable, schedule: Schedule, t: int, send: Send) -> None:
    where = f"{schedule.name}, P = {schedule.P}, one send lost"
    held = _last(without(schedule, t, send))
    given = call(answer, schedule, held.copy())
    try:
        theirs = _last(without(schedule, *_a_send(given, schedule)))
    except NotYet as wrong:
        raise NotYet(f"{where}: {wrong.reason}") from None
    if (theirs != held).any():
        rank, chunk = np.argwhere((theirs != held).any(axis=2))[0]
        raise NotYet(
            f"{where}: rank {rank} holds {letters(held[rank, chunk])} in chunk {chunk}; without "
            f"the send that you name it would hold {letters(theirs[rank, chunk])}"
        )


@grader("ex-break-repair")
def repair(answer: Any) -> str:
    ill = patients()
    if not isinstance(answer, dict) or set(answer) != set(ill):
        raise NotYet(f"pass a dict with the keys {', '.join(ill)}")
    for name, patient in ill.items():
        mended = _schedule(answer[name], 4, name)
        if mended == patient:
            raise NotYet(f"{name}: still the patient, nothing has changed")
        if mended.chunks != 2 or len(mended) != len(patient):
            raise NotYet(f"{name}: keep the two chunks and the four rounds")
        must_pass(check_all_reduce, mended, name)
        _require_small(name, patient, mended)
    return "three sums whole on every rank, 12 messages each, and nothing changed but the fault"


def _require_small(name: str, patient: Schedule, mended: Schedule) -> None:
    """The repair touches only what its fault is about."""
    old, new = _placed(patient), _placed(mended)
    gone, come = list((old - new).elements()), list((new - old).elements())
    if name == "redundant" and (len(gone), len(come)) != (1, 0):
        raise NotYet(f"{name}: an all-reduce, but more has changed than one send left out")
    if name == "early":
        moved = sorted(s for _, s in gone) == sorted(s for _, s in come)
        if not moved or len(gone) != 1:
            raise NotYet(f"{name}: an all-reduce, but more has changed than the round of one send")
    if name == "swapped":
        kept = [sorted((t, s.src, s.chunk, s.reduce) for t, s in side) for side in (gone, come)]
        if kept[0] != kept[1] or len(gone) != 2:
            raise NotYet(f"{name}: an all-reduce, but more has changed than two destinations")


@grader("ex-break-unnoticed")
def unnoticed(answer: Any) -> str:
    pair = items(answer, "(past_ones, past_ranks)", 2)
    ring = ring_all_reduce(4)
    tests = (("past_ones", np.ones(4, int), "1"), ("past_ranks", np.arange(4), "its number"))
    for (name, addends, what), schedule in zip(tests, pair, strict=True):
        _schedule(schedule, 4, name)
        if schedule.chunks != 4:
            raise NotYet(f"{name}: the ring has 4 chunks, this schedule {schedule.chunks}")
        held = _last(schedule)
        if (held == 1).all():
            raise NotYet(f"{name}: every contribution is where it should be: that is no damage")
        sums = held @ addends
        if (sums != addends.sum()).any():
            rank, chunk = np.argwhere(sums != addends.sum())[0]
            raise NotYet(
                f"{name}: noticed. Where every rank gives {what}, rank {rank} has "
                f"{letters(held[rank, chunk])} in chunk {chunk}, which adds up to something else"
            )
        old, new = _placed(ring), _placed(schedule)
        changed = max((old - new).total(), (new - old).total())
        if changed > 1:
            raise NotYet(f"{name}: unnoticed, but {changed} sends differ; there is smaller damage")
    return "one send each, and no sum tells"


@grader("ex-break-harmless")
def harmless(answer: Any) -> str:
    names = ("damages", "noticed by ones", "harmless")
    three = items(answer, f"({', '.join(names)})", 3)
    given = [whole(value, name) for value, name in zip(three, names, strict=True)]
    P, rounds = 8, 3
    everywhere = P * rounds * (P - 2)
    right = P * (P - 1 - rounds)
    slips = (
        {
            P * rounds: "each send has several other sources",
            P * rounds * (P - 1): "nobody sends to itself",
            P * (P - 2): "that is one round of three",
        },
        {
            everywhere: "before a round every rank holds as many addends as every other",
            everywhere - right: "a sum of ones cannot tell whose ones they are",
        },
        {
            P * (P - 1): "the source that is there already is no damage",
            right // P: "that is one receiver of eight",
            everywhere - right: "those are the harmful ones",
            P * (2 ** (rounds - 1) - 1): "that is the last round only",
        },
    )
    for name, value, expected, mistakes in zip(
        names, given, (everywhere, 0, right), slips, strict=True
    ):
        if expected == 0:
            if value:
                raise NotYet(
                    f"{name}: {mistakes.get(value, 'count how many ones each rank holds')}"
                )
        else:
            number(value, expected, name, tolerance=1e-9, mistakes=mistakes)
    return "counted: what no sum of ones notices, and what needs no noticing"


@grader("ex-break-missing-link")
def missing_link(answer: Any) -> str:
    function(answer, "around(P, a, b)")
    for P in range(4, 10):
        for a, b in {(0, 1), (1, 0), (P - 1, 0), (1, 3), (2, P - 1)}:
            if a == b:
                continue
            where = f"P = {P}, no link between {a} and {b}"
            schedule = _gathered(answer, where, P, a, b)
            for t, send in _rounds(schedule):
                if {send.src, send.dst} == {a, b}:
                    raise NotYet(f"{where}, round {t}: {send} needs the link that is missing")
            _require_ports(schedule, where)
            _require_rounds(schedule, P - 1, where)
    return "on 4 to 9 ranks nothing crosses the missing link, and no round is lost to it"


@grader("ex-break-late")
def late(answer: Any) -> str:
    function(answer, "late_all_gather(P, q)")
    for P in range(2, 11):
        for q in range(1, P // 2 + 1):
            where = f"P = {P}, q = {q}"
            schedule = _gathered(answer, where, P, q)
            for t, send in _rounds(schedule):
                if send.src == 0 and t < q:
                    raise NotYet(f"{where}, round {t}: {send}, but rank 0 is not there yet")
            _require_ports(schedule, where)
            _require_rounds(schedule, P, where)
    return "on 2 to 10 ranks rank 0 sleeps for up to P/2 rounds, and everybody ends one round later"


def _gathered(builder: Callable, where: str, P: int, *args: int) -> Schedule:
    """What the reader's builder gives: an all-gather, and no builder of the library in it."""
    with unaided(*(f"dtlib.collectives.builders.{room}" for room in BUILDERS), write="the rounds"):
        schedule = call(builder, P, *args)
    _schedule(schedule, P, where)
    must_pass(check_all_gather, schedule, where)
    return schedule


def _require_ports(schedule: Schedule, where: str) -> None:
    for t, round in enumerate(schedule):
        for end, does in (("src", "sends"), ("dst", "receives")):
            ranks, chunks = getattr(round, end), round.count
            moved = np.bincount(ranks, weights=chunks, minlength=schedule.P).astype(int)
            if moved.max() > 1:
                rank = int(moved.argmax())
                raise NotYet(f"{where}, round {t}: rank {rank} {does} {moved[rank]} chunks at once")


def _require_rounds(schedule: Schedule, most: int, where: str) -> None:
    if len(schedule) > most:
        raise NotYet(f"{where}: right, but in {len(schedule)} rounds; fewer are enough")


def _last(schedule: Schedule) -> np.ndarray:
    """The contributions at the end, when every rank begins with its own."""
    *_, held = states(schedule)
    return held


def _rounds(schedule: Schedule) -> Iterator[tuple[int, Send]]:
    return ((t, send) for t, round in enumerate(schedule) for send in round)


def _placed(schedule: Schedule) -> Counter:
    return Counter(_rounds(schedule))


def _a_send(answer: Any, schedule: Schedule) -> tuple[int, Send]:
    """A round and a send that the schedule has in that round."""
    t, send = items(answer, "(round, send)", 2)
    t = whole(t, "the round")
    try:
        send = Send(*send)
    except TypeError:
        raise NotYet(f"the second item must be a Send, got {send!r}") from None
    if not 0 <= t < len(schedule):
        raise NotYet(f"the rounds are 0 to {len(schedule) - 1}, got {t}")
    if send not in list(schedule.rounds[t]):
        raise NotYet(f"round {t} of the {schedule.name} has no send {send}")
    return t, send


def _schedule(answer: Any, P: int, where: str) -> Schedule:
    if not isinstance(answer, Schedule):
        raise NotYet(f"{where}: give a Schedule, got {type(answer).__name__}")
    if answer.P != P:
        raise NotYet(f"{where}: the schedule is for {answer.P} ranks")
    return answer
