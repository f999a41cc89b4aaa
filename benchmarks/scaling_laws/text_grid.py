"""The same grid on program text, whose E nobody knows: `training-grid-text`, ten minutes of a core.

python -m benchmarks.scaling_laws.text_grid FOLDER      train what is missing, and write it
"""

import sys
from pathlib import Path

from benchmarks.scaling_laws.training_grid import named_runs, without_copies
from dtlib import recordings
from dtlib.scaling_laws.grid import results, train_cells
from dtlib.scaling_laws.grid.cells import MI, family
from dtlib.scaling_laws.grid.command import Bar
from dtlib.scaling_laws.grid.text import HeldOutText, SourceText
from dtlib.scaling_laws.grid.training import finished

LARGEST = {16: 8, 24: 8, 32: 8, 48: 8, 64: 8, 96: 8, 128: 4}
TEXT_NAME = "training-grid-text"


def train_text_grid(folder: Path) -> None:
    """One seed of the grid on the text."""
    cells = family(LARGEST, 1)
    bar = Bar(cells, lambda: finished(folder))
    train_cells(cells, folder, HeldOutText(SourceText()), bar)


def record_text_grid(folder: Path) -> None:
    """Write the recording of the cells that are finished, with what the text is."""
    language = SourceText()
    found = sorted(results(folder), key=lambda cell: (cell["width"], cell["tokens"]))
    samples = {
        f"width {cell['width']}, {cell['tokens'] // MI} Mi": [cell["excess"]]
        for cell in found
        if cell["kind"] == "fit"
    }
    recordings.save(
        TEXT_NAME, samples, unit="nats per byte", E=None, text=language.version,
        licence="BSD 3-clause", digest=language.digest, bytes=int(language.windows_ts.size),
        runs=named_runs(without_copies(found)),
    )  # fmt: skip


if __name__ == "__main__":
    if "--record" not in sys.argv:
        train_text_grid(Path(sys.argv[1]))
    record_text_grid(Path(sys.argv[1]))
