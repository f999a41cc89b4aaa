"""``python -m dtlib grid``: train models of a scaling law on this machine, and stop when you like.

python -m dtlib grid tiny           five widths to 4 Mi tokens: minutes of one core
python -m dtlib grid reduced 1 2    seven widths to 16 Mi, seeds 1 and 2: half an hour a seed
python -m dtlib grid full 1         nine widths to 64 Mi: over an hour
python -m dtlib grid rates          one size at several rates, by two rules
python -m dtlib grid held-out       the runs of which the folder has predictions
    --into FOLDER                   where the runs lie (training-grid)

Each process takes one core: for two cores, say the same in a second terminal, with the same folder.
A run that is finished is there; ctrl-C and the same command again go on where it was.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dtlib.scaling_laws.grid.cells import FAMILIES, MI, RATES, Cell, family
from dtlib.scaling_laws.grid.excess import QuantileText
from dtlib.scaling_laws.grid.language import ZipfWords
from dtlib.scaling_laws.grid.predictions import prediction_of
from dtlib.scaling_laws.grid.training import finished, results, train_cells

OTHERS = ("rates", "held-out")
PREDICTIONS = "predictions.json"


def grid_command(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        "python -m dtlib grid",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("which", choices=[*FAMILIES, *OTHERS])
    parser.add_argument("seeds", nargs="*", type=int, default=[1])
    parser.add_argument("--into", type=Path, default=Path("training-grid"))
    asked = parser.parse_args(arguments)
    cells = cells_of(asked.which, asked.seeds, asked.into)
    bar = Bar(cells, lambda: finished(asked.into))
    try:
        train_cells(cells, asked.into, QuantileText(ZipfWords()), bar)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here")
        return 130
    print(table(results(asked.into)))
    return 0


def cells_of(which: str, seeds: Sequence[int], folder: Path) -> list[Cell]:
    """The cells that a word asks for; those of predictions are the first two runs of each.

    Raises FileNotFoundError for held-out runs where nothing was predicted.
    """
    if which == "rates":
        return list(RATES)
    if which == "held-out":
        stored = json.loads((folder / PREDICTIONS).read_text(encoding="utf-8"))
        said = [prediction_of(one) for one in stored]
        return [one.cell(number) for number in (1, 2) for one in said]
    return [cell for seed in seeds for cell in family(FAMILIES[which], seed)]


class Bar:
    """How far all cells are, in one line that is written anew; in a file, a line for each cell.

    Arguments: `cells`; `done`, which says the names of those that are finished, by whomever.
    """

    def __init__(
        self, cells: Sequence[Cell], done: Callable[[], set[str]], stream=None, clock=time.monotonic
    ):
        self.cells, self.finished = cells, done
        self.stream, self.clock = stream or sys.stdout, clock
        self.start, self.before = clock(), self._work()
        self.done = self.before

    def __call__(self, cell: Cell, tokens: int) -> None:
        ended, watched = tokens == cell.tokens, self.stream.isatty()
        if ended:
            self.done = self._work()
        if ended or watched:
            line = self.line(cell, tokens, self.done + (0 if ended else cell.work(tokens)))
            self.stream.write(f"\r{line:<79}" if watched else f"{line}\n")
            self.stream.flush()

    @property
    def total(self) -> float:
        """The work of all cells, of which there may be more than at first."""
        return sum(cell.work() for cell in self.cells)

    def line(self, cell: Cell, tokens: int, done: float) -> str:
        """The bar, the share that is done, the cell, and the minutes left at the pace so far."""
        share, pace = done / self.total, (done - self.before) / max(1e-9, self.clock() - self.start)
        left = f"{(self.total - done) / pace / 60:.0f} min left" if pace > 0 else ""
        where = (
            f"width {cell.width}, seed {cell.seed}, {tokens / MI:.1f} of {cell.tokens / MI:g} Mi"
        )
        return f"{'█' * round(20 * share):░<20} {share:4.0%}  {where}  {left}"

    def _work(self) -> float:
        names = self.finished()
        return sum(cell.work() for cell in self.cells if cell.name in names)


def table(found: Sequence[dict]) -> str:
    """L - E of every finished cell: a row for each width, a column for each D; seeds averaged.

    >>> print(table([{"kind": "fit", "width": 16, "tokens": MI, "excess": 0.3}]))
    width    1 Mi
       16  0.3000
    """
    cells: dict[tuple[int, int], list[float]] = {}
    for cell in found:
        if cell["kind"] != "rate":
            cells.setdefault((cell["width"], cell["tokens"]), []).append(cell["excess"])
    budgets = sorted({tokens for _, tokens in cells})
    lines = ["width" + "".join(f"{f'{tokens / MI:g} Mi':>8}" for tokens in budgets)]
    for width in sorted({width for width, _ in cells}):
        row = [cells.get((width, tokens)) for tokens in budgets]
        means = [f"{sum(x) / len(x):8.4f}" if x else " " * 8 for x in row]
        lines.append(f"{width:5}" + "".join(means).rstrip())
    return "\n".join(lines)
