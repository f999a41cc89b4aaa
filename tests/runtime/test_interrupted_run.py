"""A run whose ranks are killed ends with the parameters of the undisturbed one, bit by bit."""

import pytest

from benchmarks.foundations import interrupted_run as interrupted
from benchmarks.foundations.interrupted_run import executed_steps, lives, train
from dtlib import launch

SMALL = {"WIDTH": 8, "BATCH": 8}
SEED = 4  # five deaths, of both ranks


@pytest.fixture
def ranks(monkeypatch):
    for name, value in SMALL.items():
        monkeypatch.setattr(interrupted, name, value)
    with launch(2) as ranks:
        yield ranks


def undisturbed(ranks, path):
    return ranks.run(train, path, interrupted.STEPS, interrupted.SAVE_EVERY, 0, 10**9, 8, 8)[0]


def test_a_killed_run_is_the_undisturbed_run_bit_by_bit(ranks, tmp_path):
    import torch

    reference = undisturbed(ranks, str(tmp_path / "plain"))
    final, executed, deaths = interrupted.interrupted(ranks, SEED, str(tmp_path / "killed"))
    assert torch.equal(final, reference)
    assert deaths == 5 and executed == executed_steps(SEED) > interrupted.STEPS
    noted = interrupted.noted(str(tmp_path / "killed"))
    assert len(noted["restart"]) == deaths and len(noted["write"]) == 12


def test_sabotage_a_checkpoint_without_the_momentum_resumes_another_run(ranks, tmp_path):
    import torch

    path = str(tmp_path / "forgets")
    reference = undisturbed(ranks, str(tmp_path / "plain"))
    ranks.run(train, path, 20, interrupted.SAVE_EVERY, 0, 10**9, 8, 8)
    saved = torch.load(path)
    saved["optimizer"]["state"] = {}
    torch.save(saved, path)
    assert not torch.equal(undisturbed(ranks, path), reference)


def test_the_first_of_two_clocks_rings_after_half_of_their_mean():
    first = [life for seed in range(4000) for _, life in [next(lives(seed))]]
    mean = sum(first) / len(first)
    assert mean == pytest.approx(interrupted.MEAN_LIFE / 2 - 0.5, rel=0.05)
