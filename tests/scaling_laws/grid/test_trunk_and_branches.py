"""A branch is the run that would have been trained alone, to the last digit; so is a saved one."""

import copy
import math
from itertools import pairwise

import pytest
import torch

from dtlib.scaling_laws.grid import (
    QuantileText,
    Trunk,
    ZipfWords,
    decay_start,
    grid_model,
    grid_optimizer,
    grid_spec,
    rate_factor,
)

STEPS = 120


@pytest.fixture(scope="module")
def text():
    torch.set_num_threads(1)
    return QuantileText(ZipfWords(), words=512)


def new(text: QuantileText, seed: int = 1) -> Trunk:
    return Trunk(text, width=16, seed=seed, rate=0.02)


@pytest.fixture(scope="module")
def alone(text):
    return new(text).train(STEPS, steps=STEPS)


def same(one: Trunk, other: Trunk) -> bool:
    """Whether all weights and all moments of two runs are the same bits."""
    weights = zip(one.model.parameters(), other.model.parameters(), strict=True)
    moments = [run.optimizer.state_dict()["state"] for run in (one, other)]
    return all(torch.equal(a, b) for a, b in weights) and all(
        torch.equal(moments[0][i][name], moments[1][i][name])
        for i in moments[0]
        for name in ("exp_avg", "exp_avg_sq")
    )


@pytest.mark.parametrize("steps", [5, 64, 100, 1000, 65536])
def test_until_its_decay_a_run_does_not_know_how_long_it_is(steps):
    start = decay_start(steps)
    assert all(rate_factor(step, steps) == rate_factor(step) for step in range(start))
    later = [rate_factor(step, steps) for step in range(start, steps)]
    assert all(0 < factor < rate_factor(start) for factor in later)


def test_a_decay_is_a_straight_line_from_the_full_rate_to_zero():
    factors = [rate_factor(step, 1000) for step in range(799, 1000)] + [0.0]
    steps = [a - b for a, b in pairwise(factors)]
    assert max(steps) - min(steps) < 1e-15


def test_a_branch_is_the_separate_run_to_the_last_bit(text, alone):
    branch = new(text).branch(STEPS)
    assert same(branch, alone)
    assert branch.excess() == alone.excess()


def test_a_trunk_goes_on_after_a_branch_as_if_there_had_been_none(text):
    branched, straight = new(text), new(text)
    branched.branch(STEPS)
    assert same(branched.train(STEPS), straight.train(STEPS))


def test_a_later_branch_of_the_same_trunk_is_its_separate_run(text):
    trunk = new(text)
    trunk.branch(STEPS // 2)
    assert same(trunk.branch(STEPS), new(text).train(STEPS, steps=STEPS))


def test_a_branch_that_forgets_its_moments_is_another_run(text, alone):
    trunk = new(text).train(decay_start(STEPS))
    trunk.optimizer = grid_optimizer(trunk.model, rate=0.02)
    assert not same(trunk.branch(STEPS), alone)


def test_a_branch_that_leaves_one_step_late_is_refused(text):
    trunk = new(text).train(decay_start(STEPS) + 1)
    with pytest.raises(
        ValueError, match=f"step is 97, but must be at most 96, where a run of {STEPS}"
    ):
        trunk.branch(STEPS)


@pytest.mark.parametrize("stopped", [1, 63, 64, 90])
def test_a_saved_trunk_goes_on_to_the_same_digits(text, alone, tmp_path, stopped):
    new(text).train(stopped).save(tmp_path / "trunk.pt")
    resumed = new(text).load(tmp_path / "trunk.pt")
    branch = resumed.branch(STEPS)
    assert same(branch, alone)
    whole = new(text)
    assert branch.curve == whole.branch(STEPS).curve
    assert resumed.curve == whole.curve


def test_a_trunk_that_resumes_with_another_text_is_another_run(text, alone, tmp_path):
    new(text).train(64).save(tmp_path / "trunk.pt")
    assert not same(new(text, seed=2).load(tmp_path / "trunk.pt").branch(STEPS), alone)


def test_a_curve_has_four_points_for_a_doubling(text):
    trunk = new(text).train(256)
    assert [tokens // 1024 for tokens, _, _ in trunk.curve] == [
        64,
        76,
        91,
        108,
        128,
        152,
        181,
        215,
        256,
    ]
    assert all(math.isfinite(loss) and 0 < excess < 3 for _, loss, excess in trunk.curve)
    assert trunk.curve[-1][2] == trunk.excess().nats


def test_a_models_weights_are_counted_by_its_spec():
    for width in (16, 24, 48, 128, 192):
        model = grid_model(width, seed=1)
        matrices = sum(w.numel() for w in model.blocks.parameters() if w.ndim == 2)
        assert matrices == 12 * width**2
        assert sum(w.numel() for w in model.parameters()) == grid_spec(width).params()


def first_moves(width: int, rule: str) -> float:
    """How far the logits move in one step, as a root mean square."""
    model = grid_model(width, seed=3)
    optimizer = grid_optimizer(model, rate=1e-3, rule=rule)
    tokens = torch.arange(32).view(1, 32)
    logits = model(tokens)
    torch.nn.functional.cross_entropy(logits[0], tokens[0].roll(-1)).backward()
    optimizer.step()
    return (model(tokens) - logits).square().mean().sqrt().item()


def test_one_step_moves_logits_alike_at_all_widths_and_further_without_the_rule():
    narrow, wide = (first_moves(width, "mup") for width in (32, 512))
    assert narrow / 2 < wide < 2 * narrow
    assert first_moves(512, "same") > 8 * first_moves(32, "same")


def test_the_rules_are_one_at_the_base_width():
    groups = [
        grid_optimizer(grid_model(32, 1), 0.02, rule).param_groups for rule in ("mup", "same")
    ]
    assert [g["lr"] for g in groups[0]] == [g["lr"] for g in groups[1]] == [0.02, 0.02]


def test_what_cannot_be_built_is_refused():
    with pytest.raises(ValueError, match="width is 18, but must be a multiple of its 4 heads"):
        grid_spec(18)
    with pytest.raises(ValueError, match="rule is 'none', but must be 'mup' or 'same'"):
        grid_optimizer(grid_model(16, 1), 0.02, rule="none")
    assert copy.deepcopy(grid_spec(16)) == grid_spec(16)
