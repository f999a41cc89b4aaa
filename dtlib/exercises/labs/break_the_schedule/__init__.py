"""The lab 'Break the schedule'."""

from collections.abc import Callable, Iterator
from functools import partial

from dtlib.collectives import Schedule, Send, ring_all_reduce
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.labs.break_the_schedule.damage import patients, without
from dtlib.exercises.labs.break_the_schedule.laws import (
    LOST,
    around_law,
    blame_law,
    fingerprints_law,
    last,
    late_law,
    lost_sends,
    read_law,
    repaired_law,
    rounds,
    unnoticed_law,
)

# fmt: off

read = Made(
    "ex-break-read",
    About("Read the damage", "derive", 1, 5, "find a lost message from what the ranks hold"),
    read_law, lambda: LOST, "no other lost send of this ring leaves that table",
    {
        "would end with acd in chunk 0": lambda: (0, Send(1, 2, 0, True)),
        "would end with a in chunk 0": lambda: (2, Send(3, 0, 0, True)),
        "has no send 2→3 keeps chunk 0": lambda: (1, Send(2, 3, 0)),
    },
)


def _digits(base: int) -> tuple[Callable, Callable]:
    return (lambda rank: base**rank,
            lambda total, P: [int(total) // base**rank % base for rank in range(P)])


fingerprints = Made(
    "ex-break-fingerprints",
    About("Sums that say who is in them", "design", 2, 6,
          "choose test inputs that name what is wrong, within what float32 holds"),
    fingerprints_law, lambda: _digits(4),
    "on 2 to 8 ranks every sum in float32 tells how often each rank is in it, up to 3 times",
    {
        "beyond the whole numbers that float32 holds": lambda: _digits(10),
        "in which read finds": lambda: _digits(3),
        "must not be negative": lambda: (lambda rank: -rank, _digits(4)[1]),
        "must be a whole number": lambda: (lambda rank: 0.5, _digits(4)[1]),
    },
)


def _missing_send(schedule, held):
    return next((t, send) for t, send in rounds(schedule)
                if (last(without(schedule, t, send)) == held).all())


blame = Made(
    "ex-break-blame",
    About("Name the lost message", "derive", 2, 6,
          "search the fault that explains a wrong result"),
    blame_law, lambda: _missing_send,
    f"{len(lost_sends())} lost sends of rings, trees and halving-doublings on 2 to 8 ranks, "
    "each found",
    {
        "without the send that you name it would hold":
            lambda: lambda schedule, held: next(rounds(schedule)),
        "has no send": lambda: lambda schedule, held: (0, Send(0, 1, 0)),
    },
)


def _edited(schedule: Schedule, t: int, gone: list[Send], come: list[Send],
            to: int | None = None) -> Schedule:
    """Without the sends ``gone`` of round ``t``; ``come`` are added there, or in round ``to``."""
    after = [list(round) for round in schedule]
    for send in gone:
        after[t].remove(send)
    after[t if to is None else to] += come
    return Schedule(schedule.P, schedule.chunks, after, schedule.name)


def _repaired(*, to: int = 1) -> dict[str, Schedule]:
    ill, early = patients(), Send(3, 2, 0, True)
    return {
        "redundant": _edited(ill["redundant"], 2, [Send(0, 3, 0)], []),
        "early": _edited(ill["early"], 0, [early], [early], to),
        "swapped": _edited(ill["swapped"], 2, [Send(1, 3, 0), Send(2, 0, 1)],
                           [Send(1, 0, 0), Send(2, 3, 1)]),
    }


repair = Made(
    "ex-break-repair",
    About("Three patients", "repair", 2, 10,
          "tell the place of a fault from the place that suffers"),
    repaired_law, _repaired,
    "three sums whole on every rank, 12 messages each, and nothing changed but the fault",
    {
        "redundant: still the patient": patients,
        "is overwritten while it is being sent": partial(_repaired, to=2),
        "than the round of one send":
            lambda: _repaired() | {"early": _repaired()["swapped"]},
    },
)


def _past_ones() -> Schedule:
    first = Send(0, 1, 3, True)
    return _edited(ring_all_reduce(4), 0, [first], [first._replace(src=2)])


def _past_ranks() -> Schedule:
    return without(ring_all_reduce(4), 0, Send(0, 1, 3, True))


unnoticed = Made(
    "ex-break-unnoticed",
    About("Past the check", "design", 2, 5, "find damage that a check of sums does not notice"),
    unnoticed_law, lambda: (_past_ones(), _past_ranks()), "one send each, and no sum tells",
    {
        "past_ones: every contribution is where it should be":
            lambda: (ring_all_reduce(4), _past_ranks()),
        "past_ones: noticed. Where every rank gives 1": lambda: (_past_ranks(), _past_ranks()),
        "past_ranks: noticed. Where every rank gives its number":
            lambda: (_past_ones(), _past_ones()),
    },
)

_ONES = "a sum of ones cannot tell whose ones they are"

harmless = Numbers(
    "ex-break-harmless",
    About("Right by another route", "derive", 2, 5,
          "count what a check can notice, and what needs no noticing"),
    [
        Asked("damages", 8 * 3 * 6, slips={
              24: "each send has several other sources", 168: "nobody sends to itself",
              48: "that is one round of three"}, tolerance=1e-9),
        Asked("noticed by ones", 0, slips={
              144: "before a round every rank holds as many addends as every other",
              112: _ONES}),
        Asked("harmless", 8 * 4, slips={
              56: "the source that is there already is no damage",
              4: "that is one receiver of eight", 112: "those are the harmful ones",
              24: "that is the last round only"}, tolerance=1e-9),
    ],
    "counted: what no sum of ones notices, and what needs no noticing",
)


def _around(P: int, a: int, b: int, *, between: bool = True) -> Schedule:
    rest = [rank for rank in range(P) if rank not in (a, b)]
    order = [a, rest[0], b, *rest[1:]] if between else [a, b, *rest]
    return Schedule(P, P, [
        [Send(order[i], order[(i + 1) % P], order[(i - t) % P]) for i in range(P)]
        for t in range(P - 1)])


def _in_halves(schedule: Schedule) -> Schedule:
    halves = [part for round in schedule for part in (list(round)[::2], list(round)[1::2])]
    return Schedule(schedule.P, schedule.chunks, halves)


def _links() -> Iterator[tuple[str, tuple]]:
    for P in range(4, 10):
        for a, b in sorted({(0, 1), (1, 0), (P - 1, 0), (1, 3), (2, P - 1)}):
            yield f"P = {P}, no link between {a} and {b}", (P, a, b)


missing_link = Function(
    "ex-break-missing-link",
    About("Around a missing link", "design", 2, 6,
          "lay an all-gather around a link that is not there"),
    "around(P, a, b)", _around, _links, around_law,
    "on 4 to 9 ranks nothing crosses the missing link, and no round is lost to it",
    {
        "needs the link that is missing": partial(_around, between=False),
        "fewer are enough": lambda P, a, b: _in_halves(_around(P, a, b)),
    },
)


def _late(P: int, q: int, *, helpers: bool = True, sleeps: bool = True) -> Schedule:
    """Everybody sends its chunk to each in turn; who has that of rank 0 passes it on at the end."""
    after = [[Send(r, (r + t + 1) % P, r) for r in range(P) if r > 0 or t >= q or not sleeps]
             for t in range(P - 1)]
    holders = [0, *range(q + 1, P)] if helpers else [0] * q
    return Schedule(P, P, [*after, [Send(holders[i], i + 1, 0) for i in range(q) if sleeps]])


late = Function(
    "ex-break-late",
    About("A late rank", "design", 3, 8, "let other ranks speak for one that cannot send yet"),
    "late_all_gather(P, q)", _late,
    lambda: (("", (P, q)) for P in range(2, 11) for q in range(1, P // 2 + 1)), late_law,
    "on 2 to 10 ranks rank 0 sleeps for up to P/2 rounds, and everybody ends one round later",
    {
        "rank 0 sends 2 chunks at once": partial(_late, helpers=False),
        "rank 0 is not there yet": partial(_late, sleeps=False),
    },
)
