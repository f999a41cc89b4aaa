"""The lab as a script: runs the cells tagged `torchrun` of a notebook on every rank.

    torchrun --nproc-per-node 8 torchrun_lab.py [NOTEBOOK]

NOTEBOOK is your own copy of the lab, with your functions in it (default: the one beside this
file, three-axes.ipynb). Where every rank has a GPU the same cells use NCCL, else gloo.
"""

from pathlib import Path

from dtlib.runtime.lab_script import run_lab

if __name__ == "__main__":
    run_lab(default=Path(__file__).with_name("three-axes.ipynb"))
