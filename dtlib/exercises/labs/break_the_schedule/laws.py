"""What the answers of the lab 'Break the schedule' are held to."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from dtlib.collectives import (
    Schedule,
    Send,
    check_all_gather,
    check_all_reduce,
    halving_doubling_all_reduce,
    ring_all_reduce,
    states,
    tree_all_reduce,
)
from dtlib.exercises.judge import call, function, functions, items, whole
from dtlib.exercises.judges.schedules import must_pass, schedule_of
from dtlib.exercises.labs.break_the_schedule.damage import letters, patients, without
from dtlib.exercises.verdict import NotYet

LOST = (1, Send(2, 3, 0, True))
_LARGEST_EXACT_FLOAT32 = 2**24


def last(schedule: Schedule) -> np.ndarray:
    """The contributions at the end, when every rank begins with its own."""
    *_, held = states(schedule)
    return held


def rounds(schedule: Schedule) -> Iterator[tuple[int, Send]]:
    """Every send of a schedule, with its round."""
    return ((t, send) for t, round in enumerate(schedule) for send in round)


def read_law(answer: Any) -> None:
    """The answer is the send whose loss leaves the table of the page."""
    ring = ring_all_reduce(4)
    held, theirs = last(without(ring, *LOST)), last(without(ring, *_a_send(answer, ring)))
    if (theirs != held).any():
        rank, chunk = np.argwhere((theirs != held).any(axis=2))[0]
        raise NotYet(
            f"without that send rank {rank} would end with {letters(theirs[rank, chunk])} in "
            f"chunk {chunk}, which is not what the table says"
        )


def fingerprints_law(answer: Any) -> None:
    """What ``addend`` gives adds up to sums in float32 from which ``read`` finds every count."""
    addend, read = functions(answer, "addend(rank)", "read(total, P)")
    dice = np.random.default_rng(11)
    for P in (2, 3, 4, 8):
        gives = [whole(call(addend, rank), f"addend({rank})") for rank in range(P)]
        if min(gives) < 0:
            raise NotYet(f"addend({np.argmin(gives)}) must not be negative")
        tables = [[1] * P, [0] * P, *np.eye(P, dtype=int).tolist(), [3] * P]
        for counts in tables + dice.integers(0, 4, (50, P)).tolist():
            total = sum(count * value for count, value in zip(counts, gives, strict=True))
            if np.float32(total) != total or total > _LARGEST_EXACT_FLOAT32:
                raise NotYet(
                    f"P = {P}: a sum of {total:,} is beyond the whole numbers that float32 holds "
                    "one by one; addends must grow more slowly"
                )
            given = items(call(read, float(total), P), f"P = {P}: the counts", P)
            if [whole(count, f"P = {P}: a count") for count in given] != counts:
                raise NotYet(
                    f"P = {P}: a sum with {letters(counts)} in it is {total:,}, in which read "
                    f"finds {letters(given)}"
                )


def lost_sends() -> list[tuple[Schedule, int, Send]]:
    """Rings, trees and halving-doublings, each with a send of it and its round."""
    cases = []
    for P in (2, 3, 4, 5, 8):
        builders = (ring_all_reduce, tree_all_reduce, halving_doubling_all_reduce)
        for build in builders[: 2 if P & (P - 1) else 3]:
            schedule = build(P)
            for t, round in list(enumerate(schedule))[:: 1 if P < 5 else 3]:
                cases += [(schedule, t, send) for send in list(round)[:: 1 if P < 5 else 2]]
    return cases


def blame_law(answer: Any) -> None:
    """The answer finds a send whose loss explains what the ranks hold."""
    function(answer, "missing_send(schedule, held)")
    for schedule, t, send in lost_sends():
        where = f"{schedule.name}, P = {schedule.P}, one send lost"
        held = last(without(schedule, t, send))
        given = call(answer, schedule, held.copy())
        try:
            theirs = last(without(schedule, *_a_send(given, schedule)))
        except NotYet as wrong:
            raise NotYet(f"{where}: {wrong.reason}") from None
        if (theirs != held).any():
            rank, chunk = np.argwhere((theirs != held).any(axis=2))[0]
            raise NotYet(
                f"{where}: rank {rank} holds {letters(held[rank, chunk])} in chunk {chunk}; "
                f"without the send that you name it would hold {letters(theirs[rank, chunk])}"
            )


def repaired_law(answer: Any) -> None:
    """Every patient is an all-reduce, and only what its fault is about has changed."""
    ill = patients()
    if not isinstance(answer, dict) or set(answer) != set(ill):
        raise NotYet(f"pass a dict with the keys {', '.join(ill)}")
    for name, patient in ill.items():
        mended = schedule_of(answer[name], 4, name)
        if mended == patient:
            raise NotYet(f"{name}: still the patient, nothing has changed")
        if mended.chunks != 2 or len(mended) != len(patient):
            raise NotYet(f"{name}: keep the two chunks and the four rounds")
        must_pass(check_all_reduce, mended, name)
        _small(name, *_changed(patient, mended))


def _small(name: str, gone: list, come: list) -> None:
    """Raise `NotYet` where more has changed than the fault is about."""
    if name == "redundant":
        allowed, small = "one send left out", (len(gone), len(come)) == (1, 0)
    elif name == "early":
        allowed = "the round of one send"
        small = len(gone) == 1 and [s for _, s in gone] == [s for _, s in come]
    else:
        allowed = "two destinations"
        kept = [sorted((t, s.src, s.chunk, s.reduce) for t, s in side) for side in (gone, come)]
        small = len(gone) == 2 and kept[0] == kept[1]
    if not small:
        raise NotYet(f"{name}: an all-reduce, but more has changed than {allowed}")


def unnoticed_law(answer: Any) -> None:
    """Two rings, one send damaged in each: sums of ones, and of the ranks' numbers, see nothing."""
    pair = items(answer, "(past_ones, past_ranks)", 2)
    tests = (("past_ones", np.ones(4, int), "1"), ("past_ranks", np.arange(4), "its number"))
    for (name, addends, what), given in zip(tests, pair, strict=True):
        schedule = schedule_of(given, 4, name)
        if schedule.chunks != 4:
            raise NotYet(f"{name}: the ring has 4 chunks, this schedule {schedule.chunks}")
        held = last(schedule)
        if (held == 1).all():
            raise NotYet(f"{name}: every contribution is where it should be: that is no damage")
        sums = held @ addends
        if (sums != addends.sum()).any():
            rank, chunk = np.argwhere(sums != addends.sum())[0]
            raise NotYet(
                f"{name}: noticed. Where every rank gives {what}, rank {rank} has "
                f"{letters(held[rank, chunk])} in chunk {chunk}, which adds up to something else"
            )
        changed = max(map(len, _changed(ring_all_reduce(4), schedule)))
        if changed > 1:
            raise NotYet(f"{name}: unnoticed, but {changed} sends differ; there is smaller damage")


def around_law(given: Any, right: Schedule, P: int, a: int, b: int) -> None:
    """An all-gather in P - 1 rounds in which nothing passes between ``a`` and ``b``."""
    must_pass(check_all_gather, schedule_of(given, P))
    for t, send in rounds(given):
        if {send.src, send.dst} == {a, b}:
            raise NotYet(f"round {t}: {send} needs the link that is missing")
    _one_port(given, P - 1)


def late_law(given: Any, right: Schedule, P: int, q: int) -> None:
    """An all-gather in P rounds in which rank 0 sends nothing before round ``q``."""
    must_pass(check_all_gather, schedule_of(given, P))
    for t, send in rounds(given):
        if send.src == 0 and t < q:
            raise NotYet(f"round {t}: {send}, but rank 0 is not there yet")
    _one_port(given, P)


def _one_port(schedule: Schedule, most: int) -> None:
    for t, round in enumerate(schedule):
        for end, does in (("src", "sends"), ("dst", "receives")):
            moved = np.bincount(getattr(round, end), round.count, schedule.P).astype(int)
            if moved.max() > 1:
                rank = int(moved.argmax())
                raise NotYet(f"round {t}: rank {rank} {does} {moved[rank]} chunks at once")
    if len(schedule) > most:
        raise NotYet(f"right, but in {len(schedule)} rounds; fewer are enough")


def _changed(before: Schedule, after: Schedule) -> tuple[list, list]:
    """The sends that are gone, and those that have come, each with its round."""
    old, new = Counter(rounds(before)), Counter(rounds(after))
    return list((old - new).elements()), list((new - old).elements())


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
