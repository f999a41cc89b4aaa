"""Recomputation for real: the bits of the plain run, the actions of the schedule, its bytes."""

from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint as torch_checkpoint
from torch.utils.flop_counter import FlopCounterMode

from dtlib.foundations import TransformerSpec
from dtlib.memory.meter import Meter
from dtlib.memory.recompute.measure import measure_chain
from dtlib.memory.recompute.run import recompute_chain
from dtlib.memory.recompute.schedule import (
    RecomputeError,
    RecomputeSchedule,
    keep_all,
    revolve,
    uniform,
)
from dtlib.memory.recompute.simulation import simulate_recompute
from dtlib.models import Block

SPEC = TransformerSpec("small", 6, 16, 2, 30, norm="rms", gated=True, kv_heads=1, bias=False)
SCHEDULES = [
    keep_all(6),
    uniform(6, 1),
    uniform(6, 2),
    uniform(6, 4),
    uniform(6, 2, keep_last=False),
    revolve(6, 1),
    revolve(6, 2),
    revolve(6, 3),
]


class Noisy(nn.Module):
    """A layer that draws random numbers, keeps an output, and has a dropout after it."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        self.linear = nn.Linear(16, 16, dtype=dtype)

    def forward(self, x, *unused):
        return x + nn.functional.dropout(self.linear(x).tanh(), 0.3)


def blocks():
    torch.manual_seed(1)
    return nn.ModuleList(Block(SPEC, dtype=torch.float64) for _ in range(6))


def noisy():
    torch.manual_seed(1)
    return nn.ModuleList(Noisy() for _ in range(6))


def activations():
    return [torch.tanh, torch.sigmoid, torch.exp, nn.functional.gelu, nn.Tanh(), torch.sin]


MAKE = {"blocks": blocks, "noisy": noisy, "activations": activations}


def chain_of(schedule):
    return lambda layers, x: recompute_chain(schedule, layers, x)


def plain(layers, x):
    for layer in layers:
        x = layer(x)
    return x


def step(make, forward):
    """Loss, the input's gradient and every parameter's, and what the generator draws afterwards."""
    layers = make()
    torch.manual_seed(7)
    x = torch.randn(2, 5, 16, dtype=torch.float64, requires_grad=True)
    loss = forward(layers, x).square().sum()
    loss.backward()
    parameters = layers.parameters() if isinstance(layers, nn.Module) else []
    return [loss.detach(), x.grad, *(p.grad for p in parameters), torch.rand(3)]


def same(found, reference):
    return all(torch.equal(a, b) for a, b in zip(found, reference, strict=True))


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s.name)
def test_every_schedule_gives_the_bits_of_the_plain_run(kind, schedule):
    """Loss, dX, every gradient, dropout included, and the numbers drawn next: bit by bit."""
    assert same(step(MAKE[kind], chain_of(schedule)), step(MAKE[kind], plain))


@pytest.mark.parametrize("kind", MAKE)
def test_torchs_own_checkpoint_gives_the_same_bits(kind):
    def reference(layers, x):
        for layer in layers:
            x = torch_checkpoint(layer, x, use_reentrant=False)
        return x

    assert same(step(MAKE[kind], chain_of(uniform(6, 1))), step(MAKE[kind], reference))


def test_sabotage_without_the_generators_states_dropout_is_another_one():
    def forgetful(layers, x):
        return recompute_chain(uniform(6, 1), layers, x, preserve_rng=False)

    found, reference = step(noisy, forgetful), step(noisy, plain)
    assert torch.equal(found[0], reference[0])  # the loss shows nothing
    assert not torch.equal(found[1], reference[1])


def test_sabotage_a_run_that_forgets_the_parameters_is_seen():
    """E-21.2: cut the input only, and the parameters get no gradient at all."""

    class InputOnly(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, layers):
            ctx.x, ctx.layers = x, layers
            return plain(layers, x)

        @staticmethod
        def backward(ctx, gradient):
            with torch.enable_grad():
                x = ctx.x.detach().requires_grad_()
                return torch.autograd.grad(plain(ctx.layers, x), x, gradient)[0], None

    layers = blocks()
    x = torch.randn(2, 5, 16, dtype=torch.float64, requires_grad=True)
    InputOnly.apply(x, layers).sum().backward()
    assert x.grad is not None and all(p.grad is None for p in layers.parameters())


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s.name)
def test_the_actions_are_done_as_written_and_layers_run_as_often_as_simulated(schedule):
    layers, runs, log = blocks(), [0] * 6, []
    for number, layer in enumerate(layers):

        def count(*_, number=number):
            runs[number] += 1

        layer.register_forward_pre_hook(count)
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    recompute_chain(schedule, layers, x, log=log).sum().backward()
    assert tuple(log) == schedule.actions
    assert tuple(runs) == simulate_recompute(schedule).forwards


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s.name)
def test_the_meter_reads_the_simulated_bytes(kind, schedule):
    """After the forward pass and at the peak, byte for byte, whatever a layer keeps."""
    layers = MAKE[kind]()
    x = torch.randn(2, 5, 16, dtype=torch.float64, requires_grad=True)
    cost = simulate_recompute(schedule, measure_chain(layers, x))
    besides = [layer for layer in layers if isinstance(layer, nn.Module)]
    with Meter(*besides) as meter:
        y = recompute_chain(schedule, layers, x)
        assert meter.kept_bytes == cost.forward_bytes
        y.sum().backward()
    assert meter.kept_bytes == 0
    assert meter.peak_bytes == cost.peak_bytes


def test_keeping_all_keeps_what_the_plain_run_keeps():
    layers = blocks()
    x = torch.randn(2, 5, 16, dtype=torch.float64, requires_grad=True)
    with Meter(layers) as meter:
        y = plain(layers, x)
        assert meter.kept_bytes == measure_chain(layers, x).kept_bytes
    del y


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s.name)
def test_the_arithmetic_that_is_done_again_is_the_simulated_one(schedule):
    layers = blocks()
    x = torch.randn(2, 5, 16, dtype=torch.float64, requires_grad=True)
    chain = measure_chain(layers, x)
    with FlopCounterMode(display=False) as counter:
        recompute_chain(schedule, layers, x).sum().backward()
    extra = simulate_recompute(schedule, chain).extra_flops
    assert counter.get_total_flops() == 3 * chain.flops + extra


def test_a_chain_of_unequal_layers_and_frozen_ones():
    def make():
        torch.manual_seed(3)
        sizes = (16, 8, 64, 4, 32, 32, 16)
        layers = nn.ModuleList(
            nn.Sequential(nn.Linear(a, b, dtype=torch.float64), nn.GELU())
            for a, b in pairwise(sizes)
        )
        layers[0].requires_grad_(False)
        layers[3].requires_grad_(False)
        return layers

    def found(forward, needs):
        layers, x = make(), torch.ones(3, 16, dtype=torch.float64, requires_grad=needs)
        forward(layers, x).square().sum().backward()
        return [x.grad, *(p.grad for p in layers.parameters())]

    for needs in (True, False):
        for schedule in SCHEDULES:
            pairs = zip(found(chain_of(schedule), needs), found(plain, needs), strict=True)
            assert all((a is None) == (b is None) for a, b in pairs)
            pairs = zip(found(chain_of(schedule), needs), found(plain, needs), strict=True)
            assert all(torch.equal(a, b) for a, b in pairs if a is not None)


def test_a_layer_that_stands_twice_gets_both_gradients():
    def make():
        torch.manual_seed(1)
        layer = Noisy()
        return nn.ModuleList([layer, nn.Tanh(), layer, Noisy(), layer, nn.Tanh()])

    assert same(step(make, chain_of(revolve(6, 2))), step(make, plain))


def test_arguments_reach_every_layer():
    layers, positions = blocks(), torch.tensor([4, 2, 0, 1, 3])
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    expected = x
    for layer in layers:
        expected = layer(expected, positions)
    found = recompute_chain(revolve(6, 2), layers, x, positions)
    assert torch.equal(found, expected)
    assert not torch.equal(found, plain(layers, x))


def test_autocast_is_that_of_the_forward_pass():
    def step_in_bf16(forward):
        torch.manual_seed(1)
        layers = nn.ModuleList(Noisy(torch.float32) for _ in range(6))
        x = torch.randn(2, 5, 16, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16):
            loss = forward(layers, x).square().sum()
        loss.backward()
        return [x.grad, *(p.grad for p in layers.parameters())]

    assert same(step_in_bf16(chain_of(revolve(6, 2))), step_in_bf16(plain))


def test_what_runs_again_keeps_copies_in_fewer_bits_only_if_the_forward_pass_did():
    seen = []

    def noted(x):
        seen.append(torch.is_autocast_cache_enabled())
        return x * 2

    for kept in (False, True):
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=kept):
            y = recompute_chain(uniform(3, 1), [noted] * 3, torch.ones(3, requires_grad=True))
        y.sum().backward()
    assert len(seen) == 10 and seen == [False] * 5 + [True] * 5  # the last layer runs once


def test_without_gradients_the_layers_just_run():
    layers, x = blocks(), torch.randn(2, 5, 16, dtype=torch.float64)
    with torch.no_grad(), Meter(layers) as meter:
        assert torch.equal(recompute_chain(revolve(6, 2), layers, x), plain(layers, x))
    assert not meter.curve


def test_a_forward_pass_that_is_thrown_away_holds_nothing():
    layers, x = blocks(), torch.randn(2, 5, 16, dtype=torch.float64)
    with Meter(layers) as meter:
        y = recompute_chain(uniform(6, 2), layers, x)
        assert meter.kept_bytes > 0
        del y
    assert meter.kept_bytes == 0


def test_what_it_refuses():
    layers = blocks()
    x = torch.randn(2, 5, 16, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ValueError, match="the number of layers is 6, but must be 5"):
        recompute_chain(keep_all(5), layers, x)
    with pytest.raises(ValueError, match="an argument besides x is"):
        recompute_chain(keep_all(6), layers, x, x)
    with pytest.raises(RecomputeError, match="needs the running state 1"):
        recompute_chain(RecomputeSchedule("bad", 6, "A1:6"), layers, x)
    with pytest.raises(RecomputeError, match="layer 0 returns a tuple, not a tensor"):
        recompute_chain(keep_all(1), [lambda x: (x, x)], x)
    y = recompute_chain(uniform(6, 2), layers, x).sum()
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="a second backward pass"):
        y.backward()
    y = recompute_chain(uniform(6, 2), layers, x).sum()
    with torch.no_grad():
        layers[0].attention.query.weight.add_(1)
    with pytest.raises(RuntimeError, match=r"shape \(16, 16\) was changed between"):
        y.backward()
    (slope,) = torch.autograd.grad(
        recompute_chain(uniform(6, 2), layers, x).square().sum(), x, create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()
