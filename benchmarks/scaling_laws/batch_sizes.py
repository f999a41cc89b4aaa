"""Steps to a loss at many batch sizes, and the noise of the gradient on the way: `batch-sizes`.

    python -m benchmarks.scaling_laws.batch_sizes FOLDER

About ten minutes of one core. The folder keeps every run that has ended: who stops the command and
says it again goes on. At the end it writes the recording.
"""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch

from dtlib import recordings
from dtlib.files import write_whole
from dtlib.scaling_laws.grid.excess import QuantileText
from dtlib.scaling_laws.grid.language import ZipfWords
from dtlib.scaling_laws.noise.recorded import NAME
from dtlib.scaling_laws.noise.runs import (
    JUDGED_ON,
    SAMPLE,
    WIDTH,
    ToLoss,
    climb,
    noise_along,
    stored,
)

TARGETS = {"adam": (0.6, 0.4, 0.3), "sgd": (0.6, 0.4)}
BATCHES = {"adam": (4, 8, 16, 32, 64, 128, 256, 512, 1024), "sgd": (2, 8, 32, 128, 512)}
GUESS = {"adam": -14, "sgd": 1}  # for the smallest batch: a rate of 2^(k/2)
ALONG = {  # runs on which the noise is measured, and after how many steps
    ToLoss("adam", 64, 2**-4.5): (8, 16, 32, 64, 128, 256, 512, 1024, 2048),
    ToLoss("adam", 512, 2**-4): (8, 16, 32, 64, 128, 256),
}
JUDGED = 0.4  # the loss whose steps are the recording's samples
PAIRS, SMALL, LARGE = 24, 8, 256


def train(folder: Path, evaluation: QuantileText) -> None:
    """All runs to a loss that the folder has not, and the best of each batch from a second seed."""
    began = time.time()
    for kind, batches in BATCHES.items():
        place, evaluate = GUESS[kind], stored(folder / "runs", evaluation, TARGETS[kind])
        for batch in batches:
            place = climb(kind, batch, place, TARGETS[kind], evaluate)
            evaluate(ToLoss(kind, batch, 2 ** (place / 2), seed=2), float("inf"))
            print(f"{kind} {batch}: rate 2^{place}/2, {time.time() - began:.0f} s", flush=True)


def measure_noise(folder: Path, evaluation: QuantileText) -> list[dict]:
    """Squared norms along the runs of `ALONG`, measured once."""
    found = []
    for run, places in ALONG.items():
        path = folder / f"noise-{run.name}.json"
        if not path.exists():
            squares = noise_along(run, places, evaluation, PAIRS, SMALL, LARGE)
            write_whole(path, json.dumps([asdict(place) for place in squares]))
        found += [_place(run, place) for place in json.loads(path.read_text())]
    return found


def record(folder: Path) -> None:
    """Train what is missing and write the recording."""
    torch.set_num_threads(1)
    evaluation = QuantileText(ZipfWords(), JUDGED_ON)
    train(folder, evaluation)
    noise = measure_noise(folder, evaluation)
    runs = [json.loads(path.read_text()) for path in sorted((folder / "runs").glob("*.json"))]
    samples = {f"{kind} {batch}": _best_steps(runs, kind, batch)
               for kind, batches in BATCHES.items() for batch in batches}  # fmt: skip
    recordings.save(NAME, samples, unit=f"steps to L - E = {JUDGED}, with the best rate, two seeds",
                    width=WIDTH, sample=SAMPLE, runs=runs, noise=noise)  # fmt: skip


def _best_steps(runs: list[dict], kind: str, batch: int) -> list[float]:
    """The fewest steps of each seed."""
    found = {}
    for run in runs:
        steps = dict(map(tuple, run["steps"]))[JUDGED]
        if (run["kind"], run["batch"]) == (kind, batch) and steps:
            found[run["seed"]] = min(steps, found.get(run["seed"], steps))
    return [found[seed] for seed in sorted(found)]


def _place(run: ToLoss, place: dict) -> dict:
    squares = {f"{size}_squares": [float(f"{x:.7g}") for x in place[size]]
               for size in ("small", "large")}  # fmt: skip
    facts = {"batch": run.batch, "rate": run.rate, "step": place["step"],
             "excess": round(place["excess"], 6), "small": SMALL, "large": LARGE}  # fmt: skip
    return facts | squares


if __name__ == "__main__":
    record(Path(sys.argv[1]))
