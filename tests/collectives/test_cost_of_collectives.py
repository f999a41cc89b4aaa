"""The claims of chapter 13: bounds that somebody meets, and numbers that published ones are not."""

from fractions import Fraction

import pytest

from dtlib.collectives import (
    chain_broadcast,
    chain_reduce,
    check_all_reduce,
    nccl_sample,
    pairwise_all_to_all,
    parameter_server_all_reduce,
    ring_all_gather,
    ring_all_reduce,
    ring_all_reduce_time,
    ring_reduce_scatter,
    switch_all_reduce_time,
    switch_sample,
    tree_broadcast,
)
from dtlib.foundations import GB, catalog, us
from dtlib.parallelism import tensor_parallel_time
from dtlib.parallelism.pipeline import pipeline_send_time

BOUNDS = {
    ring_all_reduce: lambda P: Fraction(2 * (P - 1), P),
    ring_reduce_scatter: lambda P: Fraction(P - 1, P),
    ring_all_gather: lambda P: Fraction(P - 1, P),
    pairwise_all_to_all: lambda P: Fraction(P - 1, P),
    chain_broadcast: lambda P: 1,
    chain_reduce: lambda P: 1,
}


def most_bytes(schedule):
    one = Fraction(1)
    return max(*schedule.sent_bytes(one), *schedule.received_bytes(one))


@pytest.mark.parametrize("build", BOUNDS, ids=lambda build: build.__name__)
def test_the_best_algorithm_of_every_operation_meets_its_bound(build):
    for P in range(2, 33):
        assert most_bytes(build(P)) == BOUNDS[build](P)


def test_a_broadcast_tree_is_no_lower_bound():
    for P in range(2, 65):
        assert most_bytes(tree_broadcast(P)) == (P - 1).bit_length()


def test_eight_gpus_took_longer_and_used_their_links_better():
    times = {
        s.P: s.seconds
        for s in nccl_sample("a100-sxm")["a100-sxm"]
        if (s.operation, s.n) == ("all_reduce", 2**29)
    }
    rate = {P: 2 * (P - 1) / P * 2**29 / seconds for P, seconds in times.items()}
    assert times[8] > 1.5 * times[2]
    assert rate[8] > 1.1 * rate[2]
    assert max(rate.values()) < catalog["nvlink3"].beta


def test_a_switch_that_adds_lifts_the_bus_bandwidth_above_the_link():
    link = catalog["nvlink4"].beta
    for P in range(2, 513):
        seconds = switch_all_reduce_time(1 * GB, P, launch=0, switch_setup=0, beta=link)
        bus = 2 * (P - 1) / P * GB / seconds
        assert bus == pytest.approx(2 * (P - 1) / (P + 1) * link)
        assert bus < 2 * link
        assert (bus > link) == (P > 3)
    by_switch, by_ring = (7 / 4 * run.n / run.seconds for run in switch_sample()[-2:])
    assert by_ring < link < by_switch


@pytest.mark.parametrize("P", [2, 5, 16])
def test_servers_send_the_bytes_of_a_ring_in_all(P):
    for S in range(1, P + 1):
        schedule = parameter_server_all_reduce(P, S)
        check_all_reduce(schedule)
        assert sum(schedule.sent_bytes(Fraction(1))) == 2 * (P - 1)
        assert most_bytes(schedule) >= BOUNDS[ring_all_reduce](P)
    assert most_bytes(parameter_server_all_reduce(P, P)) == most_bytes(ring_all_reduce(P))
    assert most_bytes(parameter_server_all_reduce(P, 1)) == P - 1


def test_the_worked_example_of_70_billion_parameters():
    act = 2 * 4096 * 8192
    data = ring_all_reduce_time(2 * 70e9 / 64, 8, 10 * us, 50 * GB)
    tensor = tensor_parallel_time(act, 80, 4, 8, 8, 8, 1 * us, 300 * GB)
    pipeline = pipeline_send_time(act, 8, 10 * us, 50 * GB)
    assert data == pytest.approx(0.0767, rel=1e-3)
    assert data + tensor + pipeline == pytest.approx(0.228, rel=2e-3)
    assert ring_all_reduce_time(2 * 70e9 / 8, 8, 10 * us, 50 * GB) == pytest.approx(
        0.6126, rel=1e-3
    )
