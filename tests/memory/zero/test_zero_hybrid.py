"""Sharding within a node: what crosses between nodes, against schedules on a drawn machine."""

import pytest

from dtlib.collectives import Nodes, ring_all_gather, ring_all_reduce
from dtlib.memory import full_port_bytes, hybrid_port_bytes


@pytest.mark.parametrize(("nodes", "gpus"), [(2, 2), (4, 4), (3, 8)])
def test_one_all_reduce_among_the_ranks_of_one_seat_sends_the_formulas_bytes(nodes, gpus):
    """Every seat of the nodes adds up its part of the gradient: a ring of nodes for each seat."""
    groups = [[node * gpus + seat for node in range(nodes)] for seat in range(gpus)]
    part = 1200.0  # bytes of a rank's part
    machine = Nodes(nodes, gpus, inside=(0, 1), nic=(0, 1), nics=gpus)
    loads = machine.edge_loads(ring_all_reduce(nodes).over(groups, shares=True), part * gpus)
    busiest = max(
        float(load) for p, load in loads.items() if (p.kind, p.direction) == ("NIC", "out")
    )
    assert busiest == pytest.approx(hybrid_port_bytes(part * gpus / 2, nodes, gpus, 2))


@pytest.mark.parametrize(("nodes", "gpus"), [(2, 2), (4, 4)])
def test_no_gather_over_all_ranks_sends_less_than_the_formula(nodes, gpus):
    """A ring of all ranks for each port: what each carries of three gathers."""
    P, n = nodes * gpus, 4800.0
    turned = [
        [m * gpus + (i + k) % gpus for m in range(nodes) for i in range(gpus)] for k in range(gpus)
    ]
    machine = Nodes(nodes, gpus, inside=(0, 1), nic=(0, 1), nics=gpus)
    loads = machine.edge_loads(ring_all_gather(P).over(turned, shares=True), n)
    sent = [float(load) for p, load in loads.items() if (p.kind, p.direction) == ("NIC", "out")]
    least = full_port_bytes(n / 2, nodes, gpus, 1, 2) / 3
    assert max(sent) >= least * (1 - 1e-12)
    assert max(sent) == pytest.approx((P - 1) / P * n / gpus)


def test_the_saving_is_a_third_for_one_micro_batch_and_grows_with_them():
    for m, ratio in ((1, 1.5), (16, 24)):
        full = full_port_bytes(7e9, 16, 8, m, 2)
        assert full / hybrid_port_bytes(7e9, 16, 8, 2) == pytest.approx(ratio)
    assert hybrid_port_bytes(7e9, 1, 8, 2) == 0
