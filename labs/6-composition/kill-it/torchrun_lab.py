"""The lab under torchrun: your `go_on` on every rank, and somebody is killed at step 7.

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1    # each attempt has a store of its own
    torchrun --standalone --nproc-per-node 4 --max-restarts 1 torchrun_lab.py NOTEBOOK FOLDER

NOTEBOOK is your own copy of the lab, with your `go_on` in it; FOLDER, for the checkpoints and the
losses, is seen by all ranks. Rank 2 is killed. With a third argument, `node`, the rank that finds
VICTIM in its environment is killed instead, and its torchrun with it: see elastic.sh.
"""

import os
import sys
from pathlib import Path

from dtlib import launch
from dtlib.exercises.labs.kill_it.real import Watch, undisturbed
from dtlib.runtime.lab_script import run_lab

STEPS, KILLED = 12, 7


def main() -> None:
    """Run the cells with the tag, then their `go_on`; rank 0 compares what was written down."""
    names = run_lab(default=Path(__file__).with_name("kill-it.ipynb"))
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else "kill-it-run")
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    node = sys.argv[3:] == ["node"]
    victim = 2 if not node else int(os.environ["RANK"]) if "VICTIM" in os.environ else None
    watch = Watch(folder, victim, KILLED, agent=node)
    with launch(backend="gloo") as ranks:
        ranks.run(names["go_on"], folder / "checkpoints", STEPS, watch)
    if os.environ["RANK"] == "0":
        due = undisturbed(STEPS)
        for size, step, loss in watch.notes():
            print(f"{size} ranks, step {step:2}: {loss:.6f}, undisturbed {due[step]:.6f}")


if __name__ == "__main__":
    main()
