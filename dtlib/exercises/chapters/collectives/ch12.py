"""The exercises of chapter 12, Ring and Tree Algorithms, in the order of its page."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from dtlib import collectives
from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import items, whole
from dtlib.exercises.judges.schedules import must_pass, schedule_of
from dtlib.exercises.verdict import NotYet

# fmt: off
GB, MB, us, ms = 10**9, 10**6, 1e-6, 1e-3

_SUMS = [28, 32, 36, 40]
_LAST = [26, 25, 24, 27]  # the sum of chunk r + 1, without its owner's own value


def _trace_law(answer: Any) -> None:
    sent, owned = (
        [whole(value, f"{name} by rank {r}") for r, value in enumerate(items(given, name, 4))]
        for name, given in zip(("sent", "owned"), items(answer, "(sent, owned)", 2), strict=True))
    if (sent, owned) == (_SUMS, _LAST):
        raise NotYet("sent and owned stand the wrong way round")
    if sorted(owned) == _SUMS != owned:
        raise NotYet("owned: the right sums on the wrong ranks; here rank r ends with chunk r")
    for r in range(4):
        if owned[r] != _SUMS[r]:
            raise NotYet(f"owned: rank {r} owns the sum of one chunk over all four ranks")
    if sent == _SUMS[1:] + _SUMS[:1]:
        raise NotYet("sent: in the last round the receiver's own value is still missing")
    if sorted(sent) == sorted(_LAST) and sent != _LAST:
        raise NotYet("sent: the right values on the wrong ranks; who passes the last chunk on?")
    for r in range(4):
        if sent[r] != _LAST[r]:
            raise NotYet(f"sent: rank {r} passes on the sum of three ranks' values of one chunk")


trace_the_ring = Made(
    "ex-trace-the-ring",
    About("Trace the ring", "compute", 1, 8, "follow a reduce-scatter round by round", ("x12.1",)),
    _trace_law, lambda: (_LAST, _SUMS),
    "four partial sums on their last hop, four sums on their owners",
    {
        "the right sums on the wrong ranks": lambda: (_LAST, [32, 36, 40, 28]),
        "the receiver's own value is still missing": lambda: ([32, 36, 40, 28], _SUMS),
        "the wrong way round": lambda: (_SUMS, _LAST),
        "who passes the last chunk": lambda: ([25, 24, 27, 26], _SUMS),
        "sent: rank 3": lambda: ([*_LAST[:3], 0], _SUMS),
        "owned: rank 3": lambda: (_LAST, [*_SUMS[:3], 0]),
    },
)

bytes_on_the_wire = Numbers(
    "ex-bytes-on-the-wire",
    About("Bytes on the wire", "compute", 1, 6, "count steps, bytes and seconds of a ring",
          ("Ex.5",)),
    [
        Asked("steps_per_phase", 3, slips={
              4: "after how many passes has a chunk met every rank?", 6: "that is both phases"}),
        Asked("sent_bytes", 150 * MB, "bytes", {
              200 * MB: "count the chunks that a rank sends, not the chunks there are",
              75 * MB: "that is one phase of two",
              300 * MB: "that counts what arrives as well",
              150: "in bytes, please"}),
        Asked("seconds", 1.5 * ms, "s", {
              6 * ms: "count again the bytes, and in which directions they go at once",
              3 * ms: "a rank sends and receives at the same time",
              2 * ms: "that is the time of 200 MB",
              1.5: "in seconds, please"}),
        Asked("times_the_bound", 1, slips={
              2: "the bound is on the bytes that a rank sends: compare those"}),
    ],
    "steps, bytes, seconds, and the ring against its bound",
    keyed=True,
)


def _crossover(tree_rounds: int = 16, beta: float = 200 * GB, share: float = 2 * 255 / 256):
    return (2 * 255 - tree_rounds) * 5 * us * beta / (tree_rounds - share)


_SMALL = "keep the ring's bandwidth and the tree's latency: small is not zero"

ring_tree_crossover = Numbers(
    "ex-ring-tree-crossover",
    About("Where ring and tree cross", "compute", 1, 10,
          "compare two cost formulas, and keep the small terms", ("C.4", "x12.2")),
    [
        Asked("the size", _crossover(), "bytes", {
              _crossover(tree_rounds=8): "the sum must come down the tree again after it came up",
              _crossover(beta=25 * GB): "the link is given in bytes, not in bits",
              _crossover() / MB: "in bytes, please",
              32e6: _SMALL, 510e6 / 16: _SMALL, 512e6 / 14: _SMALL, 510e6 / 14: _SMALL,
              _crossover(share=0): _SMALL}),
    ],
    "below it the tree is faster, above it the ring",
)

_BOTH_TERMS = "the factor 2 stands in both terms: set them equal and cancel what they share"
_IN_BYTES = "the link is given in bytes, not in bits"

independent_of_p = Numbers(
    "ex-independent-of-p",
    About("Independent of P?", "compute", 1, 8, "say where an approximation ends", ("A.3",)),
    [
        Asked("P", 4000, slips={
              8000: _BOTH_TERMS, 2000: _BOTH_TERMS, 500: _IN_BYTES, 32000: _IN_BYTES,
              4: "check the prefixes: both terms of the ring are equal there"}, tolerance=1e-3),
    ],
    "from there on the ring pays more for its rounds than for its bytes",
)


def _buckets(name: str, k: int, n: int) -> Asked:
    def seconds(k, latencies=14, share=14 / 8):
        return k * (latencies * 10 * us + share * n / (100 * GB))

    return Asked(name, seconds(k), "s", {
        seconds(k, latencies=1): "an all-reduce pays alpha in each of its rounds",
        seconds(k, share=1): "a rank sends more than its n bytes: two phases",
        seconds(k, share=7 / 8): "two phases, and both carry bytes",
        seconds(k, 7, 7 / 8): "that is one phase of two",
        seconds(25): "how many buckets of 25 MB do 1,000 MB fill?",
        seconds(k) / ms: "in seconds, please"})


buckets = Numbers(
    "ex-buckets",
    About("Buckets", "compute", 1, 8, "price many small all-reduces against few large ones",
          ("x12.4",)),
    [_buckets("(a)", 1000, MB), _buckets("(b)", 40, 25 * MB)],
    "the same bytes; the buckets save rounds",
)


def _ring(order: Sequence[int], reduces: int = -1, gathers: int = 0) -> collectives.Schedule:
    """A ring along ``order``: each half may begin with any chunk, counted from the sender's."""
    P = len(order)
    rounds = [[collectives.Send(order[i], order[(i + 1) % P], order[(i - t + first) % P], reduce)
               for i in range(P)]
              for first, reduce in ((reduces, True), (gathers, False)) for t in range(P - 1)]
    return collectives.Schedule(P, P, rounds)


def _follows(schedule: collectives.Schedule, order: Sequence[int]) -> None:
    after = {rank: order[(i + 1) % len(order)] for i, rank in enumerate(order)}
    for t, round in enumerate(schedule):
        for send in round:
            if after[send.src] != send.dst:
                raise NotYet(f"round {t}: {send} does not go to the next rank of the ring")


def _sends_as_a_ring(schedule: collectives.Schedule) -> None:
    for rank, sent in enumerate(map(Fraction, schedule.sent_bytes(1))):
        if sent != Fraction(2 * (schedule.P - 1), schedule.P):
            side = "more" if sent > Fraction(2 * (schedule.P - 1), schedule.P) else "fewer"
            raise NotYet(f"rank {rank} sends {side} bytes than a ring does")


_OTHER_HALF = ("an all-reduce, but its first half is no longer the page's; keep the line that "
               "reduces and repair the line that gathers")


def _repaired_law(given: Any, right: collectives.Schedule, P: int) -> None:
    must_pass(collectives.check_all_reduce, schedule_of(given, P))
    _follows(given, range(P))
    _sends_as_a_ring(given)
    if any(set(given.rounds[t]) != set(right.rounds[t]) for t in range(P - 1)):
        raise NotYet(_OTHER_HALF)


repair_the_ring = Function(
    "ex-repair-the-ring",
    About("Repair the ring", "repair", 2, 15,
          "read a checker's message, and fit two halves together"),
    "my_ring(P)", lambda P: _ring(range(P), 0, 1),
    lambda: (("", (P,)) for P in (2, 3, 4, 5, 8, 13)), _repaired_law,
    "on 2, 3, 4, 5, 8 and 13 ranks every chunk is whole everywhere, with the fewest bytes",
    {
        "P = 2: schedule goes wrong": lambda P: _ring(range(P), 0, 0),
        _OTHER_HALF: lambda P: collectives.ring_all_reduce(P),
        "the schedule is for": lambda P: _ring(range(4), 0, 1),
    },
)


def _added(P: int, r: int, t: int, *, back: int = 0) -> set[int]:
    """Counted by running the schedule: the ranks in what rank ``r`` has added up in round ``t``."""
    holds = {(rank, chunk): {rank} for rank in range(P) for chunk in range(P)}
    for round in collectives.ring_reduce_scatter(P).rounds[: t + 1 - back]:
        arrived = [(send, holds[send.src, send.chunk]) for send in round]
        holds.update(((s.dst, s.chunk), holds[s.dst, s.chunk] | ranks) for s, ranks in arrived)
    return max((holds[r, chunk] for chunk in range(P)), key=len)


def _added_law(given: Any, right: set[int], P: int, r: int, t: int) -> None:
    if not isinstance(given, set | frozenset):
        raise NotYet(f"give a set of ranks, got {given!r}")
    if not given <= set(range(P)):
        raise NotYet(f"the ranks are 0 to {P - 1}, got {sorted(given, key=str)}")
    if r not in given:
        raise NotYet(f"rank {r} has added its own contribution, which is missing")
    if len(given) != len(right):
        many = "few" if len(given) < len(right) else "many"
        raise NotYet(f"too {many} ranks; each round brings one more")
    if given != right:
        raise NotYet("as many ranks as there should be, but not those")


prove_the_ring = Function(
    "ex-prove-the-ring",
    About("Prove the ring", "derive", 3, 20, "state and prove a loop invariant", ("B.4",)),
    "contributors(P, r, t)", _added,
    lambda: (("", (P, r, t)) for P in range(2, 10) for r in range(P) for t in range(P - 1)),
    _added_law,
    "the claim holds for every rank in every round, 240 cases on 2 to 9 ranks",
    {
        "that is what the rank held before the round": {"back": 1},
        "its own contribution": lambda P, r, t: {(r - k - 1) % P for k in range(t + 1)},
        "sums travel to the right, so what arrives comes from the left":
            lambda P, r, t: {(r + k) % P for k in range(t + 2)},
        "too many ranks; each round brings one more": lambda P, r, t: set(range(P)),
        "as many ranks as there should be, but not those":
            lambda P, r, t: {r, *((r - k - 1) % P for k in range(1, t + 2))},
    },
)


def _times_less(name: str, factor: float) -> Asked:
    return Asked(name, factor, slips={
        1 / factor: "which bound is the larger one? Divide by the other",
        factor / 2: "without a switch that adds, both phases move bytes"})


n_bytes_at_least = Numbers(
    "ex-n-bytes-at-least",
    About("At least n bytes", "derive", 3, 25,
          "find which assumption of a lower bound hardware breaks", ("B.3",)),
    [_times_less("the ratio at P = 8", 1.75), _times_less("the limit", 2)],
    "what adding in the switch can save, and no more",
)


def _orders() -> Iterator[tuple[str, tuple]]:
    shuffle = random.Random(12)
    for P in [P for P in range(2, 10) for _ in range(3)]:
        order = shuffle.sample(range(P), P)
        yield f"order {order}", (order,)


def _any_order_law(given: Any, right: collectives.Schedule, order: list[int]) -> None:
    P = len(right.rounds) // 2 + 1
    _follows(schedule_of(given, P), [send.src for send in right.rounds[0]])
    must_pass(collectives.check_all_reduce, given)
    _sends_as_a_ring(given)
    try:
        half = collectives.Schedule(P, given.chunks, given.rounds[: P - 1])
        collectives.check_reduce_scatter(half)
    except collectives.ScheduleError:
        raise NotYet("an all-reduce along your wires, but after the first half rank r does not "
                     "own chunk r: which chunk must the rank at position i send?") from None


ring_in_any_order = Function(
    "ex-ring-in-any-order",
    About("A ring in any order", "design", 3, 20,
          "separate positions on the wire from rank numbers"),
    "ring_in_order(order)", _ring, _orders, _any_order_law,
    "for 24 orders of 2 to 9 ranks all sends follow the wires, and rank r owns chunk r",
    {
        "does not own chunk r": partial(_ring, reduces=0, gathers=1),
        "that ring runs against the wires": lambda order: _ring(order[::-1]),
    },
)


def _folded_law(given: Any, right: collectives.Schedule, P: int) -> None:
    must_pass(collectives.check_all_reduce, schedule_of(given, P))
    Q = 2 ** (P.bit_length() - 1)
    if len(given) > 2 * (P.bit_length() - 1) + 2 * (P > Q):
        raise NotYet("right, but in too many rounds: one to fold, one to unfold")
    for rank, sent in enumerate(map(Fraction, given.sent_bytes(1))):
        if sent > Fraction(2 * (Q - 1), Q) + (P > Q):
            raise NotYet(f"right, but rank {rank} sends more than a folded rank has to")


def _never_unfolded(P: int) -> collectives.Schedule:
    whole = collectives.folded_halving_doubling_all_reduce(P)
    extra = P & (P - 1) > 0
    return collectives.Schedule(P, whole.chunks, whole.rounds[: len(whole) - extra])


fold = Function(
    "ex-fold",
    About("Fold the extra ranks", "design", 3, 30, "extend an algorithm beyond powers of two",
          ("x12.5",)),
    "folded_all_reduce(P)", lambda P: collectives.folded_halving_doubling_all_reduce(P),
    lambda: (("", (P,)) for P in range(1, 14)), _folded_law,
    "right on 1 to 13 ranks, within two rounds and n bytes of the power of two below",
    {
        "P = 3: schedule is no all-reduce": _never_unfolded,
        "raises ValueError": lambda P: collectives.halving_doubling_all_reduce(P),
        "too many rounds": lambda P: collectives.ring_all_reduce(P),
        "rank 0 sends more": lambda P: collectives.tree_all_reduce(P),
    },
)


def _two_way_law(given: Any, right: collectives.Schedule, P: int) -> None:
    if schedule_of(given, P).chunks != 2 * P:
        raise NotYet("cut the vector into 2P chunks, P for each direction")
    must_pass(collectives.check_all_reduce, given)
    if len(given) != 2 * (P - 1):
        raise NotYet(f"{len(given)} rounds; both directions run in the same rounds, "
                     "as many as one ring takes")
    for t, round in enumerate(given):
        for rank in range(P):
            _both_ways(f"round {t}: rank {rank}", [s for s in round if s.src == rank], P)
    _sends_as_a_ring(given)


def _both_ways(where: str, sends: list[collectives.Send], P: int) -> None:
    ways = [((s.dst - s.src) % P, s.chunk >= P, s.count) for s in sends]
    if sorted(ways, key=lambda way: way[1]) != [(1, False, 1), (P - 1, True, 1)]:
        raise NotYet(f"{where} sends {', '.join(map(str, sends)) or 'nothing'}; it must pass "
                     "one chunk below P to the right and one from P on to the left")


two_way_ring = Function(
    "ex-two-way-ring",
    About("Both ways around", "design", 3, 25,
          "test a claimed speedup against the port it runs on", ("x12.6",)),
    "two_way_ring(P)", lambda P: collectives.two_way_ring_all_reduce(P),
    lambda: (("", (P,)) for P in range(2, 10)), _two_way_law,
    "on 2 to 9 ranks both halves travel at once, one each way, with the ring's bytes",
    {
        "2P chunks": lambda P: collectives.ring_all_reduce(P),
        "one from P on to the left": lambda P: collectives.ring_all_reduce(P).over(
            [[-r % P for r in range(P)], range(P)], shares=True),
    },
)
