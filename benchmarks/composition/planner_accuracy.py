"""How good are the planner's times? Against published step times, beside one share.

    python -m benchmarks.composition.planner_accuracy --data DIR

One line for each table of the folder: the planner's mean |predicted / measured - 1| and the median
of predicted / measured; then the error of a baseline of one parameter: every run reaches the same
share of the peak, with its bubble on top. The constants are the same for all tables
(`software_profiles`, `SUSTAINED`).

nanotron's runs are a faulty ruler: a quarter of the pairs that differ in ZeRO's stage alone differ
by a factor of two. For them both errors are medians, of the runs without a pipeline and at most
eight ranks to a layer, and of all; and the regret says how much slower than the best of a cell (a
model and a number of GPUs) the layout is that the planner would choose. `planner_record` records.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import numpy as np

from benchmarks.published_times import Run, read_runs
from dtlib.composition import step_times
from dtlib.layouts import Layouts

SHARE = 0.45  # of the peak: the baseline's only parameter
MARGIN = 1.15  # by which a pipeline is taken to be slower than predicted, as `plan` does
NANOTRON = "nanotron_ultrascale_h100.csv"
ALL = "Ultra-Scale, all"
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


def error(ratios, middle=mean) -> float:
    """Mean, or another middle, of |predicted / measured - 1|."""
    return middle(abs(ratio - 1) for ratio in ratios) if len(ratios) else float("nan")


@dataclass(frozen=True)
class Judged:
    """The ratios predicted / measured of a table: of the planner, and of one share for all.

    `seconds` are those that the planner predicts, in the order of its ratios.
    """

    name: str
    planner: list[float]
    share: list[float]
    seconds: list[float]
    middle: Callable = mean

    def __str__(self) -> str:
        ours, shares = error(self.planner, self.middle), error(self.share, self.middle)
        return (
            f"{self.name:<32} {len(self.planner):>5} {ours:>8.1%}"
            f" {median(self.planner):>7.2f} {shares:>9.1%}"
        )


def judge(name: str, runs: list[Run], seconds: np.ndarray, middle=mean) -> Judged:
    """A table's runs beside what the planner and one share say of them."""
    planner = [float(time / run.seconds) for time, run in zip(seconds, runs, strict=True)]
    share = [run.baseline(SHARE) / run.seconds for run in runs]
    return Judged(name, planner, share, seconds.tolist(), middle)


def read_tables(folder: Path) -> dict[str, list[Run]]:
    """The runs of each table that the folder has."""
    found = {name: read_runs(folder, name) for name in TABLES}
    return {name: runs for name, runs in found.items() if runs}


def is_plain(run: Run) -> bool:
    """Whether nanotron's run is one of those that the constants were fitted to."""
    return run.layout.pp == 1 and run.layout.tp <= 8


def judge_all(tables: dict[str, list[Run]]) -> Iterator[Judged]:
    """The tables, one after the other; nanotron's twice."""
    for name, runs in tables.items():
        seconds = predicted(runs)
        if name != NANOTRON:
            yield judge(TABLES[name], runs, seconds)
            continue
        plain = [i for i, run in enumerate(runs) if is_plain(run)]
        yield judge(TABLES[name], [runs[i] for i in plain], seconds[plain], median)
        yield judge(ALL, runs, seconds, median)


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


@dataclass(frozen=True)
class Cell:
    """How much slower than the best of a cell are: the planner's first, the mean of its first five.

    `four` is the mean of the same without the slowest of them; `floor` that of the five that were
    measured fastest, which no planner could go below.
    """

    model: str
    ranks: int
    first: float
    five: float
    four: float
    floor: float


def regrets(runs: list[Run], seconds: np.ndarray) -> list[Cell]:
    """Each cell of a model and a number of GPUs; of a layout that was run again the median."""
    cells = defaultdict(lambda: defaultdict(list))
    for run, time in zip(runs, seconds, strict=True):
        score = time * (MARGIN if run.layout.pp > 1 else 1)
        cells[run.name, run.ranks][repr(run.layout)].append((score, run.seconds))
    found = []
    for (model, ranks), layouts in sorted(cells.items()):
        ranked = sorted((some[0][0], median(s for _, s in some)) for some in layouts.values())
        measured = [seconds for _, seconds in ranked]
        behind = [time / min(measured) - 1 for time in measured]
        five, floor = behind[:5], mean(sorted(behind)[:5])
        four = mean(sorted(five)[:4])
        found.append(Cell(model, ranks, behind[0], mean(five), four, floor))
    return found


def repeated(runs: list[Run]) -> list[float]:
    """Of each layout that was run more than once: the longest of its times over the shortest."""
    times = defaultdict(list)
    for run in runs:
        times[run.name, run.ranks, repr(run.layout)].append(run.seconds)
    return sorted(max(some) / min(some) for some in times.values() if len(some) > 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with CSV files")
    tables = read_tables(parser.parse_args().data)
    print(f"{'':<32} {'runs':>5} {'planner':>8} {'median':>7} {'one share':>9}")
    for table in judge_all(tables):
        print(table, flush=True)
    if NANOTRON in tables:
        cells = regrets(tables[NANOTRON], predicted(tables[NANOTRON]))
        for name in ("first", "five", "four", "floor"):
            values = [getattr(cell, name) for cell in cells]
            print(f"regret, {name:<24} {len(values):>5} median {median(values):.1%}, "
                  f"mean {mean(values):.1%}")  # fmt: skip


if __name__ == "__main__":
    main()
