"""How good are estimates? Against published step times, beside a baseline of one parameter.

    python -m benchmarks.foundations.estimate_against_published               what the project holds
    python -m benchmarks.foundations.estimate_against_published --data DIR    a folder's tables too

It prints the runs of Narayanan et al. one by one, then one line for each set of runs, then whole
runs (`training_runs.csv`), of which mostly no more is known than parameters, tokens and a bill.

The baseline says: every run reaches the same share of the peak while its pipeline is full. It is
hard to beat on large, well-tuned runs, so it stands beside every result. The error of a set of runs
is the mean of |predicted / measured - 1|; beside it stands the median of predicted / measured,
which says on which side the errors are. One set of constants serves all files: each run is
estimated with the profile of its library, which is one of `dtlib.composition.software_profiles`.

The folder holds CSV files, as `benchmarks/published_times.py` reads them; those it lacks are passed
over.
"""

import argparse
import csv
from pathlib import Path
from statistics import mean, median

from benchmarks.published_times import READERS, read_runs
from dtlib.estimator import estimate
from dtlib.foundations import Cluster, catalog
from dtlib.foundations.cost.published_runs import bloom_run, sharded_runs, weak_scaling_runs
from dtlib.models.work import training_time

BASELINE = 0.45


def error(ratios: list[float]) -> float:
    """Mean |predicted / measured - 1|."""
    return mean(abs(ratio - 1) for ratio in ratios)


def estimated(run, cluster: Cluster, software: str | None = None, dtype: str = "bf16") -> float:
    """Seconds of a step of a run on a cluster, by the profile of its library or another one."""
    software = software or run.software
    options = {"batch": run.batch, "software": software, "dtype": dtype}
    return estimate(run.spec, cluster, run.layout, **options)["step"]


def report(name: str, runs) -> str:
    """One line: how many runs, and both errors with their medians. What cannot be is left out."""
    model, baseline, refused = [], [], 0
    for run in runs:
        try:
            predicted = estimated(run, run.cluster, dtype=getattr(run, "dtype", "bf16"))
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

    Under stage 3 also the estimate in which the rings use all ports of a node.
    """
    columns = "estimate", "all ports", "baseline", "measured"
    shown = f"{'':<18} {'GPUs':>5}" + "".join(f" {name:>9}" for name in columns)
    for run in runs:
        all_ports = run.layout.zero == 3 and estimated(run, run.cluster, "megatron-2021")
        seconds = [estimated(run, run.cluster), all_ports, run.baseline(BASELINE), run.seconds]
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
    for name in READERS:
        runs = read_runs(arguments.data, name) if arguments.data else []
        if runs:
            print(report(name, runs))
    whole = arguments.data and arguments.data / "training_runs.csv"
    if whole and whole.is_file():
        with open(whole, encoding="utf-8", newline="") as file:
            print(whole_runs(csv.DictReader(file)))


if __name__ == "__main__":
    main()
