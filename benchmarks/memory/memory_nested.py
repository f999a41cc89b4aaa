"""Were the terms of the memory account chosen by looking at the runs that judge it?

    python -m benchmarks.memory.memory_nested --data DIR    the folder of `memory_account`

There the constants are chosen on one part of nanotron's runs and judged by another, but which terms
there are was decided with all runs in view. Here that choice is made by one part alone as well: of
all accounts that differ in four terms and two constants, the one that misses this part least is
judged by the runs that it has not seen.
"""

import argparse
import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.memory.runs import AHEAD, SHARES, Run, nanotron, read
from dtlib.memory import AllocatorModel, rank_memory

CHOICES = {
    "passing": (0, 1),  # gradients in 16 bits beside the sums in 32
    "logits": (6, 10),  # bytes for each of them: without and with their softmax
    "sequence": (0, 1),  # the stream gathered by sequence parallelism
    "ahead": AHEAD,  # bytes for each number of the stream in each layer
    "share": SHARES,  # of the reserve
    "reserve": ("of what comes and goes", "of everything", "of the model state"),
}
STATE = ("weights", "gradients", "master", "moments")


def accounts() -> int:
    """How many accounts the choices make."""
    return math.prod(len(values) for values in CHOICES.values())


def terms(runs: list[Run]) -> dict[str, np.ndarray]:
    """Every term of every run, an array for each, as if each were always there."""
    accounts = [
        {
            width: rank_memory(
                run.spec,
                run.layout,
                **run.options | {"allocator": AllocatorModel(0, 1), "logit_bytes": width},
            ).terms()
            for width in CHOICES["logits"]
        }
        for run in runs
    ]
    names = (*STATE, "passing", "activations", "sequence", "ahead")
    found = {name: np.array([a[10].get(name, 0) for a in accounts]) for name in names}
    logits = {f"logits {w}": np.array([a[w].get("logits", 0) for a in accounts]) for w in (6, 10)}
    return found | logits


def variants(found: dict[str, np.ndarray]) -> Iterator[tuple[dict, np.ndarray]]:
    """Every account that could have been written down, and what it says of each run."""
    for values in product(*CHOICES.values()):
        chosen = dict(zip(CHOICES, values, strict=True))
        state = sum(found[name] for name in STATE) + chosen["passing"] * found["passing"]
        moving = found["activations"] + found[f"logits {chosen['logits']}"]
        moving = moving + chosen["sequence"] * found["sequence"] + chosen["ahead"] * found["ahead"]
        base = dict(zip(CHOICES["reserve"], (moving, state + moving, state), strict=True))
        yield chosen, state + moving + chosen["share"] * base[chosen["reserve"]]


def nested(runs: list[Run]) -> Iterator[tuple[str, int, dict, float, float]]:
    """For each part: its name and size, the account it would choose, its error, that of others."""
    measured = np.array([run.bytes for run in runs])
    missed = [(chosen, abs(said / measured - 1)) for chosen, said in variants(terms(runs))]
    median = np.median([run.layout.ranks for run in runs])
    small = min(run.spec.params() for run in runs)
    for name, inside in {
        "one half (by a hash)": lambda run: run.fitted,
        "the smaller model": lambda run: run.spec.params() == small,
        "at most the median of GPUs": lambda run: run.layout.ranks <= median,
        "at most 4 ranks a layer": lambda run: run.layout.tp <= 4,
        "at most 2 stages": lambda run: run.layout.pp <= 2,
    }.items():
        part = np.array([inside(run) for run in runs])
        for mask, which in ((part, name), (~part, f"not {name}")):
            if not mask.any() or mask.all():
                continue
            chosen, errors = min(missed, key=lambda at: at[1][mask].mean())
            yield which, int(mask.sum()), chosen, errors[mask].mean(), errors[~mask].mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with measurements")
    rows = read(parser.parse_args().data, "nanotron_ultrascale_h100.csv")
    print(
        f"{accounts()} accounts\n{'chosen by':<32} {'runs':>5} {'error':>6} {'others':>7}  account"
    )
    for name, runs, chosen, own, others in nested(list(nanotron(rows))):
        said = ", ".join(f"{key} {value if key == 'reserve' else f'{value:g}'}"
                         for key, value in chosen.items())  # fmt: skip
        print(f"{name:<32} {runs:>5} {own:>6.1%} {others:>7.1%}  {said}")


if __name__ == "__main__":
    main()
