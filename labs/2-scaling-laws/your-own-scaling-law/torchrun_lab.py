"""The lab under torchrun: your `row` on every rank, your forecast, and the run that judges it.

    torchrun --standalone --nproc-per-node 4 torchrun_lab.py [NOTEBOOK]

NOTEBOOK is your own copy of the lab, with your functions and your `SCALE` in it (default:
your-own-scaling-law.ipynb beside this file). Each rank takes one core; with more ranks than widths
some have no row, and one more seed of the large run.
"""

import os
from pathlib import Path
from types import SimpleNamespace

import torch.distributed as dist

from dtlib import launch
from dtlib.exercises.labs.your_own_scaling_law.real import tokens
from dtlib.runtime.lab_script import run_lab
from dtlib.scaling_laws.grid import ZipfWords


def gathered(program, *args) -> list:
    """What the program returns on each of the ranks, on every rank."""
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, program(*args))
    return found


def judged(names: dict) -> tuple[tuple, list[float]]:
    """On every rank: what was said of the large run, and what each rank has measured."""
    size, E, budgets = dist.get_world_size(), ZipfWords().E, names["BUDGETS"]
    work = [12 * width**2 + 40_000 for width in names["WIDTHS"]]  # what a step takes, about
    shares = names["share"](work, size)
    rows = {
        width: found
        for part in gathered(names["train_mine"], shares, 1)
        for width, found in part.items()
    }
    runs = [
        SimpleNamespace(N=12 * width**2, D=tokens(steps), loss=E + rows[width][steps])
        for width in sorted(rows)
        for steps in sorted(budgets)
    ]
    at = 12 * 64**2, tokens(4 * budgets[-1])
    said = names["forecast"](runs, E, *at)
    spoken = dict(zip(("N", "D", "excess", "low", "high"), (*at, *said), strict=True))
    seeds = [names["seed_of"](spoken | {"rank": rank}) for rank in range(size)]
    return said, gathered(names["train_large"], seeds)


def main() -> None:
    """Run the cells with the tag, then the grid; rank 0 says what came out."""
    names = run_lab(default=Path(__file__).with_name("your-own-scaling-law.ipynb"))
    with launch(backend="gloo") as ranks:
        (above, low, high), measured = ranks.run(judged, names)
    if os.environ["RANK"] == "0":
        print(f"said:     {above:.4f}, a run between {low:.4f} and {high:.4f}")
        print("measured:", "  ".join(f"{found:.4f}" for found in measured))


if __name__ == "__main__":
    main()
