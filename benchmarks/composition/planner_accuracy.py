"""How good are the planner's times? Against published step times, beside two others.

    python -m benchmarks.composition.planner_accuracy --data DIR [--save]

One line for each table of the folder: the planner's mean |predicted / measured - 1| and the median
of predicted / measured; then the errors of `estimate`, which cannot describe all runs, and of a
baseline of one parameter: every run reaches the same share of the peak, with its bubble on top.
The constants are the same for all tables (`software_profiles`, `SUSTAINED`).

nanotron's runs are a faulty ruler: a quarter of the pairs that differ in ZeRO's stage alone differ
by a factor of two. For them both errors are medians, of the runs without a pipeline and at most
eight ranks to a layer, and of all; and the regret says how much slower than the best of a cell (a
model and a number of GPUs) the layout is that the planner would choose.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import numpy as np

from benchmarks.published_times import Run, read_runs
from dtlib import recordings
from dtlib.composition import step_times
from dtlib.estimator import estimate
from dtlib.layouts import Layouts

SHARE = 0.45  # of the peak: the baseline's only parameter
MARGIN = 1.15  # by which a pipeline is taken to be slower than predicted, as `plan` does
NANOTRON = "nanotron_ultrascale_h100.csv"
TABLES = {
    "megatron_sc21_table1.csv": "Megatron 2021, table 1",
    "megatron_sc21_training_time.csv": "Megatron 2021, two trainings",
    "vtrain_single_a100.csv": "vTrain, one node",
    "vtrain_multi_a100.csv": "vTrain, to 512 GPUs",
    NANOTRON: "Ultra-Scale, no pipeline, tp to 8",
    "llm_foundry_mpt.csv": "llm-foundry",
    "torchtitan.csv": "TorchTitan",
    "simumax_b200.csv": "SimuMax, B200",
    "megatron_bridge.csv": "Megatron-Bridge, 16 bits",
}


def predicted(runs: list[Run]) -> np.ndarray:
    """Seconds of each run, those of one model, cluster, batch and library at once."""
    groups = defaultdict(list)
    for place, run in enumerate(runs):
        key = run.spec, run.cluster, run.batch, run.software, run.dtype
        groups[key].append(place)
    found = np.zeros(len(runs))
    for (spec, cluster, batch, software, dtype), places in groups.items():
        layouts = Layouts.of([runs[place].layout for place in places], spec.layers)
        found[places] = step_times(
            spec, cluster, layouts, batch=batch, seq=spec.context, software=software, dtype=dtype
        )
    return found


def estimated(runs: list[Run]) -> list[float]:
    """Predicted over measured by `estimate`, for the runs that it can describe."""
    found = []
    for run in runs:
        try:
            layout = run.layout | {"stages": None}
            step = estimate(run.spec, run.cluster, layout, batch=run.batch, dtype=run.dtype)["step"]
        except ValueError:
            continue
        found.append(step / run.seconds)
    return found


def error(ratios, middle=mean) -> float:
    """Mean, or another middle, of |predicted / measured - 1|."""
    return middle(abs(ratio - 1) for ratio in ratios) if len(ratios) else float("nan")


@dataclass(frozen=True)
class Judged:
    """The ratios predicted / measured of a table: of the planner, of `estimate`, of one share."""

    name: str
    planner: list[float]
    estimate: list[float]
    share: list[float]
    middle: Callable = mean

    def __str__(self) -> str:
        errors = [error(x, self.middle) for x in (self.planner, self.estimate, self.share)]
        return (
            f"{self.name:<32} {len(self.planner):>5} {errors[0]:>8.1%}"
            f" {median(self.planner):>7.2f} {len(self.estimate):>9} {errors[1]:>8.1%}"
            f" {errors[2]:>9.1%}"
        )


def judge(name: str, runs: list[Run], seconds: np.ndarray, middle=mean) -> Judged:
    """A table's runs beside what three models say of them."""
    planner = [float(time / run.seconds) for time, run in zip(seconds, runs, strict=True)]
    share = [run.baseline(SHARE) / run.seconds for run in runs]
    return Judged(name, planner, estimated(runs), share, middle)


def judge_all(folder: Path) -> Iterator[Judged]:
    """The tables of a folder, one after the other; the regrets of nanotron's are printed."""
    for name, title in TABLES.items():
        runs = read_runs(folder, name)
        if not runs:
            continue
        seconds = predicted(runs)
        if name != NANOTRON:
            yield judge(title, runs, seconds)
            continue
        plain = [i for i, run in enumerate(runs) if run.layout.pp == 1 and run.layout.tp <= 8]
        yield judge(title, [runs[i] for i in plain], seconds[plain], median)
        yield judge("Ultra-Scale, all", runs, seconds, median)
        first, five = regrets(runs, seconds)
        print(f"{'regret of the first':<32} {len(first):>5} median {median(first):.1%}, "
              f"mean {mean(first):.1%}; of the first five: median {median(five):.1%}")  # fmt: skip


def pairs_apart(runs: list[Run]) -> dict[str, list[int]]:
    """Pairs of runs that differ in nothing but ZeRO's stage 0 or 1, with and without a pipeline.

    Of each kind how many there are, and of how many one took more than twice as long: what the
    measurements say of themselves.
    """
    times = defaultdict(lambda: defaultdict(list))
    for run in runs:
        times[run.name, run.ranks, repr(run.layout | {"zero": 0})][run.layout.zero].append(run)
    found = {"pipelines": [0, 0], "others": [0, 0]}
    for of_stage in times.values():
        if 0 in of_stage and 1 in of_stage:
            one, other = (median(run.seconds for run in of_stage[zero]) for zero in (0, 1))
            kind = "pipelines" if of_stage[0][0].layout.pp > 1 else "others"
            found[kind][0] += 1
            found[kind][1] += max(one / other, other / one) > 2
    return found


def save(tables: list[Judged], folder: Path, most: int = 40) -> None:
    """Record the errors, and of each table at most so many ratios, evenly out of all, to plot."""
    samples = {}
    for table in tables:
        samples[f"engine, {table.name}"] = [error(table.planner, table.middle)]
        samples[f"one share, {table.name}"] = [error(table.share, table.middle)]
    recordings.save(
        "planner-accuracy", samples,
        tables=[table.name for table in tables],
        counts=[len(table.planner) for table in tables],
        middles=[table.middle.__name__ for table in tables],
        ratios={table.name: _some(sorted(table.planner), most) for table in tables},
        share_ratios={table.name: _some(sorted(table.share), most) for table in tables},
        pairs=pairs_apart(read_runs(folder, NANOTRON)),
    )  # fmt: skip


def _some(ratios: list[float], most: int) -> list[float]:
    places = np.linspace(0, len(ratios) - 1, min(most, len(ratios))).round().astype(int)
    return [round(ratios[place], 4) for place in places]


def regrets(runs: list[Run], seconds: np.ndarray) -> tuple[list[float], list[float]]:
    """Of each cell: how much slower than its best the chosen layout is, and the first five are.

    Where a layout was run more than once, its time is the median.
    """
    cells = defaultdict(lambda: defaultdict(list))
    for run, time in zip(runs, seconds, strict=True):
        score = time * (MARGIN if run.layout.pp > 1 else 1)
        cells[run.name, run.ranks][repr(run.layout)].append((score, run.seconds))
    first, five = [], []
    for layouts in cells.values():
        ranked = sorted((some[0][0], median(s for _, s in some)) for some in layouts.values())
        best = min(measured for _, measured in ranked)
        behind = [measured / best - 1 for _, measured in ranked]
        first.append(behind[0])
        five.append(mean(behind[:5]))
    return first, five


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with CSV files")
    parser.add_argument("--save", action="store_true", help="record the errors")
    arguments = parser.parse_args()
    print(f"{'':<32} {'runs':>5} {'planner':>8} {'median':>7} {'described':>9} {'estimate':>8}"
          f" {'one share':>9}")  # fmt: skip
    tables = []
    for table in judge_all(arguments.data):
        print(table, flush=True)
        tables.append(table)
    if arguments.save:
        save(tables, arguments.data)


if __name__ == "__main__":
    main()
