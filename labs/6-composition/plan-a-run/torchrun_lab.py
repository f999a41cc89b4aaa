"""The lab as a script: runs the cells tagged `torchrun` of a notebook on every rank.

    torchrun --nproc-per-node 4 torchrun_lab.py [NOTEBOOK]

NOTEBOOK is your own copy of the lab, with your functions in it (default: the one beside this
file, plan-a-run.ipynb). The four ranks stay on the CPU.
"""

from pathlib import Path

from dtlib.runtime.lab_script import run_lab

if __name__ == "__main__":
    run_lab(default=Path(__file__).with_name("plan-a-run.ipynb"))
