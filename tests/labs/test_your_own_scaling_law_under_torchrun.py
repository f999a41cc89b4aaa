"""The lab 'Your own scaling law' under torchrun: rows on three ranks, and a run foretold."""

import os
import re
import subprocess
import sys

from book._tools.layout import ROOT

LAB = ROOT / "labs/2-scaling-laws/your-own-scaling-law"
SHORT = {
    "SCALE = 1 / 8": "SCALE = 1 / 16",
    "WIDTHS = [16, 24, 32, 48, 64]": "WIDTHS = [16, 24, 32]",
}


def run_under_torchrun(folder, changes, solved: bool = True) -> subprocess.CompletedProcess:
    name = "your-own-scaling-law" + "-solved" * solved
    text = (LAB / f"{name}.ipynb").read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    notebook = folder / "mine.ipynb"
    notebook.write_text(text, encoding="utf-8")
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
    return subprocess.run(
        [sys.executable, "-m", *launcher, str(LAB / "torchrun_lab.py"), str(notebook)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )


def test_three_ranks_share_the_rows_and_judge_with_a_seed_each(tmp_path):
    done = run_under_torchrun(tmp_path, SHORT)
    assert done.returncode == 0, done.stderr[-2000:]
    said, measured = re.findall(r"\[rank 0\] (?:said|measured): +(.*)", done.stdout)
    assert re.fullmatch(r"\d\.\d{4}, a run between \d\.\d{4} and \d\.\d{4}", said)
    assert len(set(measured.split())) == 3  # three seeds, three runs


def test_sabotage_a_notebook_that_nobody_solved_ends_the_job(tmp_path):
    done = run_under_torchrun(tmp_path, SHORT, solved=False)
    assert done.returncode == 1
    assert "NotImplementedError" in done.stderr and "measured" not in done.stdout
