"""Three ways to bring tokens to their experts: what each takes on nodes, and where they cross."""

import pytest

from dtlib.collectives import (
    Nodes,
    Packed,
    Schedule,
    ScheduleError,
    check_all_to_all,
    dealt_all_gather_time,
    halving_doubling_all_gather,
    pairwise_all_to_all,
    pairwise_all_to_all_time,
    round_robin,
    schedule_time,
    two_level_all_to_all,
    two_level_all_to_all_time,
)
from dtlib.foundations import GB, us

SIZES = [10**3, 10**6, 10**9]


def machine(nodes, gpus):
    return Nodes(nodes, gpus, inside=(1 * us, 450 * GB), nic=(5 * us, 50 * GB), nics=gpus)


def inputs(n, nodes, gpus):
    return n, nodes, gpus, 1 * us, 450 * GB, 5 * us, 50 * GB


@pytest.mark.parametrize(("nodes", "gpus"), [(2, 2), (2, 4), (4, 2), (8, 8), (3, 5)])
def test_the_simulated_times_of_all_to_alls_are_the_formulas(nodes, gpus):
    """And a flat one takes its starts on the network, as if all its messages crossed."""
    here, two = machine(nodes, gpus), two_level_all_to_all(nodes, gpus)
    check_all_to_all(two)
    for n in SIZES:
        due = two_level_all_to_all_time(*inputs(n, nodes, gpus))
        assert schedule_time(two, n, Packed(here)) == pytest.approx(due, rel=1e-12)
        flat = pairwise_all_to_all_time(n, nodes * gpus, 5 * us, 50 * GB)
        simulated = schedule_time(pairwise_all_to_all(nodes * gpus), n, here)
        assert simulated == pytest.approx(flat, rel=1e-12)


@pytest.mark.parametrize(("nodes", "gpus"), [(2, 2), (2, 4), (4, 2), (8, 8)])
def test_a_gather_of_ranks_dealt_in_turn_crosses_while_it_has_little(nodes, gpus):
    gather = halving_doubling_all_gather(nodes * gpus)
    dealt = machine(nodes, gpus).ordered(round_robin(nodes, gpus))
    for n in SIZES:
        due = dealt_all_gather_time(*inputs(n, nodes, gpus))
        assert schedule_time(gather, n, dealt) == pytest.approx(due, rel=1e-12)
    in_order = schedule_time(gather, 10**9, machine(nodes, gpus))
    assert in_order > schedule_time(gather, 10**9, dealt)


def test_two_levels_send_no_more_across_than_one():
    here = machine(4, 4)
    assert here.leaving(two_level_all_to_all(4, 4), 160) == here.leaving(
        pairwise_all_to_all(16), 160
    )


def test_sabotage_a_block_that_stays_in_its_node_is_missed():
    good = two_level_all_to_all(2, 3)
    rounds = [[s for s in sends if s.chunk != 5 or s.dst < 3] for sends in good]
    with pytest.raises(ScheduleError, match="chunk 5"):
        check_all_to_all(Schedule(6, 36, rounds, parts=6))


def test_no_node_is_refused():
    with pytest.raises(ValueError, match="at least 1; got 0 and 8"):
        two_level_all_to_all(0, 8)
