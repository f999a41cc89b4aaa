"""How good are estimates? Against published step times, beside a baseline of one parameter.

    python benchmarks/foundations/estimate_against_published.py                the tables that the
    project holds python benchmarks/foundations/estimate_against_published.py --data DIR     all
    measurements of a folder

It prints the runs of Narayanan et al. one by one, then one line for each set of runs, then whole
runs (`training_runs.csv`), of which mostly no more is known than parameters, tokens and a bill.

The baseline says: every run reaches the same share of the peak while its pipeline is full. It is
hard to beat on large, well-tuned runs, so it stands beside every result. The error of a set of runs
is the mean of |predicted / measured - 1|; beside it stands the median of predicted / measured,
which says on which side the errors are. One set of constants serves all files: `PaceModel()`.

The folder holds CSV files; those it lacks are passed over. What each must have is in its reader.
"""

import argparse
import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median

from dtlib.estimator import estimate
from dtlib.foundations import Cluster, Node, TransformerSpec, catalog
from dtlib.foundations.cost.published_runs import bloom_run, sharded_runs, weak_scaling_runs
from dtlib.layout import Layout
from dtlib.models.work import training_time

BASELINE = 0.45
_SOURCE = "benchmarks"


def dgx(gpu: str, nic: str, nics: int) -> Node:
    """Eight of these GPUs with so many of these ports."""
    return Node(f"8 x {gpu}", catalog[gpu], 8, catalog[nic], nics, _SOURCE, "2026")


A100, A100_HALF = dgx("a100-sxm", "ib-hdr200", 8), dgx("a100-sxm", "ib-hdr200", 4)
H100, B200 = catalog["dgx-h100"], dgx("b200-sxm", "ib-ndr400", 8)


@dataclass(frozen=True)
class Run:
    """A published run: its description, as `estimate` takes it, and seconds of one step.

    Its sequences are as long as the spec's context.
    """

    name: str
    spec: TransformerSpec
    node: Node
    layout: Layout
    batch: int
    seconds: float

    @property
    def ranks(self) -> int:
        return self.layout.ranks

    def baseline(self, share: float) -> float:
        """Seconds when every run reaches this share of the peak, with its bubble on top."""
        layout, seq = self.layout, self.spec.context
        per_token = self.spec.flops_per_token(seq, recompute=layout.recompute)
        work = per_token * self.batch * seq
        rate = self.ranks * self.node.gpu.peak() * share
        m = layout.micro_batches(self.batch)
        return work / rate * (1 + (layout.pp - 1) / layout.interleave / m)

    @property
    def cluster(self) -> Cluster:
        """The cluster; fewer ranks than a node has are a node of that size."""
        if self.ranks % self.node.gpus == 0:
            return Cluster(self.node, self.ranks // self.node.gpus)
        part = Node(self.node.name, self.node.gpu, self.ranks, self.node.nic, 1, _SOURCE, "2026")
        return Cluster(part, 1)


def gpt(row: dict) -> TransformerSpec:
    """The classical GPT of Megatron: learned positions, tied tables, 51,200 words."""
    layers, seq = int(row["layers"]), int(row["seq"])
    shape = layers, int(row["hidden"]), int(row["heads"]), 51200
    return TransformerSpec("GPT", *shape, tied=True, positions=seq, context=seq)


def megatron_sc21(rows) -> Iterator[Run]:
    """Narayanan et al. 2021, table 1: hardware FLOP/s turned into seconds of a step."""
    for row in rows:
        layout = _split(row, int(row["gpus"]), interleave=int(row["vpp"]), **_REPEATED)
        batch, seconds = int(row["global_batch"]), float(row["iter_s_derived"])
        yield Run(f"{row['params_b']} B", gpt(row), A100, layout, batch, seconds)


def vtrain(node: Node) -> Callable:
    """vTrain's own measurements: Megatron-DeepSpeed with full recomputation."""

    def read(rows) -> Iterator[Run]:
        for row in rows:
            ranks = int(row["tp"]) * int(row["pp"]) * int(row["dp"])
            layout, batch = _split(row, ranks, **_REPEATED), int(row["global_batch"])
            yield Run("vTrain", gpt(row), node, layout, batch, float(row["iter_ms"]) / 1e3)

    return read


def nanotron(rows) -> Iterator[Run]:
    """The Ultra-Scale Playbook's runs: Llama-like models, no recomputation."""
    for row in rows:
        if row["status"] != "ok" or not row["tok_s"]:
            continue
        shape = int(row["layers"]), int(row["hidden"]), int(row["heads"]), int(row["vocab"])
        form = {"ffn": int(row["ffn"]), "gated": True, "norm": "rms", "bias": False, "tied": True}
        spec = TransformerSpec(row["model"], *shape, context=int(row["seq"]), **form)
        layout = _split(
            row, 8 * int(row["nodes"]), zero=int(row["zero"]), micro_batch=int(row["mbs"])
        )
        batch = int(row["gbs"])
        seconds = batch * spec.context / float(row["tok_s"])
        yield Run(row["model"], spec, H100, layout, batch, seconds)


def llm_foundry(rows) -> Iterator[Run]:
    """MosaicML's MPT models under FSDP, 16-bit runs without offloading."""
    for row in rows:
        node = {"h100_80gb": H100, "a100_80gb": A100, "a100_40gb": A100}.get(row["gpu"])
        if not node or "bf16" not in row["precision"] or row["act_offload"] == "True":
            continue
        seq, batch = int(row["seq"]), int(float(row["global_batch"]))
        shape = int(row["n_layers"]), int(row["d_model"]), int(row["n_heads"]), int(row["vocab"])
        form = {"tied": True, "positions": seq, "context": seq, "bias": False, "dropout": False}
        layout = Layout(
            dp=int(row["gpus"]), zero=3, micro_batch=int(float(row["micro_batch"])),
            recompute="full" if row["act_ckpt"] == "True" else "none",
        )  # fmt: skip
        spec, seconds = (
            TransformerSpec(row["model"], *shape, **form),
            batch * seq / float(row["tok_s"]),
        )
        yield Run(row["model"], spec, node, layout, batch, seconds)


_REPEATED = {"recompute": "full", "flash": False}


def _split(row: dict, ranks: int, **fields) -> Layout:
    """The layout of a row that has the sizes of the groups in columns of their names."""
    names = ("tp", "pp", "micro_batch")
    return Layout(**{name: int(row[name]) for name in names if name in row} | fields).on(ranks)


READERS = {
    "megatron_sc21_table1.csv": megatron_sc21,
    "vtrain_single_a100.csv": vtrain(A100),
    "vtrain_multi_a100.csv": vtrain(A100_HALF),
    "nanotron_ultrascale_h100.csv": nanotron,
    "llm_foundry_mpt.csv": llm_foundry,
}


def error(ratios: list[float]) -> float:
    """Mean |predicted / measured - 1|."""
    return mean(abs(ratio - 1) for ratio in ratios)


def report(name: str, runs) -> str:
    """One line: how many runs, and both errors with their medians. What cannot be is left out."""
    model, baseline, refused = [], [], 0
    for run in runs:
        try:
            predicted = estimate(run.spec, run.cluster, run.layout, batch=run.batch)["step"]
        except ValueError:
            refused += 1
            continue
        model.append(predicted / run.seconds)
        baseline.append(run.baseline(BASELINE) / run.seconds)
    shown = f"{name:<32} {len(model):>5} {refused:>7}"
    for ratios in (model, baseline):
        shown += f"  {error(ratios):>8.1%} {median(ratios):>7.2f}"
    return shown


def one_by_one(runs) -> str:
    """A table: every run with its estimate, the baseline, and what was measured.

    Under stage 3 also the estimate in which a node's ring goes through one of its ports.
    """
    columns = "estimate", "one port", "baseline", "measured"
    shown = f"{'':<18} {'GPUs':>5}" + "".join(f" {name:>9}" for name in columns)
    for run in runs:
        one_port = Cluster(replace(run.node, nics=1), run.cluster.nodes)
        clusters = [run.cluster, one_port if run.layout.zero == 3 else None]
        seconds = [
            c and estimate(run.spec, c, run.layout, batch=run.batch)["step"] for c in clusters
        ]
        seconds += [run.baseline(BASELINE), run.seconds]
        shown += f"\n{run.name:<18} {run.ranks:>5}"
        shown += "".join(f" {s:>7.1f} s" if s else f" {'-':>9}" for s in seconds)
    return shown


PEAKS = {"A100": "a100-sxm", "H100": "h100-sxm"}


def whole_runs(rows) -> str:
    """A table of GPU-hours: published, and what the model's work takes at the baseline's share.

    A run that has only GPUs and days has their product. Those without either, or on processors
    that the catalog lacks, are passed over.
    """
    shown = f"{'million GPU-hours':<20} {'baseline':>9} {'published':>10} {'ratio':>6}"
    for row in rows:
        peak = PEAKS.get(row["gpu"].split("-")[0])
        known = row["gpu_hours"] or (
            row["gpus"] and row["days"] and 24 * float(row["gpus"]) * float(row["days"].strip("+"))
        )
        if peak and known:
            bill, work = float(known), (float(row["params"]), float(row["tokens"]))
            hours = training_time(*work, 1, catalog[peak].peak(), BASELINE) / 3600
            shown += f"\n{row['model']:<20} {hours / 1e6:>9.2f} {bill / 1e6:>10.2f}"
            shown += f" {hours / bill:>6.2f}"
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with CSV files of measurements")
    arguments = parser.parse_args()
    print(one_by_one([*weak_scaling_runs, *sharded_runs, bloom_run]), end="\n\n")
    print(f"{'':<32} {'runs':>5} {'refused':>7}  {'estimate':>8} {'median':>7}  "
          f"{'baseline':>8} {'median':>7}")  # fmt: skip
    print(report("Narayanan 2021, table 1", weak_scaling_runs))
    print(report("Narayanan 2021, table 2, ZeRO-3", sharded_runs))
    for name, reader in READERS.items():
        if arguments.data and (arguments.data / name).is_file():
            with open(arguments.data / name, encoding="utf-8", newline="") as file:
                print(report(name, list(reader(csv.DictReader(file)))))
    whole = arguments.data and arguments.data / "training_runs.csv"
    if whole and whole.is_file():
        with open(whole, encoding="utf-8", newline="") as file:
            print(whole_runs(csv.DictReader(file)))


if __name__ == "__main__":
    main()
