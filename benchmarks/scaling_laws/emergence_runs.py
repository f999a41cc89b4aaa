"""Chapter 9's runs: `emergence-words`, `emergence-grokking`, `emergence-induction`.

    python -m benchmarks.scaling_laws.emergence_runs

records all three, in about ten minutes of one core. Every run that ends is kept in a folder of its
own, so the command goes on where it was stopped; `--again` begins anew. Nothing here is a time:
what is recorded is what the runs learned, and when.
"""

import argparse
import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from dtlib import recordings
from dtlib.files import write_whole
from dtlib.scaling_laws.emergence.answers import (
    all_right,
    answer_log_probs,
    certain_words,
    question_windows,
)
from dtlib.scaling_laws.emergence.grokking import Addition, learn_addition
from dtlib.scaling_laws.emergence.induction import Repeats, learn_to_copy
from dtlib.scaling_laws.grid.excess import QuantileText
from dtlib.scaling_laws.grid.language import ZipfWords
from dtlib.scaling_laws.grid.trunk import STEP_TOKENS, Trunk

KEPT = Path(".cache/emergence")
RATE = 0.02
TRUNKS = [(width, 0) for width in (16, 24, 32, 48, 64)] + [(16, 1), (32, 1)]  # width, seed
STEPS = [128 * 2**doubling for doubling in range(6)]  # 1/8 to 4 Mi letters
BANDS = {"common": (0, 128), "rare": (128, 1024)}  # ranks of the words that are asked for
IN_A_ROW = (1, 2, 4, 8)
WINDOWS = 1024
DECAYS = (0.0, 0.25, 0.5, 1.0, 2.0)
FRACTIONS = (0.5, 0.6, 0.8)
LONG = {0.0: 8000, 0.25: 8000, 0.5: 6000, 1.0: 2500, 2.0: 2500}


def kept(name: str, make: Callable[[], object]):
    """What `make` gave when it was first called for that name, in this folder or now."""
    path = KEPT / f"{name}.json"
    if not path.is_file():
        KEPT.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(make()))
        print(name, flush=True)
    return json.loads(path.read_text(encoding="utf-8"))


def answered(model, language: ZipfWords) -> Iterator[tuple[str, float]]:
    """What one model knows: the loss of an answer and exact match of several, for both bands."""
    for band, (first, stop) in BANDS.items():
        windows = question_windows(language, certain_words(language, first, stop), WINDOWS)
        log_probs = answer_log_probs(model, windows, language)
        yield f"answer loss, {band}", -float(log_probs.mean())
        for in_a_row in IN_A_ROW:
            yield f"{in_a_row} right, {band}", all_right(log_probs, in_a_row)


def one_trunk(width: int, seed: int) -> list[dict[str, float]]:
    """All budgets of one width: L - E, and what the model answers."""
    language = ZipfWords()
    judge, trunk = QuantileText(language), Trunk(QuantileText(language, 2048), width, seed, RATE)
    found = []
    for steps in STEPS:
        model = trunk.branch(steps, points=1).model
        facts = {"width": width, "params": 12 * width**2, "tokens": steps * STEP_TOKENS}
        facts |= {"seed": seed, "excess": judge.excess(model).nats}
        found.append({**facts, **dict(answered(model, language))})
    return found


def record_words() -> None:
    """Write `emergence-words`: lists in one order, a run of the grid at each place."""
    runs = [
        run
        for width, seed in TRUNKS
        for run in kept(f"words-{width}-{seed}", lambda w=width, s=seed: one_trunk(w, s))
    ]
    samples = {name: [_digits(run[name]) for run in runs] for name in runs[0]}
    recordings.save(
        "emergence-words",
        samples,
        unit="nats, or a probability",
        windows=WINDOWS,
        rate=RATE,
        bands={name: list(band) for name, band in BANDS.items()},
    )


def record_grokking() -> None:
    """Write `emergence-grokking`: curves of some runs, and when all of them solved."""
    tasks = {
        f"decay {decay:g}, seed {seed}": Addition(weight_decay=decay, seed=seed, steps=LONG[decay])
        for decay in DECAYS
        for seed in (0, 1, 2)
    }
    tasks |= {
        f"part {part:g}, seed {seed}": Addition(fraction=part, seed=seed, steps=4000)
        for part in FRACTIONS
        for seed in (0, 1, 2)
    }
    samples: dict[str, list[float]] = {}
    for name, task in tasks.items():
        moments = kept(f"grokking-{name}", lambda t=task: learn_addition(t))
        label, seed = name.rsplit(", seed ", 1)
        for what, place in (("train", 1), ("test", 2)):
            solved = [moment[0] for moment in moments if moment[place] >= 0.95]
            samples.setdefault(f"{what} solved, {label}", []).append(solved[0] if solved else -1)
        known = next(moment[0] for moment in moments if moment[1] >= 0.95)
        chance = [m[0] for m in moments if m[0] > known and m[4] < math.log(Addition.modulus)]
        below = samples.setdefault(f"test loss below chance, {label}", [])
        below.append(chance[0] if chance else -1)
        samples.setdefault(f"test right at the end, {label}", []).append(_digits(moments[-1][2]))
        if label in ("decay 1", "decay 0") and seed in "01":
            for what, place in (
                ("step", 0),
                ("train right", 1),
                ("test right", 2),
                ("train loss", 3),
                ("test loss", 4),
                ("norm", 5),
                ("waves", 6),
            ):
                curve = [_digits(moment[place]) for moment in moments[:126]]
                samples[f"{what}, {name}"] = curve
    recordings.save(
        "emergence-grokking",
        samples,
        unit="steps, shares or nats",
        modulus=Addition.modulus,
        fraction=Addition.fraction,
        solved="95 % right; -1: never",
        steps={f"{d:g}": LONG[d] for d in DECAYS},
    )


def record_induction() -> None:
    """Write `emergence-induction`: curves of one and two layers, three seeds of the latter."""
    samples = {}
    for layers, seeds in ((2, (0, 1, 2)), (1, (0, 1))):
        for seed in seeds:
            task = Repeats(layers=layers, seed=seed, steps=1200)
            looks = kept(f"induction-{layers}-{seed}", lambda t=task: learn_to_copy(t))
            for place, what in enumerate(("step", "repeated", "new", "to previous", "to match")):
                label = f"{what}, {layers} layer{'s' * (layers > 1)}, seed {seed}"
                samples[label] = [_digits(look[place]) for look in looks]
    recordings.save(
        "emergence-induction",
        samples,
        unit="steps, nats or shares",
        letters=Repeats.letters,
        length=Repeats.length,
        width=Repeats.width,
    )


def _digits(value: float) -> float:
    """Five digits of a measurement; what is counted stays whole."""
    return value if isinstance(value, int) else float(f"{value:.5g}")


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--again", action="store_true", help="forget the runs that are kept")
    if reader.parse_args().again and KEPT.is_dir():
        shutil.rmtree(KEPT)
    torch.set_num_threads(1)
    record_words()
    record_grokking()
    record_induction()


if __name__ == "__main__":
    main()
