"""Two tables say what a collective promises; schedules in groups are schedules."""

import numpy as np
import pytest

from dtlib import collectives as c
from dtlib.collectives import PRIMITIVES, Schedule, ScheduleError, Send
from dtlib.collectives.primitives import broadcast, gather, scatter

each_primitive = pytest.mark.parametrize("primitive", PRIMITIVES.values(), ids=PRIMITIVES)


def directly(primitive, P):
    """The schedule that a definition suggests: every wanted chunk is fetched where it is held."""
    chunks = primitive.cells(P)
    held, wanted = primitive.before.table(P, chunks), primitive.after.table(P, chunks)
    rounds = [
        [
            Send(src, dst, chunk, reduce=bool(held[dst, chunk]))
            for dst, chunk in np.argwhere(wanted).tolist()
            for src in np.flatnonzero(held[:, chunk]).tolist()
            if src != dst
        ]
    ]
    return Schedule(P, chunks, rounds, "by definition")


@each_primitive
def test_the_definition_as_a_schedule_keeps_its_promise_and_no_other(primitive):
    for P in (2, 3, 5):
        c.check_primitive(directly(primitive, P), primitive)
        for other in PRIMITIVES.values():
            if other != primitive:
                with pytest.raises(ScheduleError):
                    c.check_primitive(directly(primitive, P), other)


@each_primitive
def test_the_adjoint_swaps_the_tables(primitive):
    adjoint = primitive.adjoint()
    assert (adjoint.before, adjoint.after) == (primitive.after, primitive.before)
    assert adjoint.adjoint().before == primitive.before


def test_adjoints_go_by_the_names_of_the_field():
    pairs = {name: primitive.adjoint().name for name, primitive in PRIMITIVES.items()}
    assert pairs == {
        "broadcast": "reduce to rank 0",
        "reduce": "broadcast from rank 0",
        "scatter": "gather to rank 0",
        "gather": "scatter from rank 0",
        "all-gather": "reduce-scatter",
        "reduce-scatter": "all-gather",
        "all-reduce": "all-reduce",
        "all-to-all": "all-to-all backwards",
    }


def test_a_root_may_be_any_rank():
    c.check_primitive(directly(broadcast(2), 3), broadcast(2))
    c.check_scatter(directly(scatter(1), 3), root=1)
    c.check_gather(directly(gather(1), 3), root=1)
    with pytest.raises(ScheduleError, match=r"no gather to rank 0|goes wrong"):
        c.check_gather(directly(gather(1), 3))


def test_every_block_of_an_all_to_all_has_one_holder_before_and_after():
    for table in (c.in_rows.table(3, 9), c.in_columns.table(3, 9)):
        assert (table.sum(axis=0) == 1).all() and (table.sum(axis=1) == 3).all()
    assert (c.in_rows.table(3, 9) & c.in_columns.table(3, 9)).sum() == 3


@pytest.mark.parametrize("P", [2, 3, 5])
def test_groups_run_the_schedule_side_by_side(P):
    ring = c.ring_all_reduce(P)
    mesh = np.arange(3 * P).reshape(3, P)
    many = ring.over(mesh)
    x = np.arange(3 * P * P).reshape(3 * P, P) ** 2
    for ranks in mesh:
        alone = c.emulate(ring, list(x[ranks]))
        assert np.array_equal(np.array(c.emulate(many, list(x)))[ranks], alone)
    assert len(many) == len(ring) and many.messages() == 3 * ring.messages()
    assert many.sent_bytes(P) == ring.sent_bytes(P) * 3


def test_groups_with_shares_are_as_if_each_had_a_buffer_of_its_own():
    P, orders = 4, [[0, 1, 2, 3], [2, 0, 3, 1], [3, 2, 1, 0]]
    ring = c.ring_all_reduce(P)
    both = ring.over(orders, shares=True)
    c.check_all_reduce(both)
    for g, order in enumerate(orders):
        c.check_all_reduce(ring.relabelled(order))
        mine = [[s for s in round if s.chunk // P == g] for round in both]
        moved = [[s._replace(chunk=s.chunk - g * P) for s in round] for round in mine]
        assert Schedule(P, P, moved) == ring.relabelled(order)
    assert both.sent_bytes(1000) == ring.sent_bytes(1000)


def test_groups_and_reversal_commute():
    scatter, groups = c.ring_reduce_scatter(3), [[0, 2, 4], [5, 3, 1]]
    for shares in (False, True):
        over = scatter.over(groups, shares=shares)
        assert over.reversed() == scatter.reversed().over(groups, shares=shares)
    assert scatter.cut(4).reversed() == scatter.reversed().cut(4)


def test_relabelled_ranks_move_and_chunks_stay():
    order = [2, 0, 1]
    tree = c.tree_broadcast(3).relabelled(order)
    c.check_broadcast(tree, root=2)
    back = tree.relabelled(np.argsort(order))
    assert back == c.tree_broadcast(3) and back.name == "tree broadcast"


def test_cut_chunks_travel_together():
    ring = c.ring_reduce_scatter(3)
    c.check_reduce_scatter(ring.cut(5))
    assert ring.cut(5).messages() == ring.messages()
    assert ring.cut(5).sent_bytes(30) == ring.sent_bytes(30)


def test_bystanders_are_in_no_group():
    assert c.tree_reduce(2).over([[3, 1]], P=6).sent_bytes(7) == [0, 7, 0, 0, 0, 0]


def test_groups_that_do_not_fit_are_refused():
    ring = c.ring_all_reduce(3)
    for groups in ([[0, 1]], [[0, 1, 1]], [[0, 1, 2, 3]]):
        with pytest.raises(ValueError, match="every group must have P = 3 ranks"):
            ring.over(groups)
    with pytest.raises(ValueError, match="no rank in common"):
        ring.over([[0, 1, 2], [2, 3, 4]])
    with pytest.raises(ValueError, match=r"the ranks are 0\.\.2"):
        ring.over([[0, 1, 5]], P=3)
