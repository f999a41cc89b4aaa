"""Train cells, in any number of processes, one thread each; stop whenever you like.

A folder holds what is done: `cells/NAME.json`, a file for each finished run, written whole; and
`trunks/NAME.pt`, where each trunk is. A process takes the first cell whose trunk no other process
holds, so that a second process is started by saying the same command again. Who is killed loses
the steps since the trunk was last saved, and repeats them with the same digits.
"""

import fcntl
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import date
from pathlib import Path

import torch

from dtlib.files import write_whole
from dtlib.scaling_laws.grid.cells import Cell
from dtlib.scaling_laws.grid.excess import QuantileText
from dtlib.scaling_laws.grid.trunk import STEP_TOKENS, Trunk
from dtlib.scaling_laws.grid.warmth import decay_start

SAVED = 4096  # steps after which a trunk is saved on its way
DIGITS = 7  # kept of a measurement
Progress = Callable[[Cell, int], None]


def train_cells(
    cells: Iterable[Cell],
    folder: Path,
    evaluation: QuantileText,
    progress: Progress = lambda cell, tokens: None,
) -> int:
    """Train what is not done yet, in order, and return how many cells this process has done.

    `progress(cell, tokens)` is called every 64 steps, and at the end of a cell.
    """
    cells, done = list(cells), 0
    while train_next(cells, folder, evaluation, progress):
        done += 1
    return done


def train_next(
    cells: Iterable[Cell], folder: Path, evaluation: QuantileText, progress: Progress
) -> Cell | None:
    """Train the first cell that is not done and whose trunk is free; None where there is none."""
    torch.set_num_threads(1)
    for directory in ("cells", "trunks"):
        (folder / directory).mkdir(parents=True, exist_ok=True)
    for cell in cells:
        if _result(folder, cell).exists():
            continue
        with claim(folder / "trunks" / f"{cell.trunk}.lock") as mine:
            if mine and not _result(folder, cell).exists():
                train_cell(cell, folder, evaluation, progress)
                return cell
    return None


def train_cell(cell: Cell, folder: Path, evaluation: QuantileText, progress: Progress) -> dict:
    """One run: bring the trunk to where the branch leaves it, save it, decay, measure, write."""
    steps, path = cell.tokens // STEP_TOKENS, folder / "trunks" / f"{cell.trunk}.pt"
    trunk = Trunk(evaluation, cell.width, cell.seed, cell.rate, cell.rule)
    if path.exists():
        trunk.load(path)
    if trunk.step > decay_start(steps):  # a shorter run than those that are done: from the start
        trunk = Trunk(evaluation, cell.width, cell.seed, cell.rate, cell.rule)
        path = path.with_suffix(".short.pt")

    def on_step(run: Trunk) -> None:
        if run.step % 64 == 0 and run.step < steps:
            progress(cell, run.step * STEP_TOKENS)
        if run is trunk and run.step % SAVED == 0:
            run.save(path)

    trunk.train(decay_start(steps), on_step=on_step).save(path)
    branch = trunk.branch(steps, on_step=on_step)
    found = branch.excess()
    result = asdict(cell) | {
        "params": cell.params,
        "all_params": branch.model.spec.params(),
        "excess": round(found.nats, DIGITS),
        "by_letter": [round(x, DIGITS) for x in found.by_letter],
        "right": [round(x, DIGITS) for x in found.right],
        "words": round(found.words, DIGITS),
        "cooling": _rounded(branch.curve),
        "curve": _rounded(trunk.curve),
        "seconds": round(branch.seconds, 1),
        "date": date.today().isoformat(),
    }
    write_whole(_result(folder, cell), json.dumps(result))
    progress(cell, cell.tokens)
    return result


def finished(folder: Path) -> set[str]:
    """The names of the folder's finished cells."""
    return {file.stem for file in (folder / "cells").glob("*.json")}


def results(folder: Path) -> list[dict]:
    """What the folder's finished cells have measured, by name."""
    files = sorted((folder / "cells").glob("*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def _result(folder: Path, cell: Cell) -> Path:
    return folder / "cells" / f"{cell.name}.json"


def _rounded(curve: list[tuple[int, float, float]]) -> list[list]:
    """Points for a JSON file, which knows no number that is none."""
    return [
        [tokens, None if loss != loss else round(loss, 5), round(excess, 6)]
        for tokens, loss, excess in curve
    ]


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Whether this process alone has the file; the system gives it back when the process ends."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
