"""Long sums and weights of few bits; Adam's steps after a quiet spell."""

import math

import numpy as np
import pytest
import torch

from dtlib.efficiency import (
    ACCUMULATOR,
    BF16,
    FP16,
    FP32,
    KeptWeights,
    first_step_rates,
    kahan_sum,
    most_step_rates,
    pairwise_sum,
    promoted_sum,
    running_sum,
    step_rates,
    walk,
)


def test_a_running_sum_in_float32_is_numpys_and_torchs():
    x = np.random.default_rng(0).normal(size=(500, 7)).astype(np.float32)
    total = np.zeros(7, np.float32)
    for row in x:
        total = total + row
    assert np.array_equal(running_sum(x, FP32), total)
    half = torch.zeros(7, dtype=torch.bfloat16)
    for row in torch.from_numpy(x).bfloat16():
        half = half + row
    ours = running_sum(torch.from_numpy(x).bfloat16().double().numpy(), BF16)
    assert np.array_equal(ours, half.double().numpy())


def test_a_sum_of_ones_stops_where_one_is_half_a_step():
    for kind in (BF16, FP16):
        stop = 2.0 ** (kind.mantissa_bits + 1)
        assert running_sum(np.ones(5000), kind) == stop
        assert pairwise_sum(np.ones(5000), kind) != stop


def test_kahan_is_within_two_roundings_and_without_it_is_not():
    x = np.random.default_rng(1).uniform(size=(4000, 20))
    x = running_sum(x[None], BF16)
    exact = x.sum(0)
    assert (abs(kahan_sum(x, BF16) - exact) <= 2 * BF16.roundoff * exact).all()
    assert (abs(running_sum(x, BF16) - exact) > 0.5 * exact).all()


def test_parts_that_are_promoted_lose_no_more_than_one_part():
    x = np.random.default_rng(2).uniform(size=(4096, 50))
    exact = x.sum(0)
    lost = {every: (1 - promoted_sum(x, every) / exact).max() for every in (32, 128, 4096)}
    assert 0 < lost[32] < lost[128] < 128 * 2 * ACCUMULATOR.roundoff < lost[4096]
    assert promoted_sum(x[:100], 128) == pytest.approx(exact[0] * 0 + x[:100].sum(0), rel=0.01)


def test_no_values_have_no_sum():
    for add in (running_sum, kahan_sum, pairwise_sum):
        with pytest.raises(ValueError, match="at least one number"):
            add([], BF16)


@pytest.mark.parametrize("way, due", [("nearest", 1.0), ("kahan", 1.4), ("master", 1.4)])
def test_small_steps_stop_or_do_not(way, due):
    assert walk(1.0, 1e-3, 400, BF16, way)[-1] == pytest.approx(due, rel=2 * BF16.roundoff)


def test_stochastic_steps_arrive_on_average():
    ends = [walk(1.0, 1e-3, 400, BF16, "stochastic", seed)[-1] for seed in range(60)]
    error = np.std(ends) / math.sqrt(60)
    assert abs(np.mean(ends) - 1.4) < 4 * error and error > 0


def kept(way, count=300):
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    run = KeptWeights(torch.optim.SGD([weight], lr=1e-3), BF16, way)
    for _ in range(count):
        weight.grad = torch.tensor([-1.0, -1.0])
        run.step()
        assert torch.equal(weight.detach(), weight.detach().bfloat16().float())
    return weight.detach()


def test_weights_of_few_bits_with_a_master_are_the_rounded_weights_of_a_run_in_float32():
    plain = torch.tensor([1.0, -2.0])
    for _ in range(300):
        plain += 1e-3
    assert torch.equal(kept("master"), plain.bfloat16().float())
    assert torch.equal(kept("nearest"), torch.tensor([1.0, -2.0]))
    assert (kept("kahan") - plain).abs().max() < 2 * BF16.roundoff * 2


def test_weights_must_be_float32():
    weight = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    with pytest.raises(TypeError, match="float64"):
        KeptWeights(torch.optim.SGD([weight], lr=1.0), BF16)
    with pytest.raises(ValueError, match="way is 'up'"):
        walk(1.0, 1.0, 1, BF16, "up")


def adam_step(before: int, gradient: float) -> float:
    """What torch's Adam moves by at a gradient after so many of nearly nothing."""
    weight = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))
    optimizer = torch.optim.Adam([weight], lr=1.0, eps=0.0)
    for step in range(before + 1):
        weight.grad = torch.tensor(gradient if step == before else 1e-30, dtype=torch.float64)
        was = weight.item()
        optimizer.step()
    return was - weight.item()


def test_the_first_step_after_a_quiet_spell_is_torchs_whatever_the_gradient():
    for gradient in (1e-3, 1.0, 1e6):
        assert adam_step(20_000, gradient) == pytest.approx(first_step_rates(0.9, 0.999), rel=1e-6)
    assert adam_step(0, 1.0) == pytest.approx(1.0)  # at the start of a run the bias is corrected


def test_no_gradients_make_a_larger_step_than_the_bound_and_one_sequence_makes_it():
    draw = np.random.default_rng(0)
    for b1, b2 in ((0.9, 0.999), (0.9, 0.95), (0.5, 0.9)):
        bound = most_step_rates(b1, b2)
        for _ in range(50):
            g = draw.normal(size=60) * np.exp(3 * draw.normal(size=60))
            assert max(map(abs, step_rates(g, b1, b2))) <= bound
        grown = [(b2 / b1) ** i for i in range(400)]
        assert step_rates(grown, b1, b2)[-1] == pytest.approx(bound, rel=1e-6)
        assert step_rates([g * (i % 7 != 3) for i, g in enumerate(grown)], b1, b2)[-1] < bound
