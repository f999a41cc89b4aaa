"""How far is the model of collectives over several nodes from measured times?

    PYTHONPATH=. python benchmarks/collectives/network_model.py --data DIR

DIR holds nanotron_comm_bandwidth_h100.csv, bus bandwidths in a cluster of p5.48xlarge with columns
op, gpus, bytes and bandwidth_GBps; nccl_bekman.csv, of which the H200s are judged; and, if there is
one, nccl_tests_nodes.csv, with columns system, gpu, nic, nics, nodes, op, bytes, time_us and split.
Without the last the held sample of it stands in. An error is the mean of |predicted/measured - 1|.

Four models are judged: `collective_time`; one latency with one bandwidth, fitted to the very
samples; a ring with the latency and the line rate of the catalog, which the library had before; and
`collective_time` of an all-reduce in three steps, inside the nodes, between them, and inside again.
Then the constants are fitted anew, also with a number of nodes or a cluster left out and predicted.
"""

import argparse
import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.collectives.nccl_model import NOTHING, size
from dtlib.collectives.cost.bandwidth import all_gather_bus_factor, all_reduce_bus_factor
from dtlib.collectives.cost.ring_and_tree import ring_all_gather_time, ring_all_reduce_time
from dtlib.collectives.nccl.fit import CollectiveTime, fit_collectives
from dtlib.collectives.nccl.model import collective_model
from dtlib.collectives.nccl.network import NetworkModel, collective_time, network_models
from dtlib.collectives.nccl.network_sample import NetworkTime, network_sample
from dtlib.machines.hardware import Cluster, Node, catalog

COLUMNS = {"AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter"}
EFA = catalog["p5-48xlarge"]
LARGE = 2**20
Samples = list[NetworkTime]


def read_bandwidths(file: Path) -> Samples:
    """Times from bus bandwidths of calls that go from or to a list of tensors."""
    samples = []
    with file.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            operation, n, P = COLUMNS[row["op"]], int(row["bytes"]), int(row["gpus"])
            reduced = operation == "all_reduce"
            factor = all_reduce_bus_factor(P) if reduced else all_gather_bus_factor(P)
            seconds = factor * n / (float(row["bandwidth_GBps"]) * 1e9)
            samples.append(NetworkTime(operation, n, P, seconds, copied=not reduced))
    return samples


def read_times(file: Path) -> dict[str, tuple[Node, Samples]]:
    """The samples of each system of nccl-tests, and its node."""
    systems: dict[str, tuple[Node, Samples]] = {}
    with file.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            gpu, nic = catalog[row["gpu"]], catalog[row["nic"]]
            node = Node(row["system"], gpu, 8, nic, int(row["nics"]), row["source"], "2026")
            title = f"{row['system']} ({row['split']})"
            found = systems.setdefault(title, (node, []))[1]
            seconds = float(row["time_us"]) / 1e6
            found.append(NetworkTime(row["op"], int(row["bytes"]), 8 * int(row["nodes"]), seconds))
    return systems


def errors(node: Node, samples: Samples, model: NetworkModel | None = None) -> np.ndarray:
    """Relative errors of the library's model, or of another network between the same nodes."""
    if model is None:
        cluster = Cluster(node, 128)
        predicted = [collective_time(cluster, s.operation, s.n, s.P) for s in samples]
    else:
        predicted = [model.time(s.operation, s.n, s.P, node, node.gpus) for s in samples]
    return np.array(predicted) / [s.network_seconds for s in samples] - 1


def before(node: Node, samples: Samples) -> np.ndarray:
    """Errors of a ring that pays the catalog's latency and uses all of the ports' line rate."""
    alpha, beta = node.nic.alpha, node.ring_bandwidth(node.gpus)
    predicted = [
        (ring_all_reduce_time if s.operation == "all_reduce" else ring_all_gather_time)(
            s.n, s.P, alpha, beta
        )
        for s in samples
    ]
    return np.array(predicted) / [s.network_seconds for s in samples] - 1


def in_three_steps(node: Node, samples: Samples) -> np.ndarray:
    """Errors of all-reduces in three steps: inside each node, between nodes, inside each node."""
    cluster, G = Cluster(node, 128), node.gpus
    samples = [s for s in samples if s.operation == "all_reduce"]
    predicted = [
        collective_time(cluster, "reduce_scatter", s.n, G)
        + collective_time(cluster, "all_reduce", s.n / G, s.P // G, stride=G)
        + collective_time(cluster, "all_gather", s.n, G)
        for s in samples
    ]
    return np.array(predicted) / [s.seconds for s in samples] - 1


def baseline(samples: Samples) -> np.ndarray:
    """Errors of one latency a step and one bandwidth, fitted to these samples."""
    rows = [CollectiveTime(s.operation, s.n, s.P, s.network_seconds) for s in samples]
    return fit_collectives(rows, start=NOTHING, free=("alpha", "beta")).residuals


def fitted(start: NetworkModel, free: tuple[str, ...], groups: list[tuple[Node, Samples]]):
    """The constants with the least mean error over groups, each of the same weight.

    A search that tries factors, each constant in turn, and halves its step when none helps.
    """

    def error(model: NetworkModel) -> float:
        return float(np.mean([size(errors(node, samples, model)) for node, samples in groups]))

    limits, best, step = {"share": 1}, (error(start), start), 0.5
    while step > 1e-3:
        tries = [
            replace(best[1], **{name: min(getattr(best[1], name) * factor, limits.get(name, 9))})
            for name in free
            for factor in (1 + step, 1 / (1 + step))
        ]
        found = min(((error(model), model) for model in tries), key=lambda each: each[0])
        best, step = (found, step) if found[0] < best[0] - 1e-6 else (best, step / 2)
    return best[1]


def print_line(title: str, node: Node, samples: Samples) -> None:
    ours = errors(node, samples)
    large = ours[[s.n >= LARGE for s in samples]]
    found = [ours, large, baseline(samples), before(node, samples)]
    if any(s.operation == "all_reduce" for s in samples):
        found.append(in_three_steps(node, samples))
    print(f"{title:<34}{len(samples):>5}" + "".join(f"{size(each):>12.1%}" for each in found))


def left_out(
    title: str,
    start: NetworkModel,
    free: tuple[str, ...],
    groups: list[tuple[Node, Samples]],
    key: Callable[[Node, NetworkTime], object],
) -> None:
    """Each value of a key is left out of a fit and predicted."""
    for value in sorted({key(node, s) for node, samples in groups for s in samples}):
        kept = [(node, [s for s in found if key(node, s) != value]) for node, found in groups]
        judged = [(node, [s for s in found if key(node, s) == value]) for node, found in groups]
        kept, judged = ([each for each in some if each[1]] for some in (kept, judged))
        model = fitted(start, free, kept)
        shown = np.concatenate([errors(node, samples, model) for node, samples in judged])
        print(f"  {title} {value} predicted from the others: {size(shown):.1%}")


def print_fit(name: str, free: tuple[str, ...], groups: list[tuple[Node, Samples]]) -> None:
    """The constants that fit best, and what they say of nodes and clusters that had no part."""
    start = network_models[name]
    model = fitted(start, free, groups)
    shown = ", ".join(f"{constant} {getattr(model, constant):.3g}" for constant in free)
    found = np.concatenate([errors(node, samples, model) for node, samples in groups])
    print(f"\n{name}: {shown}; {size(found):.1%} of {len(found)} samples")
    if len({s.P for _, samples in groups for s in samples}) > 1:
        left_out("nodes", start, free, groups, lambda node, s: s.P // node.gpus)
    if len(groups) > 1:
        left_out("cluster", start, free, groups, lambda node, s: node.name)


def print_h200(file: Path) -> None:
    """Inside a node of H200s: the model is the H100's, and nothing was fitted."""
    model, rows = collective_model(catalog["h200-sxm"]), []
    with file.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if "H200" in row["system"] and row["tool"].startswith("nccl-tests"):
                how = f"{row['op']} {row['tool']}".lower()
                path = "ring" if "ring" in how else "switch" if "nvls" in how else None
                operation, n, P = row["op"].split()[0], int(row["bytes"]), int(row["n"])
                factor = (2 if operation == "all_reduce" else 1) * (P - 1) / P
                measured = factor * n / (float(row["busbw_GBps"]) * 1e9)
                rows.append(model.time(operation, n, P, path) / measured - 1)
    print(f"\ninside a node, H200 by the H100's constants: {size(rows):.1%} of {len(rows)} rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the directory of the tables")
    data = parser.parse_args().data
    ndr = {"held sample (fit)": (catalog["dgx-h100"], [*network_sample()["dgx-h100"]])}
    if (data / "nccl_tests_nodes.csv").exists():
        ndr = read_times(data / "nccl_tests_nodes.csv")
    efa = read_bandwidths(data / "nanotron_comm_bandwidth_h100.csv")
    one, several = ([s for s in efa if (s.P > 8) == beyond] for beyond in (False, True))
    as_called = [s._replace(copied=False) for s in several]
    heads = ("this model", "from 1 MiB", "one pair", "before", "three steps")
    print(f"{'mean error':<34}{'rows':>5}" + "".join(f"{head:>12}" for head in heads))
    for title, (node, samples) in ndr.items():
        print_line(title, node, samples)
    print_line("EFA, several nodes", EFA, several)
    print_line("  the copy of lists not taken off", EFA, as_called)
    print(f"EFA, one node: {size(errors(EFA, one)):.1%} of {len(one)} samples")
    groups = {
        part: [g for title, g in ndr.items() if part in title] for part in ("(fit)", "(ring)")
    }
    print_fit("ib-ndr400", ("alpha", "handover", "share"), groups["(fit)"])
    if groups["(ring)"]:
        print_fit("roce-400", ("ring_handover",), groups["(ring)"])
    print_fit("efa-400", ("tree_power", "ring_power"), [(EFA, several)])
    print_h200(data / "nccl_bekman.csv")


if __name__ == "__main__":
    main()
