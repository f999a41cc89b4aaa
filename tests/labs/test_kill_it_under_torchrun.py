"""The lab 'Kill it' under torchrun: a rank is killed, and torchrun starts all of them once more."""

import pytest
from under_torchrun import run_under_torchrun

from book._tools.layout import ROOT
from dtlib.exercises.labs.kill_it.real import Watch, undisturbed

LAB = ROOT / "labs/6-composition/kill-it"


def run(folder, restarts: int):
    return run_under_torchrun(
        *(LAB, 3, LAB / "kill-it-solved.ipynb", folder),
        options=("--max-restarts", str(restarts)),
        TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
    )


def test_torchrun_starts_again_and_the_losses_are_the_undisturbed_runs(tmp_path):
    done = run(tmp_path, restarts=1)
    assert done.returncode == 0, done.stderr[-2000:]
    notes = Watch(tmp_path, None, 0).notes()
    assert [step for _, step, _ in notes] == [*range(8), *range(6, 12)]
    due = undisturbed(12)
    for _, step, loss in notes:
        assert loss == pytest.approx(due[step], rel=1e-9)
    assert done.stdout.count("[rank 0] 3 ranks, step") == len(notes)


def test_sabotage_without_a_restart_the_job_ends_with_the_first_death(tmp_path):
    done = run(tmp_path, restarts=0)
    assert done.returncode == 1
    assert [step for _, step, _ in Watch(tmp_path, None, 0).notes()] == list(range(8))
