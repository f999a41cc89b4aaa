"""The lab under torchrun: your compressor beside whole gradients and the given one.

    torchrun --standalone --nproc-per-node 4 torchrun_lab.py [NOTEBOOK]

NOTEBOOK is your own copy of the lab, with your classes and `mine` in it (default: send-less.ipynb
beside this file). The ranks stay on the CPU; what they send goes over whatever lies between them.
"""

import os
from pathlib import Path

from dtlib import launch
from dtlib.efficiency import Dense, Levels
from dtlib.exercises.labs.send_less.task import Task
from dtlib.runtime.lab_script import run_lab

STEPS = 40


def main() -> None:
    """Run the cells with the tag, then three lanes; rank 0 says what came out."""
    names = run_lab(default=Path(__file__).with_name("send-less.ipynb"))
    lined_up = {"whole": Dense(), "given": Levels(bits=8, bucket=512), "mine": names["mine"]}
    with launch(backend="gloo") as ranks:
        found = ranks.run(names["on_ranks"], lined_up, STEPS, Task(words=8000, hidden=64))
    if os.environ["RANK"] == "0":
        for name, (losses, seconds, counted, _) in found.items():
            loss = f"loss {losses[0]:.3f} to {losses[-1]:.3f}"
            print(f"{name}: {1e3 * seconds:.0f} ms a step, {counted:,.0f} bytes, {loss}")


if __name__ == "__main__":
    main()
