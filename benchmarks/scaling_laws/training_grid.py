"""Our own training grid: `training-grid`.

    python -m dtlib grid reduced 1 --into FOLDER        train, as many processes as there are cores
    python -m benchmarks.scaling_laws.training_grid FOLDER      write what is done as the recording

A recording may be written at any time: it has the cells that are finished.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from dtlib import recordings
from dtlib.scaling_laws.grid.cells import MI
from dtlib.scaling_laws.grid.language import ZipfWords
from dtlib.scaling_laws.grid.recorded import NAME
from dtlib.scaling_laws.grid.training import results


def record_grid(folder: Path) -> None:
    """Write the recording of all cells of a folder that are finished."""
    found = sorted(results(folder), key=lambda cell: (cell["width"], cell["tokens"], cell["seed"]))
    samples = defaultdict(list)
    for cell in found:
        if cell["kind"] == "fit":
            samples[f"width {cell['width']}, {cell['tokens'] // MI} Mi"].append(cell["excess"])
    recordings.save(
        NAME, dict(samples), unit="nats per letter above E", E=ZipfWords().E,
        runs=dict(map(_named, without_copies(found))),
    )  # fmt: skip


def without_copies(found: Sequence[dict]) -> list[dict]:
    """The cells, of which only a trunk's longest keeps the trunk's curve."""
    last = {(cell["width"], cell["seed"], cell["rate"], cell["rule"]): cell for cell in found}
    kept = set(map(id, last.values()))
    return [
        {key: value for key, value in cell.items() if key != "curve" or id(cell) in kept}
        for cell in found
    ]


def _named(cell: dict) -> tuple[str, dict]:
    usual = "" if cell["kind"] != "rate" else f" {cell['rule']} {cell['rate']:g}"
    tokens = f"{cell['tokens'] / MI:g} Mi"
    return f"{cell['kind']}{usual}: width {cell['width']}, {tokens}, seed {cell['seed']}", cell


if __name__ == "__main__":
    record_grid(Path(sys.argv[1]))
