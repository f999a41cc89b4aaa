"""How good is the memory equation? Against published peaks, beside the textbook's equation.

    python -m benchmarks.memory.memory_account --data DIR           all measurements of a folder
    python -m benchmarks.memory.memory_account --data DIR --fit     how the constants were chosen
    python -m benchmarks.memory.memory_account --data DIR --record  store the errors for chapter 19
    python -m benchmarks.memory.memory_account                      figures that the project cites

Errors stand beside each other for every set of runs: that of `rank_memory` with what is known of
the program (`Program`, `launch_queue`), that of the account of any program, with and without its
two fitted constants, and that of the textbook (16 bytes per parameter divided by ZeRO, activations,
6 bytes for each logit, everything divided evenly among the stages). The error of a set is the mean
of |predicted / measured - 1|; beside it stands the median of predicted / measured.

Two constants are fitted (`AllocatorModel`), on nanotron's runs of one half, chosen by a hash of the
configuration; the other half judges. Peaks that a source calls allocated are compared without them.
The folder holds CSV files; those it lacks are passed over. `runs` reads them.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

from benchmarks.memory.memory_nested import accounts, nested
from benchmarks.memory.runs import AHEAD, ALLOCATOR, PLAIN, READERS, SHARES, Run, nanotron, read
from dtlib import recordings
from dtlib.memory import AllocatorModel, model_state_bytes


def error(ratios: list[float]) -> float:
    """Mean |predicted / measured - 1|."""
    return mean(abs(ratio - 1) for ratio in ratios)


def report(name: str, runs: list[Run]) -> str:
    """One line: how many runs; account, account of any program, without constants, textbook."""
    shown = f"{name:<28} {len(runs):>5}"
    for predicted in (
        lambda run: run.account(ALLOCATOR),
        lambda run: run.general(),
        lambda run: run.account(PLAIN),
        lambda run: run.textbook(),
    ):
        ratios = [predicted(run) / run.bytes for run in runs]
        shown += f"  {error(ratios):>7.1%} {median(ratios):>6.2f}"
    return shown


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with CSV files of measurements")
    parser.add_argument("--fit", action="store_true", help="choose the two constants anew")
    parser.add_argument("--record", action="store_true", help="store the errors for the page")
    arguments = parser.parse_args()
    print(zero_table((arguments.data and read(arguments.data, "zero_memory.csv")) or _ZERO))
    if not arguments.data:
        return
    heads = ("account", "general", "unfit", "textbook")
    shown = "  ".join(f"{head[:7]:>7} {'median':>6}" for head in heads)
    print(f"\n{'':<28} {'runs':>5}  {shown}")
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
