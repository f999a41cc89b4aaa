"""The engine of the backward pass and the rule that fills buckets, in one process."""

import random

import pytest
import torch
from torch import nn

from dtlib.parallelism.data.backward import BackwardPass
from dtlib.parallelism.data.flat import Flat, buckets_of


def followed(order, early=False):
    """One backward pass over flat tensors of two layers each: what was launched, and with what.

    With `early`, a flat tensor is launched when the first of its gradients is ready.
    """
    torch.manual_seed(0)
    layers = [nn.Linear(2, 2, bias=False) for _ in range(6)]
    flats = [Flat([layers[i].weight for i in pair]) for pair in order]
    events, passes = [], []

    def launch(flat):
        events.append((flats.index(flat), sum(g is not None for g in flat.gradients())))

    def on_ready(parameter):
        if not passes:
            passes.append(BackwardPass(lambda: events.append("over"), flats, launch))
        passes[0].strike_off(parameter)
        if early:
            passes[0].missing = {flat: set() for flat in flats}
        passes[0].launch_complete()

    for layer in layers:
        layer.weight.register_post_accumulate_grad_hook(on_ready)
    nn.Sequential(*layers)(torch.ones(1, 2)).sum().backward()
    return events, passes[0]


@pytest.mark.parametrize("order", [[(5, 4), (3, 2), (1, 0)], [(0, 3), (5, 1), (4, 2)]])
def test_flat_tensors_are_launched_in_their_order_and_when_they_are_complete(order):
    events, over = followed(order)
    assert events == [(0, 2), (1, 2), (2, 2), "over"]
    assert not (over.running or over.waiting or over.late)
    assert followed(order, early=True)[0] != events  # sabotage


def test_a_pass_that_fails_is_not_over_and_does_not_run_on():
    events = []
    weight = nn.Parameter(torch.ones(2))
    weight.register_hook(lambda gradient: events.append(BackwardPass(events.clear)))
    with pytest.raises(ZeroDivisionError):
        weight.register_post_accumulate_grad_hook(lambda parameter: 1 // 0)
        weight.sum().backward()
    (failed,) = events
    assert not failed.running


def filled(sizes, limit, first):
    """By the words of the rule: take as many of those that are left as the bucket holds."""
    found = []
    while sizes:
        most = first if not found else limit
        count = max(n for n in range(1, len(sizes) + 1) if n == 1 or sum(sizes[:n]) <= most)
        found.append(sizes[:count])
        sizes = sizes[count:]
    return found


def test_buckets_hold_as_many_neighbours_as_fit():
    draw = random.Random(0)
    for _ in range(200):
        numbers = [draw.randint(1, 9) for _ in range(draw.randint(0, 12))]
        limit, first = 4 * draw.randint(1, 20), 4 * draw.randint(1, 20)
        weights = [nn.Parameter(torch.zeros(n)) for n in numbers]
        buckets = buckets_of(weights, limit, first)
        assert [p for bucket in buckets for p in bucket] == weights
        found = [[p.nbytes for p in bucket] for bucket in buckets]
        assert found == filled([4 * n for n in numbers], limit, first)
