"""The loss scaler: torch's own, step for step; and one infinite gradient on one of the ranks."""

import math

import pytest
import torch

from dtlib import launch
from dtlib.efficiency import FP16, LossScaler, cast, share_above, share_below
from dtlib.efficiency.precision.windows import share_subnormal


def trace(scaler, flags, read):
    """The scale after steps whose gradient is infinite where the flag says so."""
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    seen = []
    for flag in flags:
        weight.grad = torch.full((3,), math.inf if flag else 1.0)
        scaler.step(optimizer)
        seen.append((read(scaler), weight.detach().tolist()))
    return seen


class Torchs:
    """torch.amp.GradScaler behind the same three lines."""

    def __init__(self, **options):
        self.scaler = torch.amp.GradScaler("cpu", **options)
        self.scaler.scale(torch.zeros(1))

    def step(self, optimizer):
        self.scaler.step(optimizer)
        self.scaler.update()


def test_the_machine_is_torchs_grad_scaler():
    flags = [step in (0, 5, 6, 17, 30, 31) for step in range(60)]
    theirs = Torchs(init_scale=64.0, growth_interval=3)
    due = trace(theirs, flags, lambda one: one.scaler.get_scale())
    assert trace(LossScaler(64.0, interval=3), flags, lambda one: one.scale) == due
    assert trace(LossScaler(64.0, interval=4), flags, lambda one: one.scale) != due


def test_a_machine_that_is_saved_goes_on():
    flags = [False, False, True, False, False, False, False]
    whole, first, second = (LossScaler(8.0, interval=3) for _ in range(3))
    due = [whole.update(flag) for flag in flags]
    found = [first.update(flag) for flag in flags[:4]]
    second.load_state_dict(first.state_dict())
    assert found + [second.update(flag) for flag in flags[4:]] == due
    assert second.skipped == 1


def one_infinite(scaler_group):
    import torch
    import torch.distributed as dist

    from dtlib.efficiency import LossScaler

    rank = dist.get_rank()
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = LossScaler(16.0, interval=2, group=dist.group.WORLD if scaler_group else None)
    seen = []
    for step in range(6):
        weight.grad = torch.full((2,), 16.0)
        if (rank, step) == (2, 1):
            weight.grad[1] = float("nan")
        scaler.step(optimizer)
        seen.append((scaler.scale, weight[0].item()))
    return seen


def test_one_infinite_gradient_on_one_rank_and_all_skip_alike():
    with launch(3) as ranks:
        together, apart = ranks.run(one_infinite, True), ranks.run(one_infinite, False)
    assert together[0] == together[1] == together[2]
    assert [scale for scale, _ in together[0]] == [16, 8, 8, 16, 16, 32]
    assert apart[0] != apart[2]  # without the flag of all, replicas are no replicas any more


def test_shares_are_counted_by_a_cast_and_grow_with_the_scale():
    draw = torch.Generator().manual_seed(0)
    for sigma, scale in ((1e-4, 1.0), (1e-7, 1.0), (1e-4, 2.0**28), (1.0, 2.0**15)):
        x = sigma * torch.randn(400_000, generator=draw, dtype=torch.float64)
        y = cast(x * scale, FP16)
        for share, counted in (
            (share_above(FP16, sigma, scale), y.isinf()),
            (share_below(FP16, sigma, scale), y == 0),
            (share_subnormal(FP16, sigma, scale), (y != 0) & (y.abs() < FP16.least_normal)),
        ):
            found = counted.double().mean().item()
            assert abs(found - share) < 5 * math.sqrt(share * (1 - share) / 400_000) + 1e-4
    shares = [share_above(FP16, 1e-4, 2.0**k) for k in range(40)]
    assert shares == sorted(shares) and shares[24] < 1e-300 and 0.014 < shares[28] < 0.016


def test_a_scaler_that_cannot_work_is_refused():
    for given in ({"scale": 0.0}, {"scale": math.inf}, {"growth": 1.0}, {"backoff": 1.0},
                  {"interval": 0}):  # fmt: skip
        with pytest.raises(ValueError, match=f"{next(iter(given))} is"):
            LossScaler(**given)
    scaler = LossScaler(1.0)
    with pytest.raises(ValueError, match="no scale is small enough"):
        for _ in range(100):
            scaler.update(True)
