"""How good is the memory equation? Against published peaks, beside the textbook's equation.

    python benchmarks/memory/memory_account.py --data DIR       all measurements of a folder python
    benchmarks/memory/memory_account.py --data DIR --fit  how the two constants were chosen python
    benchmarks/memory/memory_account.py --data DIR --record  store the errors for chapter 19 python
    benchmarks/memory/memory_account.py                  the figures that the project itself cites

Two errors stand beside each other for every set of runs: that of `rank_memory`, and that of the
textbook (16 bytes per parameter divided by ZeRO, activations, 6 bytes for each logit, everything
divided evenly among the stages). The error of a set is the mean of |predicted / measured - 1|;
beside it stands the median of predicted / measured.

Two constants are fitted (`AllocatorModel`), on nanotron's runs of one half, chosen by a hash of the
configuration; the other half judges. Peaks that a source calls allocated are compared without them.
The folder holds CSV files; those it lacks are passed over. What each must have is in its reader.
"""

import argparse
import csv
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, median

from dtlib import recordings
from dtlib.foundations import MLA, GiB, MoE, TransformerSpec, published_models
from dtlib.layout import Layout
from dtlib.memory import (
    AllocatorModel,
    StateRecipe,
    model_state_bytes,
    pipeline_memory,
    rank_memory,
)
from dtlib.memory.account.published import textbook_bytes

ALLOCATOR = AllocatorModel()
PLAIN = AllocatorModel(reserve_share=0, ahead_bytes=0)


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
        options = self.options | {
            "allocator": allocator and self.options["allocator"] and allocator
        }
        if self.fullest:
            return max(r["memory"] for r in pipeline_memory(self.spec, self.layout, **options))
        return rank_memory(self.spec, self.layout, **options)["memory"]

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


def simumax(rows) -> Iterator[Run]:
    """Megatron-LM on eight B200 with fewer layers: peak allocated bytes, the fullest rank."""
    for row in rows:
        name = row["case"]
        found = {key: int(value) for key, value in re.findall(r"(tp|pp|dp|ep|cp|seq|mbc|l)(\d+)",
                 name.split("_", 1)[1])}  # fmt: skip
        family = name.split("_")[0]
        spec = replace(_SIMUMAX[family], layers=found["l"])
        split = Layout(tp=found["tp"], pp=found["pp"], cp=found.get("cp", 1)).on(8)
        layout = split | {
            "ep": found.get("ep", 1), "zero": 1, "sequence_parallel": split.tp > 1
        }  # fmt: skip
        options = {
            "seq": found.get("seq", 4096), "micro_batches": found["mbc"], "recipe": "32-bit sums",
            "allocator": None,
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


def error(ratios: list[float]) -> float:
    """Mean |predicted / measured - 1|."""
    return mean(abs(ratio - 1) for ratio in ratios)


def report(name: str, runs: list[Run]) -> str:
    """One line: how many runs; account, account without the fitted constants, and textbook."""
    shown = f"{name:<28} {len(runs):>5}"
    for predicted in (
        lambda run: run.account(ALLOCATOR),
        lambda run: run.account(PLAIN),
        lambda run: run.textbook(),
    ):
        ratios = [predicted(run) / run.bytes for run in runs]
        shown += f"  {error(ratios):>7.1%} {median(ratios):>6.2f}"
    return shown


SHARES = [0.05 * k for k in range(7)]
AHEAD = [0, 1, 2, 3, 4]


def fit(runs: list[Run]) -> tuple[float, float, float]:
    """The reserve's share and the bytes held ahead that miss these runs least, and their error.

    The account is linear in both, so that three accounts of each run give all of the grid.
    """
    grid = {(share, ahead): [] for share in SHARES for ahead in AHEAD}
    for run in runs:
        base, reserved, held = (
            run.account(AllocatorModel(share, ahead)) for share, ahead in ((0, 0), (1, 0), (0, 1))
        )
        for share, ahead in grid:
            moving = reserved - base + ahead * (held - base)
            found = base + ahead * (held - base) + share * moving
            grid[share, ahead].append(found / run.bytes)
    share, ahead = min(grid, key=lambda at: error(grid[at]))
    return share, ahead, error(grid[share, ahead])


def fits(runs: list[Run]) -> str:
    """The constants that each part of the runs would choose, and what they miss the others by."""
    small = min(run.spec.params() for run in runs)
    parts = {
        "fitted half": lambda run: run.fitted,
        "judging half": lambda run: not run.fitted,
        "smaller model": lambda run: run.spec.params() == small,
        "larger model": lambda run: run.spec.params() != small,
    }
    shown = f"{'chosen on':<14} {'share':>6} {'ahead':>6} {'error':>6} {'others':>7}"
    for name, inside in parts.items():
        share, ahead, own = fit([run for run in runs if inside(run)])
        model = AllocatorModel(share, ahead)
        rest = error([run.account(model) / run.bytes for run in runs if not inside(run)])
        shown += f"\n{name:<14} {share:>6.2f} {ahead:>4} B {own:>6.1%} {rest:>7.1%}"
    return shown


SETS = {"TorchTitan on H100": ("TorchTitan T1", "TorchTitan T3"),
        "TorchTitan on H200": ("TorchTitan H200",)}  # fmt: skip
FUSED = 4  # bytes for each logit of a compiled loss: itself and its gradient, in 16 bits
EDGES = [round(0.3 + 0.05 * k, 2) for k in range(25)]


def record(runs: list[Run]) -> None:
    """Store the errors of all sets, and how the ratios of nanotron's runs lie: no run itself."""
    from benchmarks.memory.memory_nested import accounts, nested  # it imports this module

    ours = [run for run in runs if run.set in ("1B", "8B")]
    sets = {
        "nanotron, all 1,027 runs": ours,
        "nanotron, half that was fitted": [run for run in ours if run.fitted],
        "nanotron, half that judges": [run for run in ours if not run.fitted],
        "SimuMax on B200, in use": [run for run in runs if run.set.startswith("SimuMax")],
    } | {name: [run for run in runs if run.set in kinds] for name, kinds in SETS.items()}
    predicted = {
        "textbook": lambda run: run.textbook(),
        "counted": lambda run: run.account(PLAIN),
        "reserve": lambda run: run.account(ALLOCATOR),
    }
    errors = {
        f"{which}, {name}": [round(error([found(run) / run.bytes for run in inside]), 4)]
        for which, found in predicted.items()
        for name, inside in sets.items()
    }
    small = min(run.spec.params() for run in ours)
    halves = {
        size: [run for run in ours if (run.spec.params() == small) == (size == "smaller")]
        for size in ("smaller", "larger")
    }
    for chosen, judge in (("smaller", "larger"), ("larger", "smaller")):
        model = AllocatorModel(*fit(halves[chosen])[:2])
        ratios = [run.account(model) / run.bytes for run in halves[judge]]
        label = f"chosen on the {chosen} model, missed on the {judge}"
        errors[label] = [round(error(ratios), 4)]
    for which, _, _, _, others in nested(ours):
        if which.endswith("the smaller model"):
            chosen, judge = ("larger", "smaller") if "not" in which else ("smaller", "larger")
            label = f"terms chosen on the {chosen} model, missed on the {judge}"
            errors[label] = [round(others, 4)]
    for which, allocator in (("counted", PLAIN), ("reserve", ALLOCATOR)):
        ratios = [
            replace(run, options=run.options | {"logit_bytes": FUSED}).account(allocator)
            / run.bytes
            for run in runs
            if run.set in SETS["TorchTitan on H200"]
        ]
        errors[f"{which} and a fused loss, TorchTitan on H200"] = [round(error(ratios), 4)]
    histogram = {
        which: [sum(low <= found(run) / run.bytes < low + 0.05 for run in ours) for low in EDGES]
        for which, found in predicted.items()
    }
    recordings.save(
        "memory-equation-against-published", errors, unit="", sets=list(sets),
        counts=[len(inside) for inside in sets.values()], histogram=histogram,
        accounts=accounts(), edges=[*EDGES, round(EDGES[-1] + 0.05, 2)],
        source=__doc__.splitlines()[0],
    )  # fmt: skip


def zero_table(rows) -> str:
    """Rajbhandari et al. 2020, figure 1: GB per rank as printed, and by `model_state_bytes`."""
    shown = f"{'ZeRO, figure 1':<16} {'printed':>9} {'formula':>9}"
    for stage, row in enumerate(rows):
        found = model_state_bytes(float(row["params"]), stage, int(row["Nd"])) / 1e9
        shown += f"\n{row['stage']:<16} {float(row['gb_per_gpu']):>6.1f} GB {found:>6.1f} GB"
    return shown


_ZERO = [
    {"stage": f"stage {z}", "params": "7.5e9", "Nd": "64", "gb_per_gpu": gb}
    for z, gb in enumerate(("120", "31.4", "16.6", "1.9"))
]


def read(folder: Path, name: str) -> list[dict]:
    """The rows of a CSV file, or none if the folder lacks it."""
    if not (folder / name).is_file():
        return []
    with open(folder / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with CSV files of measurements")
    parser.add_argument("--fit", action="store_true", help="choose the two constants anew")
    parser.add_argument("--record", action="store_true", help="store the errors for the page")
    arguments = parser.parse_args()
    print(zero_table((arguments.data and read(arguments.data, "zero_memory.csv")) or _ZERO))
    if not arguments.data:
        return
    print(f"\n{'':<28} {'runs':>5}  {'account':>7} {'median':>6}  {'unfit':>7} {'median':>6}  "
          f"{'textbook':>7} {'median':>5}")  # fmt: skip
    everything = []
    for name, reader in READERS.items():
        runs = list(reader(read(arguments.data, name)))
        everything += runs
        for kind in dict.fromkeys(run.set for run in runs):
            print(report(kind, [run for run in runs if run.set == kind]))
        if reader is nanotron and runs:
            print(report("nanotron, all", runs))
            print(report("nanotron, fitted half", [run for run in runs if run.fitted]))
            print(report("nanotron, judging half", [run for run in runs if not run.fitted]))
            if arguments.fit:
                print(fits(runs))
    if arguments.record:
        record(everything)


if __name__ == "__main__":
    main()
