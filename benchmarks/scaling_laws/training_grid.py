"""Our own training grid: `training-grid`, hours of each core, which may be stopped anywhere.

    python -m benchmarks.scaling_laws.training_grid FOLDER            train; once for each core
    python -m benchmarks.scaling_laws.training_grid FOLDER --record   write what is done

The order is such that each stop leaves a grid: the reduced family with seed 1, its held-out runs,
seed 2; the wide and the long runs, likewise. What held-out runs will reach is predicted as
soon as their family is complete, and stays: their seeds follow from it, so they cannot come first.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

from dtlib import recordings
from dtlib.files import write_whole
from dtlib.scaling_laws.grid import QuantileText, check_order, results, seal_predictions
from dtlib.scaling_laws.grid.cells import FAMILIES, FULL, MI, REDUCED, Cell, family
from dtlib.scaling_laws.grid.command import PREDICTIONS, Bar
from dtlib.scaling_laws.grid.language import ZipfWords
from dtlib.scaling_laws.grid.predictions import prediction_of
from dtlib.scaling_laws.grid.recorded import NAME, run_of
from dtlib.scaling_laws.grid.training import claim, finished, train_next

CELL = tuple(one.name for one in fields(Cell))
SEALED = {"reduced": (1,), "full": (1,)}  # from which seeds a family's predictions are made


def program(folder: Path) -> list[Cell]:
    """All runs in the order in which they are wanted; held-out ones once they are predicted."""
    held_out = defaultdict(list)
    for prediction in map(prediction_of, said(folder)):
        for number in (1, 2):
            held_out[prediction.family, number].append(prediction.cell(number))
    return [
        *family(REDUCED, 1), *held_out["reduced", 1], *family(REDUCED, 2), *held_out["reduced", 2],
        *family(FULL, 1), *held_out["full", 1], *family(FULL, 2), *held_out["full", 2],
    ]  # fmt: skip


def train(folder: Path) -> None:
    """Go through the program; what can be predicted is predicted before the next run begins."""
    folder.mkdir(parents=True, exist_ok=True)
    text = QuantileText(ZipfWords())
    bar = Bar(predicted_program(folder), lambda: finished(folder))
    while train_next(bar.cells, folder, text, bar):
        bar.cells = predicted_program(folder)


def predicted_program(folder: Path) -> list[Cell]:
    """The program, after predicting the held-out runs of each family that is complete by now."""
    with claim(folder / "predictions.lock") as mine:
        for name, seeds in SEALED.items() if mine else ():
            wanted = {cell.name for seed in seeds for cell in family(FAMILIES[name], seed)}
            made_before = name in {one["family"] for one in said(folder)}
            if wanted <= finished(folder) and not made_before:
                say(folder, name, seeds)
    return program(folder)


def say(folder: Path, name: str, seeds: Sequence[int]) -> None:
    """Predict a family's held-out runs and write it down."""
    runs = [run_of(cell, ZipfWords().E) for cell in results(folder)]
    made = datetime.now(UTC).isoformat(timespec="minutes")
    found = [asdict(one) for one in seal_predictions(runs, name, seeds, made=made)]
    write_whole(folder / PREDICTIONS, json.dumps(said(folder) + found, indent=1))


def said(folder: Path) -> list[dict]:
    """What was predicted so far."""
    path = folder / PREDICTIONS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def record_grid(folder: Path) -> None:
    """Write the recording of the families of a folder that are finished, and of what was predicted.

    Raises OrderError where a held-out run does not follow from its prediction.
    """
    E, predictions = ZipfWords().E, said(folder)
    found = sorted(whole(results(folder)), key=itemgetter("width", "tokens", "seed"))
    check_order(map(prediction_of, predictions), [run_of(cell, E) for cell in found])
    recordings.save(
        NAME, by_cell(found), unit="nats per letter above E", E=E, predictions=predictions,
        runs=named_runs(without_copies(found)),
    )  # fmt: skip


def whole(found: Sequence[dict]) -> list[dict]:
    """The finished cells without those of a family and seed of which some are still missing."""
    done = {name_of(cell) for cell in found}
    seeds = {cell["seed"] for cell in found}
    families = [{one.name for one in family(most, s)} for most in (REDUCED, FULL) for s in seeds]
    partly = set().union(*families) - set().union(*(one for one in families if one <= done))
    return [cell for cell in found if name_of(cell) not in partly]


def name_of(result: dict) -> str:
    """The name of the cell whose result this is."""
    return Cell(**{key: result[key] for key in CELL}).name


def by_cell(found: Sequence[dict]) -> dict[str, list[float]]:
    """L - E of the fitted cells, with one sample for each seed."""
    samples = defaultdict(list)
    for cell in found:
        if cell["kind"] == "fit":
            samples[f"width {cell['width']}, {cell['tokens'] // MI} Mi"].append(cell["excess"])
    return dict(samples)


def without_copies(found: Sequence[dict]) -> list[dict]:
    """The cells, of which only a trunk's longest keeps the trunk's curve."""
    last = {(cell["width"], cell["seed"], cell["rate"], cell["rule"]): cell for cell in found}
    kept = set(map(id, last.values()))
    return [
        {key: value for key, value in cell.items() if key != "curve" or id(cell) in kept}
        for cell in found
    ]


def named_runs(cells: Sequence[dict]) -> dict[str, dict]:
    """The cells by a name that can be read, a line each in the recording."""
    name = "{kind}: width {width}, {size:g} Mi, seed {seed}"
    return {name.format(**cell, size=cell["tokens"] / MI): cell for cell in cells}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--record", action="store_true", help="write what is done, train nothing")
    asked = parser.parse_args()
    if not asked.record:
        train(asked.folder)
    record_grid(asked.folder)


if __name__ == "__main__":
    main()
