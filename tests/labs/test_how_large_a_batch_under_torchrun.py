"""The lab 'How large a batch' under torchrun: norms, runs and a choice on two ranks."""

import re

from under_torchrun import run_under_torchrun, shortened

from book._tools.layout import ROOT

LAB = ROOT / "labs/2-scaling-laws/how-large-a-batch"
SHORT = {"{6: -10, 24: -8, 96: -7, 384: -7}": "{24: -8, 48: -7, 96: -7}", ", 32\\n": ", 8\\n"}


def run(folder, solved: bool):
    return run_under_torchrun(LAB, 2, shortened(LAB, folder, SHORT, solved))


def test_two_ranks_measure_tune_choose_and_judge(tmp_path):
    done = run(tmp_path, solved=True)
    assert done.returncode == 0, done.stderr[-2000:]
    for what in ("norms at L - E = 0.96", "runs"):
        (found,) = re.findall(rf"\[rank 0\] {what}: (\d+) \[(\d+), (\d+)\]", done.stdout)
        value, low, high = map(int, found)
        assert low < value < high
    said, measured = re.findall(r"said ([\d.]+) steps, measured ([\d.]+)", done.stdout)[0]
    assert 0.6 < float(said) / float(measured) < 1.7


def test_sabotage_a_notebook_that_nobody_solved_ends_the_job(tmp_path):
    done = run(tmp_path, solved=False)
    assert done.returncode == 1
    assert "NotImplementedError" in done.stderr and "measured" not in done.stdout
