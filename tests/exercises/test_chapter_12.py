"""Every check of chapter 12: the solution passes; the stub, wrong answers and dtlib's own fail."""

import inspect

import pytest
from exercise_cases import Case, EveryExercise

from dtlib.collectives import (
    Schedule,
    Send,
    halving_doubling_all_reduce,
    ring_all_reduce,
    tree_all_reduce,
)
from dtlib.collectives.builders import (
    algorithms,
    all_to_all,
    double_binary_tree,
    grouped,
    parameter_server,
    rooted,
)
from dtlib.exercises import NotYet, check

GB, MB, us, ms = 10**9, 10**6, 1e-6, 1e-3


def leaky_ring(P, first=0, second=0):
    """The page's broken ring: each half is a convention, and the two do not fit together."""
    reduce = [
        [Send(r, (r + 1) % P, (r - t + first) % P, True) for r in range(P)] for t in range(P - 1)
    ]
    gather = [
        [Send(r, (r + 1) % P, (r - t + second) % P, False) for r in range(P)] for t in range(P - 1)
    ]
    return Schedule(P, P, reduce + gather)


def my_ring(P):
    return leaky_ring(P, second=1)


def my_ring_that_gathers_twice(P):
    schedule = my_ring(P)
    return Schedule(P, P, [*schedule, *list(schedule)[P - 1 :]])


def contributors(P, r, t):
    return {(r - k) % P for k in range(t + 2)}


def ring_in_order(order):
    P = len(order)

    def round(t, offset, reduce):
        place = [(order[i], order[(i + 1) % P], order[(i - t + offset) % P]) for i in range(P)]
        return [Send(src, dst, chunk, reduce) for src, dst, chunk in place]

    halves = [round(t, -1, True) for t in range(P - 1)], [round(t, 0, False) for t in range(P - 1)]
    return Schedule(P, P, halves[0] + halves[1])


def ring_with_ranks_relabelled_only(order):
    P = len(order)
    return Schedule(
        P,
        P,
        [
            [Send(order[s.src], order[s.dst], s.chunk, s.reduce) for s in round]
            for round in ring_all_reduce(P)
        ],
    )


def ring_against_the_wires(order):
    return ring_in_order(order[::-1])


def ring_without_order(order):
    return ring_all_reduce(len(order))


def folded_all_reduce(P, unfold=True):
    Q = 2 ** (P.bit_length() - 1)
    pairs = [(Q + i, i) for i in range(P - Q)]
    rounds = [[Send(extra, partner, 0, True, Q) for extra, partner in pairs]]
    rounds += [list(round) for round in halving_doubling_all_reduce(Q)]
    if unfold:
        rounds += [[Send(partner, extra, 0, False, Q) for extra, partner in pairs]]
    return Schedule(P, Q, rounds)


def all_reduce_with_ghosts(P):
    Q = 2 ** (P - 1).bit_length()
    return Schedule(P, Q, halving_doubling_all_reduce(Q).rounds)


def two_way_ring(P, left=-1):
    def mirrored(send):
        src, dst, chunk = (left * place % P for place in send[:3])
        return Send(src, dst, P + chunk, send.reduce)

    ring = [list(round) for round in ring_all_reduce(P)]
    return Schedule(P, 2 * P, [sends + list(map(mirrored, sends)) for sends in ring])


def one_way_then_the_other(P):
    both = [list(round) for round in two_way_ring(P)]
    right = [[s for s in round if s.chunk < P] for round in both]
    return Schedule(P, 2 * P, right + [[s for s in round if s.chunk >= P] for round in both])


def bytes_on_the_wire(**changes):
    right = {"steps_per_phase": 3, "sent_bytes": 150e6, "seconds": 1.5e-3, "times_the_bound": 1}
    return right | changes


CASES = {
    "ex-trace-the-ring": Case(
        solution=([26, 25, 24, 27], [28, 32, 36, 40]),
        wrong=[
            (([26, 25, 24, 27], [32, 36, 40, 28]), "the right sums on the wrong ranks"),
            (([32, 36, 40, 28], [28, 32, 36, 40]), "the receiver's own value is still missing"),
            (([28, 32, 36, 40], [26, 25, 24, 27]), "the wrong way round"),
            (([25, 24, 27, 26], [28, 32, 36, 40]), "who passes the last chunk"),
            (([26, 25, 24, 0], [28, 32, 36, 40]), "sent: rank 3"),
            (([26, 25, 24, 27], [28, 32, 36, 0]), "owned: rank 3"),
            (([26, 25, 24], [28, 32, 36, 40]), "sent must have 4 items"),
            ([1, 2, 3], "2 items"),
        ],
    ),
    "ex-bytes-on-the-wire": Case(
        solution=bytes_on_the_wire(),
        wrong=[
            (bytes_on_the_wire(steps_per_phase=4), "met every rank"),
            (bytes_on_the_wire(steps_per_phase=6), "both phases"),
            (bytes_on_the_wire(sent_bytes=200e6), "chunks that a rank sends"),
            (bytes_on_the_wire(sent_bytes=150), "in bytes, please"),
            (bytes_on_the_wire(sent_bytes=150e6 * 1.048576), "decimal or binary"),
            (bytes_on_the_wire(seconds=6e-3), "at once"),
            (bytes_on_the_wire(seconds=3e-3), "at the same time"),
            (bytes_on_the_wire(seconds=1.5), "in seconds, please"),
            (bytes_on_the_wire(seconds=12e-3), "factor of 8: bits or bytes"),
            (bytes_on_the_wire(times_the_bound=2), "compare those"),
            ({"seconds": 1.5e-3}, "keys steps_per_phase, sent_bytes, seconds, times_the_bound"),
        ],
        secret=[150e6, 1.5e-3],
    ),
    "ex-ring-tree-crossover": Case(
        solution=494 * 5 * us * 200 * GB / (16 - 2 * 255 / 256),
        also_right=[35.27e6, 35_300_000],
        wrong=[
            (83.56e6, "come down the tree again"),
            (35.27, "in bytes, please"),
            (32e6, "small is not zero"),
            (31.9e6, "small is not zero"),
            (35.27e6 / 8, "not in bits"),
            (40e6, "right order of magnitude, but is too large"),
            (1e12, "more than a factor of ten"),
        ],
        secret=[35.27e6, 35.27],
    ),
    "ex-independent-of-p": Case(
        solution=4000,
        wrong=[
            (8000, "stands in both terms"),
            (2000, "stands in both terms"),
            (4.0, "prefixes"),
            (500, "not in bits"),
            (123.5, "whole number"),
            (-4000, "wrong sign"),
        ],
        secret=[4000],
    ),
    "ex-buckets": Case(
        solution=(0.1575, 0.0231),
        wrong=[
            ((0.0275, 0.0231), r"\(a\): an all-reduce pays alpha in each"),
            ((0.1500, 0.0231), r"\(a\): a rank sends more than its n bytes"),
            ((0.1575, 25 * (140e-6 + 437.5e-6)), r"\(b\): how many buckets"),
            ((0.1575, 0.0156), r"\(b\): a rank sends more"),
            ((157.5, 23.1), "in seconds, please"),
            (0.5, "2 items"),
        ],
        secret=[0.1575, 0.0231],
    ),
    "ex-repair-the-ring": Case(
        solution=my_ring,
        wrong=[
            (leaky_ring, "P = 2: .*chunk"),
            (my_ring_that_gathers_twice, "receives nothing"),
            (lambda P: ring_all_reduce(4), "for 4 ranks"),
            (lambda P: my_ring(P) if P == 2 else leaky_ring(P), "P = 3"),
            (tree_all_reduce, "next rank of the ring|keep the line|bytes"),
            (ring_all_reduce, "keep the line that reduces"),
            (lambda P: [[]], "return a Schedule, got list"),
            (lambda: None, r"must take my_ring\(P\)"),
            (my_ring(4), r"pass your function my_ring\(P\)"),
        ],
    ),
    "ex-prove-the-ring": Case(
        solution=contributors,
        wrong=[
            (lambda P, r, t: contributors(P, r, t - 1), "too few"),
            (lambda P, r, t: {(r - k - 1) % P for k in range(t + 1)}, "its own contribution"),
            (lambda P, r, t: {(r + k) % P for k in range(t + 2)}, "comes from the left"),
            (lambda P, r, t: {r - k for k in range(t + 2)}, "the ranks are 0 to"),
            (lambda P, r, t: [(r - k) % P for k in range(t + 2)], "a set of ranks"),
            (lambda P, r, t: set(range(P)), "too many"),
            (lambda P, r, t: 1 / 0, "raises ZeroDivisionError"),
        ],
    ),
    "ex-n-bytes-at-least": Case(
        solution=(1.75, 2),
        wrong=[
            ((1 / 1.75, 0.5), "which bound is the larger"),
            ((0.875, 1), "both phases"),
            ((1.75, 3), "the limit"),
        ],
        secret=[1.75],
    ),
    "ex-ring-in-any-order": Case(
        solution=ring_in_order,
        wrong=[
            (ring_with_ranks_relabelled_only, "does not own chunk r"),
            (ring_against_the_wires, "does not go to the next rank"),
            (ring_without_order, "does not go to the next rank"),
        ],
    ),
    "ex-fold": Case(
        solution=folded_all_reduce,
        wrong=[
            (lambda P: folded_all_reduce(P, unfold=False), "P = 3: .*lacks|P = 3"),
            (all_reduce_with_ghosts, "raises ValueError"),
            (ring_all_reduce, "too many rounds"),
            (tree_all_reduce, "rank 0 sends more"),
            (halving_doubling_all_reduce, "raises ValueError"),
        ],
    ),
    "ex-two-way-ring": Case(
        solution=two_way_ring,
        wrong=[
            (lambda P: two_way_ring(P, left=1), "one from P on to the left"),
            (one_way_then_the_other, "both directions run in the same rounds"),
            (ring_all_reduce, "2P chunks"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


MODULES = (algorithms, all_to_all, double_binary_tree, grouped, parameter_server, rooted)
BUILDERS = [f for module in MODULES for f in vars(module).values() if inspect.isfunction(f)]
BUILDERS = [f for f in BUILDERS if next(iter(inspect.signature(f).parameters)) == "P"]
BUILDERS = list({f.__name__: f for f in BUILDERS if f.__name__[0] != "_"}.values())


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "slug", ["ex-repair-the-ring", "ex-ring-in-any-order", "ex-fold", "ex-two-way-ring"]
)
def test_the_librarys_own_builders_are_no_answer(slug, builder):
    with pytest.raises(NotYet):
        check(slug, builder)


@pytest.mark.parametrize(
    ("slug", "builder"),
    [
        ("ex-fold", grouped.folded_halving_doubling_all_reduce),
        ("ex-two-way-ring", grouped.two_way_ring_all_reduce),
    ],
)
def test_the_librarys_own_builder_is_recognised_under_another_name(slug, builder):
    for disguise in (lambda P: builder(P), lambda P: builder(P).named("mine"), builder):
        with pytest.raises(NotYet, match=f"the library's own {builder.__name__}"):
            check(slug, disguise)
