"""Four widths at six rates, by two rules: which rate is best for which width: `width-rates`.

    python -m benchmarks.scaling_laws.width_rates FOLDER

About four minutes of one core. The folder keeps every run that has ended, and at the end the
recording is written.
"""

import sys
from pathlib import Path

from dtlib import recordings
from dtlib.scaling_laws.grid.cells import RATES
from dtlib.scaling_laws.grid.excess import QuantileText
from dtlib.scaling_laws.grid.language import ZipfWords
from dtlib.scaling_laws.grid.training import results, train_cells

NAME = "width-rates"


def record(folder: Path) -> None:
    """Train what is missing and write the recording."""
    train_cells(RATES, folder, QuantileText(ZipfWords()))
    samples = {
        f"{run['rule']} {run['width']} {run['rate']:g}": [run["excess"]] for run in results(folder)
    }
    recordings.save(NAME, samples, unit="nats per letter above E", tokens=RATES[0].tokens)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
