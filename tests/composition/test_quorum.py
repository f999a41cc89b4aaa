"""Replicas that vote on each step: killed for real at every point, and healed to the bit."""

import multiprocessing

import pytest
import torch

from dtlib.composition.quorum.lighthouse import train_with_quorum
from dtlib.composition.quorum.task import POINTS, Fault, Task

STEPS, SHARES, ROWS = 5, 6, 3


def make():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    model.double()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def loss(model, number):
    draw = torch.Generator().manual_seed(number)
    x = torch.randn(ROWS, 4, dtype=torch.float64, generator=draw)
    return (model(x) - x[:, :2].sin()).square().mean()


def restore_weights_only(model, optimizer, state):
    model.load_state_dict(state["model"])


TASK = Task(make, loss, SHARES, STEPS)


@pytest.fixture(scope="module")
def alone():
    """The weights and the optimizer's state by a loop in one process that knows no replicas."""
    model, optimizer = make()
    for step in range(STEPS):
        total = [torch.zeros_like(w) for w in model.parameters()]
        for share in range(SHARES):
            value = loss(model, step * SHARES + share) / SHARES
            for t, g in zip(
                total, torch.autograd.grad(value, list(model.parameters())), strict=True
            ):
                t += g
        for weight, gradient in zip(model.parameters(), total, strict=True):
            weight.grad = gradient
        optimizer.step()
    return model.state_dict(), optimizer.state_dict()


def same(state, due):
    weights, optimizer = due
    return all(torch.equal(state["model"][n], weights[n]) for n in weights) and all(
        torch.equal(state["optimizer"]["state"][i][n], optimizer["state"][i][n])
        for i in optimizer["state"]
        for n in optimizer["state"][i]
    )


@pytest.mark.parametrize("at", POINTS)
def test_wherever_a_replica_is_killed_all_end_with_the_bits_of_one_process(at, alone):
    run = train_with_quorum(TASK, 3, (Fault(2, 1, at, back=3),))
    assert sorted(run.states) == [0, 1, 2]
    assert all(same(state, alone) for state in run.states.values())
    assert all(s["step"] == STEPS and s["cursor"] == STEPS * SHARES for s in run.states.values())
    failed = [attempt for attempt in run.attempts if not attempt.committed]
    assert [attempt.step for attempt in failed] == [1] * (at in POINTS[1:3])
    assert [attempt.step for attempt in run.attempts if attempt.healed] == [3]
    assert not multiprocessing.active_children()


def test_a_replica_that_hangs_is_ended_and_the_rest_go_on(alone):
    run = train_with_quorum(TASK, 3, (Fault(1, 2, "before the sum", hangs=True),), timeout=8)
    assert sorted(run.states) == [0, 2]
    assert all(same(state, alone) for state in run.states.values())
    assert not multiprocessing.active_children()


def test_when_all_have_died_there_is_nobody_to_heal_from():
    faults = tuple(Fault(replica, 1, "before the quorum") for replica in range(2))
    with pytest.raises(RuntimeError, match="step 1: no replica with the state is left"):
        train_with_quorum(TASK, 2, faults)
    assert not multiprocessing.active_children()


def test_a_healing_that_forgets_the_optimizer_is_found(alone):
    task = Task(make, loss, SHARES, STEPS, restore=restore_weights_only)
    run = train_with_quorum(task, 2, (Fault(1, 1, "before the vote", back=STEPS - 1),))
    assert same(run.states[0], alone) and not same(run.states[1], alone)


def test_a_fault_at_no_point_is_refused():
    with pytest.raises(ValueError, match="at must be one of"):
        Fault(0, 1, "at noon")
