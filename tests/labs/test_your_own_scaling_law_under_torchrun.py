"""The lab 'Your own scaling law' under torchrun: rows on three ranks, and a run foretold."""

import re

from under_torchrun import run_under_torchrun, shortened

from book._tools.layout import ROOT

LAB = ROOT / "labs/2-scaling-laws/your-own-scaling-law"
SHORT = {
    "SCALE = 1 / 8": "SCALE = 1 / 16",
    "WIDTHS = [16, 24, 32, 48, 64]": "WIDTHS = [16, 24, 32]",
}


def run(folder, changes, solved: bool = True):
    return run_under_torchrun(LAB, 3, shortened(LAB, folder, changes, solved))


def test_three_ranks_share_the_rows_and_judge_with_a_seed_each(tmp_path):
    done = run(tmp_path, SHORT)
    assert done.returncode == 0, done.stderr[-2000:]
    said, measured = re.findall(r"\[rank 0\] (?:said|measured): +(.*)", done.stdout)
    assert re.fullmatch(r"\d\.\d{4}, a run between \d\.\d{4} and \d\.\d{4}", said)
    assert len(set(measured.split())) == 3  # three seeds, three runs


def test_sabotage_a_notebook_that_nobody_solved_ends_the_job(tmp_path):
    done = run(tmp_path, SHORT, solved=False)
    assert done.returncode == 1
    assert "NotImplementedError" in done.stderr and "measured" not in done.stdout
