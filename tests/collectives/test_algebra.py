"""Primitives as matrices: compositions, adjoints and ranks, exactly, and run by schedules.

The matrices are the independent reference of what schedules compute, and the other way round.
"""

import numpy as np
import pytest
from every_algorithm import CHECKS, name, sizes
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlib import collectives as c
from dtlib.collectives import LARGEST, MAXIMUM, PRIMITIVES, SUM, Monoid, as_matrix, right_chunks
from dtlib.collectives.primitives import scatter

PROMISES = {
    c.check_broadcast: "broadcast",
    c.check_reduce: "reduce",
    c.check_scatter: "scatter",
    c.check_gather: "gather",
    c.check_all_gather: "all-gather",
    c.check_reduce_scatter: "reduce-scatter",
    c.check_all_reduce: "all-reduce",
    c.check_all_to_all: "all-to-all",
}
each_builder = pytest.mark.parametrize("build", CHECKS, ids=name)
MATRICES = c.matrix_product()


def promise(build):
    return PRIMITIVES[PROMISES[CHECKS[build]]]


def matrix(operation, P=4, chunks=None):
    return as_matrix(PRIMITIVES[operation], P, chunks or P)


@each_builder
def test_a_schedule_is_the_matrix_of_its_primitive(build):
    for P in sizes(build, 6):
        schedule = build(P)
        ours = c.schedule_matrix(schedule, promise(build))
        assert np.array_equal(ours, as_matrix(promise(build), P, schedule.chunks))


@pytest.mark.parametrize("P", [1, 2, 3, 4, 6])
def test_the_adjoint_is_the_transpose(P):
    for primitive in PRIMITIVES.values():
        ours, theirs = as_matrix(primitive, P), as_matrix(primitive.adjoint(), P)
        assert np.array_equal(theirs, ours.T)


@each_builder
@settings(max_examples=10, deadline=None)
@given(st.data())
def test_messages_backwards_are_the_adjoint_of_messages_forwards(build, data):
    """<Ax, y> = <x, A'y> with both sides run, on whole numbers."""
    schedule = build(data.draw(st.sampled_from(sizes(build, 6)[1:])))
    numbers = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x, y = numbers.integers(-1000, 1000, size=(2, schedule.P, schedule.chunks))
    ours, theirs = c.inner_products(schedule, promise(build), x, y)
    assert ours == theirs


@each_builder
def test_messages_backwards_keep_the_promise_of_the_adjoint(build):
    for P in sizes(build, 8):
        adjoint = c.adjoint_schedule(build(P), promise(build))
        c.check_primitive(adjoint, promise(build).adjoint())


def test_reversal_is_the_adjoint_where_nobody_uses_what_it_has_handed_on():
    done = (c.ring_reduce_scatter, c.ring_all_gather, c.ring_all_reduce, c.tree_reduce)
    done += (c.tree_broadcast, c.flat_all_reduce, c.halving_doubling_all_reduce, c.chain_reduce)
    for build in done:
        assert c.adjoint_schedule(build(8), promise(build)) == build(8).reversed()
    doubling = c.recursive_doubling_all_reduce(8)
    adjoint = c.adjoint_schedule(doubling, PRIMITIVES["all-reduce"])
    assert all(send.reduce for send in adjoint.sends())
    with pytest.raises(c.ScheduleError):
        c.check_all_reduce(doubling.reversed())


def test_sabotage_the_inner_products_differ_when_a_message_is_lost():
    ring = c.ring_reduce_scatter(4)
    lost = c.Schedule(4, 4, [list(ring.rounds[0])[1:], *ring.rounds[1:]])
    x, y = np.arange(16).reshape(4, 4), np.arange(16).reshape(4, 4)[::-1]
    promised = as_matrix(PRIMITIVES["reduce-scatter"], 4)
    assert not np.array_equal(c.schedule_matrix(lost, PRIMITIVES["reduce-scatter"]), promised)
    whole = c.inner_products(ring, PRIMITIVES["reduce-scatter"], x, y)[0]
    assert c.inner_products(lost, PRIMITIVES["reduce-scatter"], x, y)[0] != whole


def test_sabotage_the_ring_is_not_the_adjoint_of_an_all_to_all():
    """The pairing certifies something: two maps that are no adjoints give different numbers."""
    x, y = np.random.default_rng(0).integers(100, size=(2, 3, 3))
    ring, gather = c.ring_reduce_scatter(3), PRIMITIVES["all-gather"]
    forwards = (c.applied(ring, PRIMITIVES["reduce-scatter"], x) * y).sum()
    doubled = (x * c.applied(c.ring_all_gather(3), gather, 2 * y)).sum()
    assert doubled == 2 * forwards != forwards


def test_the_algebra_of_the_primitives():
    P, identity = 4, np.eye
    reduce_scatter, all_gather = matrix("reduce-scatter"), matrix("all-gather")
    all_reduce, exchange = matrix("all-reduce"), as_matrix(PRIMITIVES["all-to-all"], P)
    assert np.array_equal(all_gather @ reduce_scatter, all_reduce)
    assert np.array_equal(matrix("broadcast") @ matrix("reduce"), all_reduce)
    assert np.array_equal(all_gather @ matrix("scatter"), matrix("broadcast"))
    assert np.array_equal(matrix("gather") @ reduce_scatter, matrix("reduce"))
    assert np.array_equal(matrix("gather") @ matrix("scatter"), identity(P))
    assert np.array_equal(matrix("scatter") @ matrix("gather"), identity(P))
    assert np.array_equal(exchange.T @ exchange, identity(P * P))
    assert np.array_equal(exchange @ exchange.T, identity(P * P))
    # Where several ranks hold what the next one sums, everything counts as often as it is held.
    assert np.array_equal(reduce_scatter @ all_gather, P * identity(P))
    assert np.array_equal(matrix("reduce") @ matrix("broadcast"), P * identity(P))
    assert np.array_equal(all_reduce @ all_reduce, P * all_reduce)


@pytest.mark.parametrize("P", [2, 3, 5])
def test_an_all_reduce_has_no_inverse_and_an_all_to_all_has_one(P):
    chunks = 3 * P
    all_reduce = matrix("all-reduce", P, chunks)
    assert all_reduce.shape == (P * chunks, P * chunks)
    assert np.linalg.matrix_rank(all_reduce) == chunks
    exchange = as_matrix(PRIMITIVES["all-to-all"], P)
    assert np.linalg.matrix_rank(exchange) == len(exchange) == P * P


@pytest.mark.parametrize("P", [2, 3, 4, 7])
def test_an_all_reduce_is_an_all_gather_after_a_reduce_scatter_bit_for_bit(P):
    addends = list(np.random.default_rng(P).normal(size=(P, 101)).astype(np.float32))
    scattered = c.emulate(c.ring_reduce_scatter(P), addends)
    gathered = c.emulate(c.ring_all_gather(P), scattered)
    for ours, at_once in zip(gathered, c.emulate(c.ring_all_reduce(P), addends), strict=True):
        assert ours.tobytes() == at_once.tobytes()
    if P == 4:
        other = c.emulate(c.halving_doubling_all_reduce(P), addends)[0]
        assert other.tobytes() != gathered[0].tobytes()


def test_roots_other_than_0_have_adjoints_too():
    assert np.array_equal(as_matrix(scatter(2), 3).T, as_matrix(scatter(2).adjoint(), 3))


def matrices(P, chunks, seed=0):
    return np.random.default_rng(seed).integers(7, size=(P, chunks, 2, 2))


def test_the_laws_that_the_monoids_claim_are_those_that_they_keep():
    numbers = [np.array(row) for row in ([1, 9, 4], [7, 2, 2], [3, 3, 8], [9, 1, 5])]
    samples = {SUM: numbers, MAXIMUM: numbers, LARGEST: [np.sort(x)[::-1] for x in numbers]}
    samples[MATRICES] = list(matrices(4, 3))
    for monoid, buffers in samples.items():
        claims = {"commutative": monoid.commutative, "elementwise": monoid.elementwise}
        assert c.laws(monoid, buffers) == {"associative": True, "identity": True} | claims


def test_floating_point_addition_is_commutative_and_not_associative():
    kept = c.laws(SUM, [np.array([x, x]) for x in (0.1, 0.2, 0.3)])
    assert kept["commutative"] and not kept["associative"]


def test_golden_a_ring_breaks_a_product_of_matrices_and_a_tree_in_rank_order_does_not():
    buffers = matrices(4, 4)
    ring, tree = c.ring_all_reduce(4), c.tree_all_reduce(4).cut(4)
    right = {
        side: (
            sum(right_chunks(MATRICES, ring, buffers, side)),
            sum(right_chunks(MATRICES, tree, buffers, side)),
        )
        for side in ("left", "right", "by rank")
    }
    assert right == {"left": (1, 0), "right": (0, 4), "by rank": (2, 4)}


@pytest.mark.parametrize("P", range(3, 10))
def test_on_every_ring_some_chunk_is_in_another_order(P):
    buffers = np.array([[chr(97 + rank)] * P for rank in range(P)], dtype=object)
    word = Monoid("concatenation", np.add, "", commutative=False)
    right = {
        side: right_chunks(word, c.ring_all_reduce(P), buffers, side)
        for side in ("left", "right", "by rank")
    }
    assert right["left"] == [False] * (P - 1) + [True]
    assert right["right"] == [False] * P
    assert right["by rank"] == [True] + [False] * (P - 2) + [True]


@pytest.mark.parametrize("P", range(2, 10))
def test_trees_in_rank_order_keep_the_order_of_the_ranks(P):
    buffers = [np.array([chr(97 + rank)], dtype=object) for rank in range(P)]
    word = Monoid("concatenation", np.add, "", commutative=False)
    for build in (c.tree_all_reduce, c.flat_all_reduce, c.chain_all_reduce):
        assert right_chunks(word, build(P), buffers) == [True]


@each_builder
def test_a_commutative_elementwise_monoid_is_right_on_every_all_reduce(build):
    if CHECKS[build] is c.check_all_reduce:
        for P in sizes(build, 8):
            buffers = np.random.default_rng(P).integers(100, size=(P, 24))
            for monoid in (SUM, MAXIMUM):
                assert all(right_chunks(monoid, build(P), buffers))


def test_what_is_not_elementwise_must_not_be_cut():
    buffers = np.array([[9, 8, 1, 0], [7, 6, 5, 4], [3, 2, 2, 2], [9, 1, 1, 1]])
    assert right_chunks(LARGEST, c.tree_all_reduce(4), buffers) == [True]
    assert not all(right_chunks(LARGEST, c.ring_all_reduce(4), buffers))
    assert not all(right_chunks(LARGEST, c.tree_all_reduce(4).cut(2), buffers))


@each_builder
def test_the_sum_is_emulated_with_the_same_bits(build):
    for P in sizes(build, 5):
        schedule = build(P)
        addends = list(np.random.default_rng(P).normal(size=(P, 2 * schedule.chunks + 1)))
        plain = c.emulate(schedule, addends)
        for ours, theirs in zip(c.emulate_with(SUM, schedule, addends), plain, strict=True):
            assert ours.tobytes() == theirs.tobytes()


def test_emulate_with_refuses_other_sides_and_other_numbers_of_buffers():
    with pytest.raises(ValueError, match="arriving must be one of right, left, by rank"):
        c.emulate_with(SUM, c.ring_all_reduce(2), [np.ones(2)] * 2, "above")
    with pytest.raises(ValueError, match="is for P = 2 ranks; got 3"):
        c.emulate_with(SUM, c.ring_all_reduce(2), [np.ones(2)] * 3)
