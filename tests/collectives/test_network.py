"""Collectives over several nodes: the ports bound them, one node is its own model, times hold."""

import csv
import itertools
import runpy
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dtlib.collectives import double_binary_tree_all_reduce
from dtlib.collectives.cost.bandwidth import bus_factor
from dtlib.collectives.nccl import network
from dtlib.collectives.nccl.fit import residuals
from dtlib.collectives.nccl.model import OPERATIONS, collective_model, nccl_models
from dtlib.collectives.nccl.network import (
    NetworkModel,
    collective_time,
    network_model,
    network_models,
    send_time,
    tree_ports_time,
)
from dtlib.collectives.nccl.network_sample import (
    LIST_COPY,
    NETWORK_ERRORS,
    NETWORK_HELD_OUT,
    network_errors,
    network_sample,
)
from dtlib.collectives.nccl.sample import switch_sample
from dtlib.machines.hardware import Cluster, Link, Node, catalog

ROOT = Path(__file__).parents[2]
BENCHMARK = ROOT / "benchmarks" / "collectives" / "network_model.py"
SIZES = 2.0 ** np.arange(0, 36)
NODES = [catalog["dgx-h100"], catalog["p5-48xlarge"]]
NODES += [Node(f"a100, {n} ports", catalog["a100-sxm"], 8, catalog["ib-hdr200"], n, "", "2026")
          for n in (4, 8)]  # fmt: skip
NODES += [Node("b200", catalog["b200-sxm"], 8, catalog["ib-xdr800"], 8, "", "2026")]
each_node = pytest.mark.parametrize("node", NODES, ids=lambda node: node.name)
each_operation = pytest.mark.parametrize("operation", OPERATIONS)
IDEAL = NetworkModel("ideal", alpha=0.0, handover=0.0, ring_handover=0.0, share=1.0)


def cluster_of(node: Node, nodes: int = 128) -> Cluster:
    return Cluster(node, nodes)


@each_node
@each_operation
def test_inside_a_node_the_time_is_exactly_that_of_its_gpus(node, operation):
    model, cluster = collective_model(node.gpu), cluster_of(node)
    for P, stride in itertools.product(range(2, 9), range(1, 5)):
        if P * stride <= node.gpus:
            times = collective_time(cluster, operation, SIZES, P, stride)
            assert np.array_equal(times, model.time(operation, SIZES, P))


@each_node
@each_operation
def test_one_rank_takes_no_time(node, operation):
    for stride in (1, 8, 64):
        assert collective_time(cluster_of(node), operation, 1e9, 1, stride) == 0


@each_node
@each_operation
@pytest.mark.parametrize("stride", [1, 2, 4, 8, 16])
def test_a_larger_message_never_takes_less_time(node, operation, stride):
    for P in (16, 24, 64):
        times = collective_time(cluster_of(node), operation, SIZES, P, stride)
        assert np.all(np.diff(times) > 0)


@each_node
@each_operation
@pytest.mark.parametrize("stride", [1, 2, 8])
def test_more_ranks_never_take_less_time_once_they_fill_a_node(node, operation, stride):
    P = np.arange(max(2, node.gpus // stride), 65)
    for n in SIZES:
        assert np.all(np.diff(collective_time(cluster_of(node), operation, n, P, stride)) >= 0)


def test_sabotage_a_slow_own_share_would_make_more_ranks_faster(monkeypatch):
    slow = replace(nccl_models["h100-sxm"], own_beta=1e10)
    monkeypatch.setattr(network, "collective_model", lambda gpu: slow)
    P = np.arange(16, 65)
    assert np.any(np.diff(collective_time(cluster_of(NODES[0]), "all_gather", 2.0**33, P)) < 0)


@each_node
@pytest.mark.parametrize("members", [1, 2, 4, 8])
def test_members_share_the_ports_as_the_node_says(node, members):
    inside = collective_model(node.gpu).beta
    assert IDEAL.bandwidth(node, members) == min(inside, node.ring_bandwidth(members))
    for share in (0.5, 0.81):
        ports = members / node.gpus * node.network_bandwidth
        shared = replace(IDEAL, share=share).bandwidth(node, members)
        assert shared == pytest.approx(min(inside, share * ports))


@each_node
@pytest.mark.parametrize("stride", [1, 2, 4, 8])
def test_a_huge_all_gather_moves_at_the_rate_of_its_members_ports(node, stride):
    model, P, n = network_model(node.nic), 64, 1e18
    gpus = collective_model(node.gpu)
    bytes_in = (P - 1) / P * n / (collective_time(cluster_of(node), "all_gather", n, P, stride)
                                  - n / (P * gpus.own_beta))  # fmt: skip
    expected = model.bandwidth(node, node.gpus // stride)
    assert bytes_in == pytest.approx(expected, rel=1e-2)


def ports_bound(operation: str, n, P: int, stride: int, node: Node):
    """Seconds for which a node's ports, those of the group's members, must be busy at least."""
    members = max(1, node.gpus // stride)
    nodes = P // members
    line = members / node.gpus * node.network_bandwidth
    twice = 2 if operation == "all_reduce" else 1
    whole = members if operation == "all_to_all" else 1
    return twice * whole * (nodes - 1) / nodes * n / line


@each_node
@each_operation
def test_no_time_is_below_what_the_ports_of_a_node_must_carry(node, operation):
    for stride, nodes in itertools.product((1, 2, 4, 8), (2, 4, 16)):
        P = nodes * max(1, node.gpus // stride)
        times = collective_time(cluster_of(node), operation, SIZES, P, stride)
        assert np.all(times > ports_bound(operation, SIZES, P, stride, node))


def test_sabotage_whoever_had_all_ports_of_a_node_would_be_below_the_bound(monkeypatch):
    fair = NetworkModel.bandwidth
    monkeypatch.setattr(NetworkModel, "bandwidth", lambda self, node, _: fair(self, node, 8))
    node = NODES[0]
    times = collective_time(cluster_of(node), "all_reduce", SIZES, 16, stride=8)
    assert np.any(times < ports_bound("all_reduce", SIZES, 16, 8, node))


@pytest.mark.parametrize("nodes", [2, 3, 4, 8, 13, 32])
def test_two_trees_send_what_the_time_of_their_ports_says(nodes):
    trees = double_binary_tree_all_reduce(nodes)
    sent = sum(Fraction(send.count, trees.chunks) for round in trees.rounds for send in round)
    assert tree_ports_time(Fraction(1), Fraction(nodes), Fraction(1)) == sent / nodes


@each_operation
def test_arrays_give_the_times_of_their_numbers(operation):
    rng = np.random.default_rng(7)
    n, P = 2.0 ** rng.uniform(0, 34, 60), rng.integers(1, 65, 60)
    stride = 2 ** rng.integers(0, 5, 60)
    for node in NODES:
        cluster = cluster_of(node)
        times = collective_time(cluster, operation, n, P, stride)
        rows = zip(n, P, stride, strict=True)
        alone = [collective_time(cluster, operation, *row) for row in rows]
        assert times.tolist() == alone and all(isinstance(time, float) for time in alone)
        grid = collective_time(cluster, operation, n[:, None], P[None, :8], 1)
        assert grid.shape == (60, 8) and grid[3, 5] == collective_time(
            cluster, operation, n[3], P[5]
        )


def sampled(name: str, model: NetworkModel | None = None, as_called: bool = True) -> np.ndarray:
    """Relative errors on a held sample, of the library's model or another network."""
    node, samples = catalog[name], network_sample()[name]
    model = model or network_model(node.nic)
    predicted = [model.time(s.operation, s.n, s.P, node, 8) for s in samples]
    measured = [s.seconds if as_called else s.network_seconds for s in samples]
    return np.array(predicted) / measured - 1


BOUNDS = {"dgx-h100": 0.09, "p5-48xlarge": 0.04}


@pytest.mark.parametrize("name", BOUNDS)
def test_the_sample_is_predicted_within_its_bound_and_no_time_is_a_quarter_off(name):
    errors = np.abs(sampled(name))
    assert errors.mean() < BOUNDS[name] and errors.max() < 0.25
    assert np.abs(sampled(name, as_called=False)).mean() < 0.09


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("dgx-h100", {"alpha": 0.0}),
        ("dgx-h100", {"handover": 0.0}),
        ("dgx-h100", {"share": 1.0}),
        ("p5-48xlarge", {"ring_handover": 0.0}),
        ("p5-48xlarge", {"ring_power": 0.5}),
        ("p5-48xlarge", {"tree_power": 0.5}),
    ],
    ids=str,
)
def test_sabotage_without_any_one_of_its_constants_the_model_misses_the_bound(name, change):
    model = replace(network_model(catalog[name].nic), **change)
    assert np.abs(sampled(name, model)).mean() > BOUNDS[name]


def test_the_recorded_errors_are_those_of_the_samples_and_below_the_baseline():
    ours, pairs = NETWORK_ERRORS["collective_time"], NETWORK_ERRORS[
        "one latency, one bandwidth a cluster"
    ]  # fmt: skip
    without_copy = sampled("p5-48xlarge", as_called=False)
    assert np.abs(without_copy).mean() == pytest.approx(ours[-1], abs=5e-4)
    assert np.abs(sampled("dgx-h100")).mean() == pytest.approx(np.mean(ours[1:3]), abs=0.015)
    assert all(2 * new < old for new, old in zip(ours[1:3], pairs[1:3], strict=True))
    assert max(ours[1:]) < 0.12
    assert all(np.mean([*errors.values()]) < 0.12 for errors in NETWORK_HELD_OUT.values())
    table = network_errors()
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_a_list_of_tensors_is_copied_no_faster_than_memory_allows():
    rate = 2 / LIST_COPY
    assert 0.7 < rate / catalog["h100-sxm"].hbm_bandwidth < 0.8
    copied = {s.operation for s in network_sample()["p5-48xlarge"] if s.copied}
    assert copied == {"all_gather", "reduce_scatter"}


def test_a_gpu_without_a_measurement_has_its_data_sheet_and_the_slowest_start():
    new, known = collective_model(catalog["b200-sxm"]), nccl_models["h100-sxm"]
    assert new.beta == 2 * known.beta
    assert 1.6 < new.switch_beta / known.switch_beta < 1.8  # 0.80 to 0.90 of twice
    grown = np.log(known.own_beta / nccl_models["a100-sxm"].own_beta) / np.log(450 / 300)
    assert np.log2(new.own_beta / known.own_beta) == pytest.approx(grown, abs=5e-3)
    for latency in ("launch", "alpha", "exchange"):
        measured = [getattr(nccl_models[name], latency) for name in ("a100-sxm", "h100-sxm")]
        assert getattr(new, latency) == max(measured)
    assert not collective_model(catalog["l40s"]).adds_in_switch
    for gpu in (entry for entry in catalog.values() if hasattr(entry, "hbm_bytes")):
        assert collective_model(gpu).beta < gpu.link.beta


def test_a_sister_starts_as_the_measured_gpu_and_its_large_messages_are_right():
    h200, h100 = collective_model(catalog["h200-sxm"]), nccl_models["h100-sxm"]
    assert replace(h200, name=h100.name) == h100
    assert np.abs(residuals(h200, switch_sample())).max() < 0.04
    wrong = replace(h200, beta=h200.beta * 4.8 / 3.35)
    assert np.abs(residuals(wrong, switch_sample())).max() > 0.04


def test_an_unknown_port_is_taken_for_infiniband_with_its_own_latency():
    slow = network_model(catalog["ethernet-25"])
    assert slow.alpha == catalog["ethernet-25"].alpha
    quick = network_model(Link("quick", 0.0, 1e9, "", "2026"))
    assert quick.alpha == network_models["ib-ndr400"].alpha
    assert quick.tree_power == quick.ring_power == 0.5


@each_node
def test_a_message_to_another_node_goes_through_one_port(node):
    cluster, n = cluster_of(node), 1e13
    far = send_time(cluster, n, np.array([8, 16, 64]))
    port = network_model(node.nic).bandwidth(node, 1)
    assert far == pytest.approx(n / port, rel=1e-2) and np.all(far == far[0])
    near = send_time(cluster, n, np.array([1, 2, 4]))
    assert near == pytest.approx(n / collective_model(node.gpu).beta, rel=1e-2)
    assert np.all(np.diff(send_time(cluster, SIZES, 8)) > 0)
    assert isinstance(send_time(cluster, 1e6, 8), float)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: collective_time(c, "gossip", 1, 2), "operation is 'gossip', but must be in"),
        (lambda c: collective_time(c, "all_reduce", -1, 2), "n is -1.0, but must be at least 0"),
        (lambda c: collective_time(c, "all_reduce", 1, [2, 0]), "P is 0.0, but must be at least 1"),
        (lambda c: collective_time(c, "all_reduce", 1, 2, 0), "stride is 0.0, but must be at"),
        (lambda c: collective_time(c, "all_reduce", 1, 17), "16.0, but must be below the 16 ranks"),
        (lambda c: send_time(c, 1, 16), "stride is 16.0, but must be below the 16 ranks"),
        (lambda c: replace(IDEAL, share=1.1), "share is 1.1, but must be at most 1"),
        (lambda c: replace(IDEAL, share=0), "share is 0, but must be a positive number"),
        (lambda c: replace(IDEAL, alpha=-1), "alpha is -1, but must be a number of at least 0"),
        (lambda c: replace(IDEAL, ring_power=-1), "ring_power is -1, but must be a number"),
    ],
)
def test_what_cannot_be_timed_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(Cluster(NODES[0], 2))


def exact_tables(folder: Path) -> None:
    """The benchmark's tables, with the times that the library predicts."""
    columns = {"AllReduce": "all_reduce", "AllGather": "all_gather"}
    cluster = cluster_of(catalog["p5-48xlarge"])
    with (folder / "nanotron_comm_bandwidth_h100.csv").open("w", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["op", "gpus", "bytes", "bandwidth_GBps"])
        for (label, operation), P in itertools.product(columns.items(), (8, 16, 64, 512)):
            copied = LIST_COPY * 2**28 * (operation == "all_gather")
            seconds = collective_time(cluster, operation, 2**28, P) + copied
            factor = bus_factor(operation.replace("_", "-"), P)
            table.writerow([label, P, 2**28, factor * 2**28 / seconds / 1e9])
    with (folder / "nccl_bekman.csv").open("w", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["system", "n", "op", "bytes", "time_us", "busbw_GBps", "tool"])
        seconds = collective_model(catalog["h200-sxm"]).time("all_gather", 2**30, 8)
        rate = 7 / 8 * 2**30 / seconds / 1e9
        table.writerow(["H200 NVLink4", 8, "all_gather ring", 2**30, "", rate, "nccl-tests"])


def test_the_benchmark_finds_no_error_in_exact_times(tmp_path, capsys, monkeypatch):
    exact_tables(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setattr(sys, "argv", [str(BENCHMARK), "--data", str(tmp_path)])
    runpy.run_path(str(BENCHMARK), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    efa = next(line for line in lines if line.startswith("EFA, several"))
    assert efa.split()[3:6] == ["6", "0.0%", "0.0%"]
    assert "EFA, one node: 0.0% of 2 samples" in lines
    assert lines[-1].endswith("0.0% of 1 rows")
