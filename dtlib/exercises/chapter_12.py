"""Graders of chapter 12, Ring and Tree Algorithms."""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dtlib.collectives.builders import grouped
from dtlib.collectives.check import ScheduleError, check_all_reduce, check_reduce_scatter
from dtlib.collectives.schedule import Schedule, Send
from dtlib.exercises.engine import grader
from dtlib.exercises.judge import call, function, items, number, unaided, whole
from dtlib.exercises.judges.schedules import must_pass
from dtlib.exercises.verdict import NotYet

GB, MB, us, ms = 10**9, 10**6, 1e-6, 1e-3


@grader("ex-trace-the-ring")
def trace_the_ring(answer: Any) -> str:
    sent, owned = items(answer, "(sent, owned)", 2)
    sent = [whole(v, f"sent by rank {r}") for r, v in enumerate(items(sent, "sent", 4))]
    owned = [whole(v, f"owned by rank {r}") for r, v in enumerate(items(owned, "owned", 4))]
    start = [[4 * r + c + 1 for c in range(4)] for r in range(4)]
    sums = [sum(column) for column in zip(*start, strict=True)]
    last = [sums[c] - start[c][c] for c in (1, 2, 3, 0)]
    if (sent, owned) == (sums, last):
        raise NotYet("sent and owned stand the wrong way round")
    if owned != sums:
        if sorted(owned) == sorted(sums):
            raise NotYet("owned: the right sums on the wrong ranks; here rank r ends with chunk r")
        wrong = next(r for r in range(4) if owned[r] != sums[r])
        raise NotYet(f"owned: rank {wrong} owns the sum of one chunk over all four ranks")
    if sent == [sums[c] for c in (1, 2, 3, 0)]:
        raise NotYet("sent: in the last round the receiver's own value is still missing")
    if sent != last:
        if sorted(sent) == sorted(last):
            raise NotYet(
                "sent: the right values on the wrong ranks; who passes the last chunk to whom?"
            )
        wrong = next(r for r in range(4) if sent[r] != last[r])
        raise NotYet(f"sent: rank {wrong} passes on the sum of three ranks' values of one chunk")
    return "four partial sums on their last hop, four sums on their owners"


@grader("ex-bytes-on-the-wire")
def bytes_on_the_wire(answer: Any) -> str:
    asked = ("steps_per_phase", "sent_bytes", "seconds", "times_the_bound")
    if not isinstance(answer, dict) or set(answer) != set(asked):
        raise NotYet(f"pass a dict with the keys {', '.join(asked)}")
    number(
        answer["steps_per_phase"],
        3,
        "steps_per_phase",
        mistakes={
            4: "after how many passes has a chunk met every rank?",
            6: "that is both phases",
        },
    )
    number(
        answer["sent_bytes"],
        150 * MB,
        "sent_bytes",
        "bytes",
        mistakes={
            200 * MB: "count the chunks that a rank sends, not the chunks there are",
            75 * MB: "that is one phase of two",
            300 * MB: "that counts what arrives as well",
            150: "in bytes, please",
        },
    )
    number(
        answer["seconds"],
        1.5 * ms,
        "seconds",
        "s",
        mistakes={
            6 * ms: "count again the bytes, and in which directions they go at once",
            3 * ms: "a rank sends and receives at the same time",
            2 * ms: "that is the time of 200 MB",
            1.5: "in seconds, please",
        },
    )
    number(
        answer["times_the_bound"],
        1,
        "times_the_bound",
        mistakes={2: "the bound is on the bytes that a rank sends: compare those"},
    )
    return "steps, bytes, seconds, and the ring against its bound"


@grader("ex-ring-tree-crossover")
def ring_tree_crossover(answer: Any) -> str:
    def crossover(tree_rounds=16, beta=200 * GB, ring_share=2 * 255 / 256):
        return (2 * 255 - tree_rounds) * 5 * us * beta / (tree_rounds - ring_share)

    sloppy = (32e6, 510e6 / 16, 512e6 / 14, 510e6 / 14, crossover(ring_share=0))
    number(
        answer,
        crossover(),
        "the size",
        "bytes",
        mistakes={
            crossover(tree_rounds=8): "the sum must come down the tree again after it has come up",
            crossover(beta=200 * GB / 8): "the link is given in bytes, not in bits",
            crossover() / MB: "in bytes, please",
            **dict.fromkeys(
                sloppy, "keep the ring's bandwidth and the tree's latency: small is not zero"
            ),
        },
    )
    return "below it the tree is faster, above it the ring"


@grader("ex-independent-of-p")
def independent_of_p(answer: Any) -> str:
    hint = "set the two terms of the ring equal and cancel what they share"
    number(
        whole(answer, "P"),
        4000,
        "P",
        tolerance=1e-3,
        mistakes={
            8000: f"the factor 2 stands in both terms: {hint}",
            2000: f"the factor 2 stands in both terms: {hint}",
            4: f"check the prefixes: {hint}",
            500: "the link is given in bytes, not in bits",
            32000: "the link is given in bytes, not in bits",
        },
    )
    return "from there on the ring pays more for its rounds than for its bytes"


@grader("ex-buckets")
def buckets(answer: Any) -> str:
    alpha, beta, P = 10 * us, 100 * GB, 8
    rounds, share = 2 * (P - 1), 2 * (P - 1) / P

    def seconds(k, n, latencies=rounds, share=share):
        return k * (latencies * alpha + share * n / beta)

    given = items(answer, "(a, b)", 2)
    for name, value, k, n in zip("ab", given, (1000, 40), (MB, 25 * MB), strict=True):
        mistakes = {
            seconds(k, n, latencies=1): "an all-reduce pays alpha in each of its rounds",
            seconds(k, n, share=1): "a rank sends more than its n bytes: two phases",
            seconds(k, n, share=share / 2): "two phases, and both carry bytes",
            seconds(k, n, P - 1, share / 2): "that is one phase of two",
            seconds(25, n): "how many buckets of 25 MB do 1,000 MB fill?",
            seconds(k, n) / ms: "in seconds, please",
        }
        number(value, seconds(k, n), f"({name})", "s", mistakes=mistakes)
    return "the same bytes; the buckets save rounds"


@grader("ex-repair-the-ring")
def repair_the_ring(answer: Any) -> str:
    function(answer, "my_ring(P)")
    for P in (2, 3, 4, 5, 8, 13):
        schedule = _build(answer, P)
        must_pass(check_all_reduce, schedule, _where(P))
        _require_neighbours(schedule, {r: (r + 1) % P for r in range(P)}, f"P = {P}")
        _require_bytes(schedule, P, Fraction(2 * (P - 1), P))
        page = [{Send(r, (r + 1) % P, (r - t) % P, True) for r in range(P)} for t in range(P - 1)]
        if [set(round) for round in list(schedule)[: P - 1]] != page:
            raise NotYet(
                f"P = {P}: an all-reduce, but its first half is no longer the page's; "
                "keep the line that reduces and repair the line that gathers"
            )
    return "on 2, 3, 4, 5, 8 and 13 ranks every chunk is whole everywhere, with the fewest bytes"


@grader("ex-prove-the-ring")
def prove_the_ring(answer: Any) -> str:
    function(answer, "contributors(P, r, t)")
    cases = [(P, r, t) for P in range(2, 10) for r in range(P) for t in range(P - 1)]
    for P, r, t in cases:
        where = f"P = {P}, rank {r}, round {t}"
        given = call(answer, P, r, t)
        if not isinstance(given, set | frozenset):
            raise NotYet(f"{where}: give a set of ranks, got {given!r}")
        if not given <= set(range(P)):
            raise NotYet(f"{where}: the ranks are 0 to {P - 1}, got {sorted(given, key=str)}")
        if r not in given:
            raise NotYet(f"{where}: rank {r} has added its own contribution, which is missing")
        if given == {(r + k) % P for k in range(t + 2)} and t < P - 2:
            raise NotYet(f"{where}: sums travel to the right, so what arrives comes from the left")
        if len(given) != t + 2:
            many = "few" if len(given) < t + 2 else "many"
            raise NotYet(f"{where}: too {many} ranks; each round brings one more")
        if given != {(r - k) % P for k in range(t + 2)}:
            raise NotYet(f"{where}: as many ranks as there should be, but not those")
    return f"the claim holds for every rank in every round, {len(cases)} cases on 2 to 9 ranks"


@grader("ex-n-bytes-at-least")
def n_bytes_at_least(answer: Any) -> str:
    at_8, limit = items(answer, "(ratio at P = 8, limit)", 2)
    for value, expected, what in ((at_8, 1.75, "the ratio at P = 8"), (limit, 2, "the limit")):
        number(
            value,
            expected,
            what,
            mistakes={
                1 / expected: "which bound is the larger one? Divide by the other",
                expected / 2: "without a switch that adds, both phases move bytes",
            },
        )
    return "what adding in the switch can save, and no more"


@grader("ex-ring-in-any-order")
def ring_in_any_order(answer: Any) -> str:
    function(answer, "ring_in_order(order)")
    for order in _orders():
        P, where = len(order), f"order {order}"
        schedule = _build(answer, P, list(order))
        follows = {order[i]: order[(i + 1) % P] for i in range(P)}
        _require_neighbours(schedule, follows, where)
        must_pass(check_all_reduce, schedule, _where(where))
        _require_bytes(schedule, where, Fraction(2 * (P - 1), P))
        first_half = Schedule(P, schedule.chunks, schedule.rounds[: P - 1], "the first half")
        try:
            check_reduce_scatter(first_half)
        except ScheduleError:
            raise NotYet(
                f"{where}: an all-reduce along your wires, but after the first half rank r does "
                "not own chunk r: which chunk must the rank at position i send?"
            ) from None
    return "for 24 orders of 2 to 9 ranks all sends follow the wires, and rank r owns chunk r"


def _orders() -> list[list[int]]:
    shuffle = random.Random(12)
    return [shuffle.sample(range(P), P) for P in range(2, 10) for _ in range(3)]


@grader("ex-fold")
def fold(answer: Any) -> str:
    function(answer, "folded_all_reduce(P)")
    for P in range(1, 14):
        with unaided(grouped.folded_halving_doubling_all_reduce, write="the rounds"):
            schedule = _build(answer, P)
        must_pass(check_all_reduce, schedule, _where(P))
        Q = 2 ** (P.bit_length() - 1)
        if len(schedule) > 2 * (P.bit_length() - 1) + 2 * (P > Q):
            raise NotYet(f"P = {P}: right, but in too many rounds: one to fold, one to unfold")
        bound = Fraction(2 * (Q - 1), Q) + (P > Q)
        sent = [Fraction(b) for b in schedule.sent_bytes(1)]
        if max(sent) > bound:
            rank = sent.index(max(sent))
            raise NotYet(f"P = {P}: right, but rank {rank} sends more than a folded rank has to")
    return "right on 1 to 13 ranks, within two rounds and n bytes of the power of two below"


@grader("ex-two-way-ring")
def two_way_ring(answer: Any) -> str:
    function(answer, "two_way_ring(P)")
    for P in range(2, 10):
        with unaided(grouped.two_way_ring_all_reduce, write="the rounds"):
            schedule = _build(answer, P)
        if schedule.chunks != 2 * P:
            raise NotYet(f"P = {P}: cut the vector into 2P chunks, P for each direction")
        must_pass(check_all_reduce, schedule, _where(P))
        if len(schedule) != 2 * (P - 1):
            raise NotYet(
                f"P = {P}: {len(schedule)} rounds; both directions run in the same rounds, "
                "as many as one ring takes"
            )
        for t, round in enumerate(schedule):
            _require_both_ways(t, list(round), P)
        _require_bytes(schedule, P, Fraction(2 * (P - 1), P))
    return "on 2 to 9 ranks both halves travel at once, one each way, with the ring's bytes"


def _require_both_ways(t: int, sends: list[Send], P: int) -> None:
    for rank in range(P):
        mine = [send for send in sends if send.src == rank]
        right = [s for s in mine if s.dst == (rank + 1) % P and s.chunk < P]
        left = [s for s in mine if s.dst == (rank - 1) % P and s.chunk >= P]
        if not (
            len(right) == len(left) == 1 and len(mine) == 2 and all(s.count == 1 for s in mine)
        ):
            shown = ", ".join(map(str, mine)) or "nothing"
            raise NotYet(
                f"P = {P}, round {t}: rank {rank} sends {shown}; it must pass one chunk below P "
                "to the right and one from P on to the left"
            )


def _build(builder: Callable, P: int, *args: Any) -> Schedule:
    """What the reader's builder gives for ``P`` ranks (or for ``args``): a schedule for them."""
    schedule = call(builder, *(args or (P,)))
    where = f"P = {P}"
    if not isinstance(schedule, Schedule):
        raise NotYet(f"{where}: return a Schedule, got {type(schedule).__name__}")
    if schedule.P != P:
        raise NotYet(f"{where}: the schedule is for {schedule.P} ranks")
    return schedule


def _require_neighbours(schedule: Schedule, follows: dict[int, int], where: str) -> None:
    for t, round in enumerate(schedule):
        for send in round:
            if follows[send.src] != send.dst:
                raise NotYet(f"{where}, round {t}: {send} does not go to the next rank of the ring")


def _require_bytes(schedule: Schedule, where: int | str, expected: Fraction) -> None:
    for rank, sent in enumerate(schedule.sent_bytes(1)):
        if Fraction(sent) != expected:
            side = "more" if Fraction(sent) > expected else "fewer"
            raise NotYet(f"{_where(where)}: rank {rank} sends {side} bytes than a ring does")


def _where(where: int | str) -> str:
    return f"P = {where}" if isinstance(where, int) else where
