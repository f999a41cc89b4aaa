"""Published times of a training step, read from CSV files: what each must have is in its reader.

The readers are shared by the benchmarks that hold an estimate and a planner against them.
"""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.memory import runs as peaks
from dtlib.foundations import GPU, Cluster, Link, MoE, Node, TransformerSpec, catalog
from dtlib.foundations.cost.published_runs import SELENE
from dtlib.layout import Layout, even_stages

_SOURCE = "benchmarks"


def node_of(gpu: GPU, nic: str | Link, nics: int, gpus: int = 8) -> Node:
    """So many of these GPUs with so many of these ports."""
    nic = catalog[nic] if isinstance(nic, str) else nic
    return Node(f"{gpus} x {gpu.name}", gpu, gpus, nic, nics, _SOURCE, "2026")


_A100, _H100, _B200 = catalog["a100-sxm"], catalog["h100-sxm"], catalog["b200-sxm"]
A100, A100_HALF = node_of(_A100, "ib-hdr200", 8), node_of(_A100, "ib-hdr200", 4)
H100, B200 = catalog["dgx-h100"], node_of(_B200, "ib-ndr400", 8)
A100_ROCE = node_of(_A100, "roce-400", 4)
A100_40_ROCE = node_of(
    replace(_A100, hbm_bytes=40 * 2**30, hbm_bandwidth=1555e9, source="NVIDIA A100, 40 GB"),
    "roce-400", 4,
)  # fmt: skip
H100_EFA = node_of(_H100, Link("efa-400", 8e-6, 50e9, "AWS EC2 P5: 3,200 Gb/s", "2023"), 8)
H200 = catalog["dgx-h200"]
_CAPPED = (500 / 700) ** (1 / 3)  # a clock's power grows with its cube, as its voltage follows it
H100_500W = node_of(
    replace(
        _H100, hbm_bytes=96 * 2**30, hbm_bandwidth=2400e9, clock=_CAPPED * _H100.clock,
        flops={dtype: _CAPPED * rate for dtype, rate in _H100.flops.items()},
        source="torchtitan: 96 GB of HBM2e, capped to 500 W",
    ),
    "ib-ndr400", 8,
)  # fmt: skip
_GB200 = replace(_B200, flops=_B200.flops | {"bf16": 2500e12}, source="NVIDIA GB200 NVL72")
_B300 = replace(_B200, hbm_bytes=270 * 2**30, source="NVIDIA DGX B300: as B200, 270 GB")
_GB300 = replace(_GB200, hbm_bytes=279 * 2**30, source="NVIDIA GB300 NVL72")
BRIDGE = {
    "DGX-H100": H100,
    "DGX-B200": B200,
    "DGX-B300": node_of(_B300, "ib-xdr800", 8),
    "DGX-GB200": node_of(_GB200, "ib-ndr400", 64, 64),
    "DGX-GB300": node_of(_GB300, "ib-xdr800", 64, 64),
}


@dataclass(frozen=True)
class Run:
    """A published run: its description, as `estimate` takes it, and seconds of one step.

    Its sequences are as long as the spec's context. `software` names the profile of the library.
    """

    name: str
    spec: TransformerSpec
    node: Node
    layout: Layout
    batch: int
    seconds: float
    software: str
    dtype: str = "bf16"

    @property
    def ranks(self) -> int:
        return self.layout.ranks

    def baseline(self, share: float) -> float:
        """Seconds when every run reaches this share of the peak, with its bubble on top."""
        layout, seq = self.layout, self.spec.context
        per_token = self.spec.flops_per_token(seq, recompute=layout.recompute)
        work = per_token * self.batch * seq
        rate = self.ranks * self.node.gpu.peak(self.dtype) * share
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
        name = f"{row['params_b']} B"
        yield Run(name, gpt(row), SELENE, layout, batch, seconds, "megatron-2021")


_TRAINED = {  # layers, hidden, heads, batch and split of the two runs of section 5.1
    "GPT-3 175B": ((96, 12288, 96), 1536, {"pp": 8, "micro_batch": 1}),
    "1T": ((128, 25600, 160), 3072, {"pp": 64, "micro_batch": 1}),
}


def training_time(rows) -> Iterator[Run]:
    """The same paper's days of two whole trainings, as seconds of a step of their batches.

    The split of the smaller one is not printed: eight stages are assumed, as for its neighbour of
    145.6 B in table 1.
    """
    for row in rows:
        shape, batch, split = _TRAINED[row["model"]]
        spec = TransformerSpec(row["model"], *shape, 51200, tied=True, positions=2048, context=2048)
        layout = Layout(tp=8, **split, **_REPEATED).on(int(row["gpus"]))
        steps = float(row["tokens"]) / (batch * 2048)
        seconds = float(row["days_published"]) * 86400 / steps
        yield Run(row["model"], spec, SELENE, layout, batch, seconds, "megatron-2021")


def vtrain(node: Node) -> Callable:
    """vTrain's own measurements: Megatron-DeepSpeed with full recomputation."""

    def read(rows) -> Iterator[Run]:
        for row in rows:
            ranks = int(row["tp"]) * int(row["pp"]) * int(row["dp"])
            layout, batch = _split(row, ranks, **_REPEATED), int(row["global_batch"])
            seconds = float(row["iter_ms"]) / 1e3
            yield Run("vTrain", gpt(row), node, layout, batch, seconds, "deepspeed")

    return read


def nanotron(rows) -> Iterator[Run]:
    """The Ultra-Scale Playbook's runs: Llama-like models, no recomputation."""
    for row in rows:
        if not row["tok_s"]:
            continue
        for run in peaks.nanotron([row]):
            spec = replace(run.spec, context=int(row["seq"]))
            even = even_stages(spec.layers, run.layout.pp)
            layout = run.layout | {"stages": even}
            batch = int(row["gbs"])
            seconds = batch * spec.context / float(row["tok_s"])
            yield Run(row["model"], spec, H100, layout, batch, seconds, "nanotron")


_FOUNDRY = {"h100_80gb": H100, "a100_80gb": A100_ROCE, "a100_40gb": A100_40_ROCE}


def llm_foundry(rows) -> Iterator[Run]:
    """MosaicML's MPT models under FSDP, 16-bit runs without offloading."""
    for row in rows:
        node = _FOUNDRY.get(row["gpu"])
        if not node or "bf16" not in row["precision"] or row["act_offload"] == "True":
            continue
        seq, batch = int(row["seq"]), int(float(row["global_batch"]))
        shape = int(row["n_layers"]), int(row["d_model"]), int(row["n_heads"]), int(row["vocab"])
        form = {"tied": True, "positions": seq, "context": seq, "bias": False, "dropout": False}
        layout = Layout(
            dp=int(row["gpus"]), zero=3, micro_batch=int(float(row["micro_batch"])),
            recompute="full" if row["act_ckpt"] == "True" else "none",
        )  # fmt: skip
        spec = TransformerSpec(row["model"], *shape, **form)
        seconds = batch * seq / float(row["tok_s"])
        yield Run(row["model"], spec, node, layout, batch, seconds, "fsdp")


def torchtitan(rows) -> Iterator[Run]:
    """TorchTitan's Llama 8B, fully sharded, every second product computed again."""
    for row, run in zip(rows, peaks.torchtitan(rows), strict=True):
        layout, seq = run.layout | {"recompute": "selective"}, int(row["seq"])
        spec = replace(run.spec, context=seq)
        batch = int(row["global_bs"])
        seconds = batch * seq / (float(row["tps_gpu"]) * layout.ranks)
        node = H200 if row["gpu"] == "H200" else H100_500W
        software = "torchtitan" if row["compile"] == "yes" else "torchtitan-eager"
        yield Run(row["table"], spec, node, layout, batch, seconds, software, row["dtype"])


def simumax(rows) -> Iterator[Run]:
    """Megatron-LM on eight B200 with fewer layers."""
    for row, run in zip(rows, peaks.simumax(rows), strict=True):
        spec = replace(run.spec, context=run.options["seq"])
        batch = run.options["micro_batches"] * run.layout.dp
        yield Run(
            row["case"], spec, B200, run.layout, batch, float(row["real_ms"]) / 1e3, "megatron"
        )


_GPT_OSS = TransformerSpec(
    "gpt-oss-120b", 36, 2880, 64, 201088, kv_heads=8, head_dim=64, gated=True, norm="rms",
    bias=True, moe=MoE(experts=128, active=4, ffn=2880), dropout=False,
    source="config.json of openai/gpt-oss-120b", date="2025",
)  # fmt: skip


def megatron_bridge(rows) -> Iterator[Run]:
    """NVIDIA's Megatron-Bridge: the rows of 16-bit products, all of gpt-oss-120b.

    Left out are 8 and 4 bits, whose products have no model here but one, and fine-tuning.
    """
    for row in rows:
        if row["precision"] != "BF16" or row["model"] != "GPT OSS 120B":
            continue
        spec = replace(_GPT_OSS, context=int(row["seq"]))
        sizes = {name: int(row[name]) for name in ("tp", "pp", "cp", "ep")}
        dp = int(row["gpus"]) // (sizes["tp"] * sizes["pp"] * sizes["cp"])
        layout = Layout(dp=dp, zero=1, micro_batch=int(row["mbs"]), **sizes)
        batch, seq = int(row["gbs"]), spec.context
        seconds = batch * seq / (float(row["tok_s_gpu"]) * layout.ranks)
        name = f"{row['system']} {row['release']}"
        yield Run(name, spec, BRIDGE[row["system"]], layout, batch, seconds, "megatron")


_REPEATED = {"recompute": "full", "flash": False}


def _split(row: dict, ranks: int, **fields) -> Layout:
    """The layout of a row that has the sizes of the groups in columns of their names."""
    names = ("tp", "pp", "micro_batch")
    return Layout(**{name: int(row[name]) for name in names if name in row} | fields).on(ranks)


READERS: dict[str, Callable] = {
    "megatron_sc21_table1.csv": megatron_sc21,
    "megatron_sc21_training_time.csv": training_time,
    "vtrain_single_a100.csv": vtrain(A100),
    "vtrain_multi_a100.csv": vtrain(A100_HALF),
    "nanotron_ultrascale_h100.csv": nanotron,
    "llm_foundry_mpt.csv": llm_foundry,
    "torchtitan.csv": torchtitan,
    "simumax_b200.csv": simumax,
    "megatron_bridge.csv": megatron_bridge,
}


def read_runs(folder: Path, name: str) -> list[Run]:
    """The runs of a file of the folder, or none if it lacks the file."""
    if not (folder / name).is_file():
        return []
    with open(folder / name, encoding="utf-8", newline="") as file:
        return list(READERS[name](list(csv.DictReader(file))))
