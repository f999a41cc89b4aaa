"""Record all that the page of the planner's accuracy says, in one recording.

    python -m benchmarks.composition.planner_record --data DIR

Of each table: the errors of the planner, of the same share of the peak for all, and of constants
that were fitted to the other half; and at most 40 points to plot. A point has the ratios of both to
the measured time and, to two digits, the planner's time: no measured one, and no name of a run.
Beside them what others say of their own planners on the same runs, the regrets, the errors of
memory and of collectives, and each goal.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.collectives.network_model import EFA, errors, read_bandwidths
from benchmarks.composition.planner_accuracy import (
    NANOTRON,
    TABLES,
    Cell,
    Judged,
    error,
    is_plain,
    judge_all,
    pairs_apart,
    predicted,
    read_tables,
    regrets,
    repeated,
)
from benchmarks.composition.planner_fit import unseen_errors
from benchmarks.memory.memory_account import error as memory_error
from benchmarks.memory.runs import ALLOCATOR, nanotron, read, simumax
from benchmarks.published_times import Run
from dtlib import recordings
from dtlib.composition import step_parts
from dtlib.layouts import Layouts

MOST = 40
PEERS = {
    # Bang et al. 2024: of 1,440 runs on one node and of 109 on several
    "vTrain, one node": 0.0837,
    "vTrain, to 512 GPUs": 0.1473,
    # the column of relative errors of SimuMax's own table, over the 22 rows that are judged here
    "SimuMax, B200": 0.0699,
}
GOALS = {
    "Megatron 2021, table 1": 0.03, "Megatron 2021, two trainings": 0.03, "vTrain, one node": 0.10,
    "vTrain, to 512 GPUs": 0.06, "Ultra-Scale, no pipeline, tp to 8": 0.08, "llm-foundry": 0.10,
    "TorchTitan": 0.05, "SimuMax, B200": 0.08, "Megatron-Bridge, 16 bits": 0.10,
}  # fmt: skip
OTHER_GOALS = {
    "memory, Ultra-Scale": 0.10, "memory, SimuMax": 0.015, "collectives over nodes": 0.12,
    "regret, first": 0.06, "regret, five": 0.10,
}  # fmt: skip


def points(table: Judged) -> list[list[float]]:
    """Predicted seconds, to two digits, ratio, and ratio of the one share: evenly out of all."""
    rows = sorted(zip(table.planner, table.seconds, table.share, strict=True))
    places = np.linspace(0, len(rows) - 1, min(MOST, len(rows))).round().astype(int)
    return [
        [float(f"{seconds:.2g}"), round(ratio, 4), round(share, 4)]
        for ratio, seconds, share in (rows[at] for at in places)
    ]


def others(folder: Path, cells: list[Cell]) -> dict[str, float]:
    """Errors of memory and of collectives over several nodes, and the regrets, by their goals."""
    peaks = {
        "memory, Ultra-Scale": nanotron(read(folder, NANOTRON)),
        "memory, SimuMax": simumax(read(folder, "simumax_b200.csv")),
    }
    held = {
        name: memory_error([run.account(ALLOCATOR) / run.bytes for run in runs])
        for name, runs in peaks.items()
    }
    calls = read_bandwidths(folder / "nanotron_comm_bandwidth_h100.csv")
    far = errors(EFA, [call for call in calls if EFA.gpus < call.P])
    return held | {
        "collectives over nodes": float(np.abs(far).mean()),
        "regret, first": median(cell.first for cell in cells),
        "regret, five": median(cell.five for cell in cells),
        "regret, four": median(cell.four for cell in cells),
        "regret, floor": median(cell.floor for cell in cells),
    }


def memory_by_layer(folder: Path) -> dict[str, list[float]]:
    """How many of nanotron's runs there are, and the error of their memory.

    Those whose layer leaves its node, without a pipeline, apart from the others.
    """
    runs = list(nanotron(read(folder, NANOTRON)))
    found = {}
    for name, far in (("far", True), ("others", False)):
        inside = [run for run in runs if (run.layout.pp == 1 and run.layout.tp > 8) == far]
        ratios = [run.account(ALLOCATOR) / run.bytes for run in inside]
        found[name] = [len(ratios), round(memory_error(ratios), 4)]
    return found


def by_width(runs, seconds) -> dict[str, list[float]]:
    """Of pipelines, by the ranks of a layer: how many, their error, their median ratio."""
    found = {}
    for name, inside in (("8", lambda tp: tp == 8), ("2 or 4", lambda tp: tp in (2, 4))):
        ratios = [float(time / run.seconds) for time, run in zip(seconds, runs, strict=True)
                  if run.layout.pp > 1 and inside(run.layout.tp)]  # fmt: skip
        found[name] = [len(ratios), round(error(ratios), 4), round(median(ratios), 4)]
    return found


def stages_apart(runs: list[Run], seconds: np.ndarray) -> dict[str, list[float]]:
    """By GPUs: what ZeRO's stage 1 takes over stage 0, measured and predicted, and how many pairs.

    Of nanotron's runs without a pipeline that have at most four micro-batches: medians.
    """
    pairs = defaultdict(lambda: defaultdict(list))
    for run, time in zip(runs, seconds, strict=True):
        if is_plain(run) and run.layout.micro_batches(run.batch) <= 4:
            key = run.ranks, run.name, repr(run.layout | {"zero": 0})
            pairs[key][run.layout.zero].append((run.seconds, time))
    found = defaultdict(list)
    for (ranks, *_), of in pairs.items():
        if 0 in of and 1 in of:
            one, none = (np.median(of[zero], axis=0) for zero in (1, 0))
            found[ranks].append(one / none)
    return {
        str(ranks): [*np.median(rows, axis=0).round(3).tolist(), len(rows)]
        for ranks, rows in sorted(found.items())
    }


def exchange_moved(runs: list[Run], seconds: np.ndarray) -> dict[str, float]:
    """Error and regret if an exchange took 0.7 times as long for stage 0, 1.3 times for stage 1."""
    moved = seconds.copy()
    for place, run in enumerate(runs):
        layouts = Layouts.of([run.layout], run.spec.layers)
        of = {"batch": run.batch, "seq": run.spec.context, "software": run.software}
        exchange = step_parts(run.spec, run.cluster, layouts, **of)["exchange"][0]
        moved[place] += (-0.3 if run.layout.zero == 0 else 0.3) * exchange
    plain = [moved[i] / run.seconds for i, run in enumerate(runs) if is_plain(run)]
    five = median(cell.five for cell in regrets(runs, moved))
    return {"error": round(error(plain, median), 4), "five": round(five, 4)}


def record(folder: Path) -> None:
    """Judge all tables, refit to their halves, and save."""
    tables = read_tables(folder)
    judged, fitted = list(judge_all(tables)), unseen_errors(tables)
    ours, far = tables[NANOTRON], tables["vtrain_multi_a100.csv"]
    times = predicted(ours)
    cells = regrets(ours, times)
    samples = {}
    for table in judged:
        samples[f"engine, {table.name}"] = [round(error(table.planner, table.middle), 5)]
        samples[f"one share, {table.name}"] = [round(error(table.share, table.middle), 5)]
    for file, errors_of in fitted.items():
        samples[f"unseen, {TABLES[file]}"] = [round(errors_of.unseen, 5)]
        samples[f"start, {TABLES[file]}"] = [round(errors_of.start, 5)]
    for name, value in others(folder, cells).items():
        samples[name] = [round(value, 5)]
    recordings.save(
        "planner-accuracy", samples,
        tables=[table.name for table in judged],
        counts=[len(table.planner) for table in judged],
        middles=[table.middle.__name__ for table in judged],
        goals=GOALS | OTHER_GOALS, peers=PEERS,
        points={table.name: points(table) for table in judged},
        pairs=pairs_apart(ours), repeated=[round(spread, 2) for spread in repeated(ours)],
        cells=[[c.ranks, *np.round([c.first, c.five, c.four, c.floor], 4).tolist()] for c in cells],
        by_width=by_width(far, predicted(far)), stages_apart=stages_apart(ours, times),
        exchange_moved=exchange_moved(ours, times), memory_by_layer=memory_by_layer(folder),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with CSV files")
    record(parser.parse_args().data)


if __name__ == "__main__":
    main()
