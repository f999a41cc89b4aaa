"""The lab under torchrun: your norms on every rank, your curve, your choice, and the judge.

    torchrun --standalone --nproc-per-node 4 torchrun_lab.py [NOTEBOOK]

NOTEBOOK is your own copy of the lab, with your functions in it (default: how-large-a-batch.ipynb
beside this file). Each rank takes one core; there must be two at least, since one rank alone has
gradients of one batch size.
"""

import os
from math import exp, log
from pathlib import Path
from statistics import fmean

import torch.distributed as dist

from dtlib import launch
from dtlib.runtime.lab_script import run_lab
from dtlib.scaling_laws import fit_hyperbola

HOURS = 10


def gathered(program, *args) -> list:
    """What the program returns on each of the ranks, on every rank."""
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, program(*args))
    return found


def judged(names: dict) -> list[str]:
    """On every rank: what the norms, the runs and the judge have said, in lines."""
    size = dist.get_world_size()
    above, small, large = names["watched"](40)
    steps = names["moments"](small, large, names["OWN"], size)
    low, high = names["ends"](*steps)
    batches = sorted(names["GUESS"])
    shares = [batches[rank::size] for rank in range(size)]
    parts = gathered(names["tuned_batches"], shares, (1, 2))
    mine = {batch: steps for part in parts for batch, (_, steps) in part.items()}
    curve = fit_hyperbola(batches, [mine[batch] for batch in batches])
    price = names["SAMPLE_TIME"], names["FIXED"], names["SIZES"], HOURS * 3600
    P, own = names["choose"](1000 * curve.fewest_steps, curve.noise_batch, *price)
    found = gathered(names["held_out"], P * own, [11 + rank for rank in range(size)])
    measured = exp(fmean(log(steps) for _, steps in found))
    return [
        f"norms at L - E = {above:.2f}: {names['scale'](*steps):.0f} [{low:.0f}, {high:.0f}]",
        f"runs: {curve.noise_batch:.0f} [{curve.low:.0f}, {curve.high:.0f}] windows",
        f"{P} GPUs of {own}: said {curve.steps(P * own):.1f} steps, measured {measured:.1f}",
    ]


def main() -> None:
    """Run the cells with the tag, then the lab; rank 0 says what came out."""
    names = run_lab(default=Path(__file__).with_name("how-large-a-batch.ipynb"))
    with launch(backend="gloo") as ranks:
        lines = ranks.run(judged, names)
    if os.environ["RANK"] == "0":
        print("\n".join(lines))


if __name__ == "__main__":
    main()
