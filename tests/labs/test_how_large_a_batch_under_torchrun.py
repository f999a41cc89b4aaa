"""The lab 'How large a batch' under torchrun: norms, runs and a choice on two ranks."""

import os
import re
import subprocess
import sys

from book._tools.layout import ROOT

LAB = ROOT / "labs/2-scaling-laws/how-large-a-batch"
SHORT = {"{6: -10, 24: -8, 96: -7, 384: -7}": "{24: -8, 48: -7, 96: -7}", ", 32\\n": ", 8\\n"}


def run_under_torchrun(folder, solved: bool) -> subprocess.CompletedProcess:
    text = (LAB / f"how-large-a-batch{'-solved' * solved}.ipynb").read_text(encoding="utf-8")
    for old, new in SHORT.items():
        assert old in text
        text = text.replace(old, new)
    notebook = folder / "mine.ipynb"
    notebook.write_text(text, encoding="utf-8")
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run(
        [sys.executable, "-m", *launcher, str(LAB / "torchrun_lab.py"), str(notebook)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )


def test_two_ranks_measure_tune_choose_and_judge(tmp_path):
    done = run_under_torchrun(tmp_path, solved=True)
    assert done.returncode == 0, done.stderr[-2000:]
    for what in ("norms at L - E = 0.96", "runs"):
        (found,) = re.findall(rf"\[rank 0\] {what}: (\d+) \[(\d+), (\d+)\]", done.stdout)
        value, low, high = map(int, found)
        assert low < value < high
    said, measured = re.findall(r"said ([\d.]+) steps, measured ([\d.]+)", done.stdout)[0]
    assert 0.6 < float(said) / float(measured) < 1.7


def test_sabotage_a_notebook_that_nobody_solved_ends_the_job(tmp_path):
    done = run_under_torchrun(tmp_path, solved=False)
    assert done.returncode == 1
    assert "NotImplementedError" in done.stderr and "measured" not in done.stdout
