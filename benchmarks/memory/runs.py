"""Published peaks of memory, read from CSV files: what each file must have is in its reader."""

import csv
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from dtlib.foundations import MLA, GiB, MoE, TransformerSpec, published_models
from dtlib.layout import Layout
from dtlib.memory import AllocatorModel, StateRecipe, launch_queue, pipeline_memory, rank_memory
from dtlib.memory.account.published import textbook_bytes

SHARES = [0.05 * k for k in range(7)]
AHEAD = [0, 1, 2, 3, 4]
ALLOCATOR = launch_queue
PLAIN = AllocatorModel(reserve_fraction=0, ahead_bytes=0)


@dataclass(frozen=True)
class Run:
    """A published peak: what `rank_memory` takes, bytes, and whether all stages count.

    `fullest` says that the source gives the most of all ranks, else it is that of the first one.
    """

    set: str
    spec: TransformerSpec
    layout: Layout
    options: dict
    bytes: float
    fullest: bool = False
    key: str = field(default="", compare=False)

    def account(self, allocator: AllocatorModel | None) -> float:
        """What the account says, with the program's blocks where the program is known."""
        options = self.options | {
            "allocator": allocator and self.options["allocator"] and allocator
        }
        if self.fullest:
            return max(r["memory"] for r in pipeline_memory(self.spec, self.layout, **options))
        return rank_memory(self.spec, self.layout, **options)["memory"]

    def general(self) -> float:
        """The account of any program, with one waiting tensor for each layer of the rank."""
        return replace(self, options=self.options | {"program": None}).account(AllocatorModel())

    def textbook(self) -> float:
        get = self.options.get
        return textbook_bytes(self.spec, self.layout, get("seq"), get("micro_batches"))

    @property
    def fitted(self) -> bool:
        """Whether it belongs to the half that the constants were chosen on."""
        return int(hashlib.sha256(self.key.encode()).hexdigest(), 16) % 2 == 0


def balanced_stages(spec: TransformerSpec, pp: int) -> list[int]:
    """Layers of each stage as nanotron deals them out: by arithmetic, the head's included.

    Layer after layer goes to a stage until what has been dealt exceeds the stage's even share.
    """
    layer = sum(w.multiplied // spec.layers * w.size for w in spec.weights() if w.part != "head")
    costs = [layer] * spec.layers + [spec.vocab * spec.hidden]
    found, stage, dealt = [0] * pp, 0, 0
    for number, cost in enumerate(costs):
        dealt += cost
        found[stage] += number < spec.layers
        if dealt * pp > sum(costs) * (stage + 1):
            stage += 1
    return found


def nanotron(rows) -> Iterator[Run]:
    """The Ultra-Scale Playbook's runs: peak memory of the first rank, in GiB despite its name.

    Its scripts: gradients of 16 bits are added in 32; all heads have keys of their own; models with
    inner widths below 10,000 tie their tables; the tensor-parallel ranks share the sequence.
    """
    for row in rows:
        if row["status"] != "ok" or not row["mem_gb"]:
            continue
        ffn, pp = int(row["ffn"]), int(row["pp"])
        shape = int(row["layers"]), int(row["hidden"]), int(row["heads"]), int(row["vocab"])
        form = {"ffn": ffn, "gated": True, "norm": "rms", "bias": False, "tied": ffn < 10_000}
        spec = TransformerSpec(row["model"], *shape, **form)
        layout = Layout(
            tp=int(row["tp"]), pp=pp, dp=int(row["dp"]), zero=int(row["zero"]),
            micro_batch=int(row["mbs"]), stages=balanced_stages(spec, pp),
            sequence_parallel=int(row["tp"]) > 1,
        )  # fmt: skip
        options = {
            "seq": int(row["seq"]), "micro_batches": int(row["grad_acc"]), "recipe": "passing",
            "allocator": ALLOCATOR,
        }  # fmt: skip
        names = "model", "nodes", "pp", "tp", "dp", "mbs", "grad_acc", "zero"
        key = " ".join(row[name] for name in names)
        yield Run(row["model"], spec, layout, options, float(row["mem_gb"]) * GiB, key=key)


_SIMUMAX = {
    "llama3": published_models["llama-3.1-70b"],
    "deepseekv2": TransformerSpec(
        "deepseek-v2", 60, 5120, 128, 102400, ffn=12288, gated=True, norm="rms", bias=False,
        moe=MoE(experts=160, active=6, ffn=1536, shared=2, dense_layers=1),
        mla=MLA(q_rank=1536, kv_rank=512, rope_dim=64, nope_dim=128, value_dim=128),
    ),
}  # fmt: skip


def padded(spec: TransformerSpec, tp: int) -> TransformerSpec:
    """With Megatron-LM's tables: one row more than words, and as many as 128 x tp divide."""
    return replace(spec, vocab=-(-(spec.vocab + 1) // (128 * tp)) * 128 * tp)


def simumax(rows) -> Iterator[Run]:
    """Megatron-LM on eight B200 with fewer layers: peak allocated bytes, the fullest rank.

    As its scripts have it: one sequence at a time, no recomputation, the distributed optimizer,
    gradients added in 32 bits, a fused loss, heads exchanged where ranks share a sequence.
    """
    for row in rows:
        name = row["case"]
        found = {key: int(value) for key, value in re.findall(r"(tp|pp|dp|ep|cp|seq|mbc|l)(\d+)",
                 name.split("_", 1)[1])}  # fmt: skip
        family = name.split("_")[0]
        spec = padded(replace(_SIMUMAX[family], layers=found["l"]), found["tp"])
        split = Layout(tp=found["tp"], pp=found["pp"], cp=found.get("cp", 1)).on(8)
        layout = split | {
            "ep": found.get("ep", 1), "zero": 1, "sequence_parallel": split.tp > 1
        }  # fmt: skip
        options = {
            "seq": found.get("seq", 4096), "micro_batches": found["mbc"], "recipe": "32-bit sums",
            "allocator": None, "program": "megatron",
        }  # fmt: skip
        peak = float(row["real_alloc_gib"]) * GiB
        yield Run(f"SimuMax {family}", spec, layout, options, peak, True, name)


_TITAN = StateRecipe("sharded in 32 bits", weights=4, gradients=4, master=0, source="TorchTitan")
_TITAN_POLICY = (  # every second matrix product and attention's result are kept
    "input of the projections", "keys", "input of the feed-forward block",
    "gate after its activation function", "factor of the gate", "input of the second matrix",
)  # fmt: skip


def torchtitan(rows) -> Iterator[Run]:
    """TorchTitan's Llama 8B, fully sharded, every second product kept: peak reserved bytes."""
    for row in rows:
        layout = Layout(
            dp=int(row["fsdp"]), zero=3, micro_batch=int(row["local_bs"]), recompute=_TITAN_POLICY
        )
        options = {"seq": int(row["seq"]), "recipe": _TITAN, "allocator": ALLOCATOR}
        spec, peak = published_models["llama-3.1-8b"], float(row["mem_gib"]) * GiB
        yield Run(f"TorchTitan {row['table']}", spec, layout, options, peak, key=row["table"])


READERS = {
    "nanotron_ultrascale_h100.csv": nanotron,
    "simumax_b200.csv": simumax,
    "torchtitan.csv": torchtitan,
}


def read(folder: Path, name: str) -> list[dict]:
    """The rows of a CSV file, or none if the folder lacks it."""
    if not (folder / name).is_file():
        return []
    with open(folder / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
