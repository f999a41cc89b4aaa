"""Replicas that vote on each step: killed for real at every point, and healed to the bit."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path
from random import Random

import pytest
import torch

from dtlib.composition.quorum.lighthouse import train_with_quorum
from dtlib.composition.quorum.replica import Replica
from dtlib.composition.quorum.task import POINTS, Fault, ReplicaTask

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


TASK = ReplicaTask(make, loss, SHARES, STEPS)


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


def replicas_left():
    """Processes of replicas; other tests of this worker may keep ranks of theirs."""
    children = multiprocessing.active_children()
    return [child for child in children if child.name.startswith("replica")]


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
    assert not replicas_left()


def test_a_replica_that_hangs_is_ended_and_the_rest_go_on(alone):
    run = train_with_quorum(TASK, 3, (Fault(1, 2, "before the sum", hangs=True),), timeout=8)
    assert sorted(run.states) == [0, 2]
    assert all(same(state, alone) for state in run.states.values())
    assert not replicas_left()


def test_when_all_have_died_there_is_nobody_to_heal_from():
    faults = tuple(Fault(replica, 1, "before the quorum") for replica in range(2))
    with pytest.raises(RuntimeError, match="step 1: no replica with the state is left"):
        train_with_quorum(TASK, 2, faults)
    assert not replicas_left()


def test_a_healing_that_forgets_the_optimizer_is_found(alone):
    task = ReplicaTask(make, loss, SHARES, STEPS, restore=restore_weights_only)
    run = train_with_quorum(task, 2, (Fault(1, 1, "before the vote", back=STEPS - 1),))
    assert same(run.states[0], alone) and not same(run.states[1], alone)


def loss_of_another_shape(model, number):
    if number < SHARES:
        return loss(model, number)
    return model(torch.zeros(ROWS, 7, dtype=torch.float64)).mean()


def test_a_bug_of_the_task_is_no_failure_that_one_may_try_again():
    task = ReplicaTask(make, loss_of_another_shape, SHARES, STEPS)
    with pytest.raises(RuntimeError, match=r"step 1 failed twice, and no replica died: mat1 and"):
        train_with_quorum(task, 3)
    assert not replicas_left()


class Struck:
    """`make`, and then one replica dies at its n-th entry into a method, by the same signal."""

    def __init__(self, replica, method, entry):
        self.replica, self.method, self.entry = replica, method, entry

    def __call__(self):
        inner, entries = getattr(Replica, self.method), count()

        def strikes(replica, quorum):
            if (replica.me, next(entries)) == (self.replica, self.entry):
                os.kill(os.getpid(), signal.SIGKILL)
            return inner(replica, quorum)

        setattr(Replica, self.method, strikes)
        return make()


def test_one_that_dies_while_all_meet_costs_a_time_out_and_no_more(alone):
    run = train_with_quorum(ReplicaTask(Struck(2, "_join", 0), loss, SHARES, STEPS), 3, timeout=6)
    assert [(a.step, a.members, a.committed) for a in run.attempts[:2]] == [
        (0, (0, 1, 2), False), (0, (0, 1), True)]  # fmt: skip
    assert all(same(state, alone) for state in run.states.values())


def test_when_the_healer_dies_the_next_one_heals(alone):
    """Replica 0 dies when it is about to heal 2, at its fourth step; so 1 does."""
    task = ReplicaTask(Struck(0, "_heal", 3), loss, SHARES, STEPS)
    run = train_with_quorum(task, 3, (Fault(2, 1, "before the quorum", back=3),))
    assert [(a.members, a.healed, a.committed) for a in run.attempts if a.step == 3] == [
        ((0, 1, 2), (2,), False), ((1, 2), (2,), True)]  # fmt: skip
    assert sorted(run.states) == [1, 2]
    assert all(same(state, alone) for state in run.states.values())


def make_and_die_some_time():
    """`make`, and then all replicas but the first die at a moment that nobody chose."""
    if multiprocessing.current_process().name != "replica 0":
        kill = os.getpid(), signal.SIGKILL
        threading.Timer(Random().uniform(0, 0.3), os.kill, kill).start()
    return make()


def test_deaths_at_moments_that_nobody_chose_leave_the_same_bits(alone):
    run = train_with_quorum(ReplicaTask(make_and_die_some_time, loss, SHARES, STEPS), 4)
    assert 0 in run.states
    assert all(same(state, alone) for state in run.states.values())


def ends_the_lighthouse(lighthouse, folder, model, number):
    """A loss that notes its process, and in the third step kills the one that started it."""
    Path(folder, str(os.getpid())).touch()
    if number == 2 * SHARES:
        os.kill(lighthouse, signal.SIGKILL)
    return loss(model, number)


ALONE = """
import os, sys
from functools import partial
from test_quorum import SHARES, ReplicaTask, ends_the_lighthouse, make, train_with_quorum
spoilt = partial(ends_the_lighthouse, os.getpid(), sys.argv[1])
train_with_quorum(ReplicaTask(make, spoilt, SHARES, 100), 3, timeout=8)
"""


def runs(process):
    """Whether a process of this number has not ended."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_no_replica_outlives_a_lighthouse_that_is_killed(tmp_path):
    paths = os.pathsep.join(filter(None, sys.path))
    program = [sys.executable, "-c", ALONE, str(tmp_path)]
    ended = subprocess.run(program, env=os.environ | {"PYTHONPATH": paths}, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    processes, until = [int(file.name) for file in tmp_path.iterdir()], time.monotonic() + 60
    while any(map(runs, processes)) and time.monotonic() < until:
        time.sleep(0.05)
    assert len(processes) == 3 and not any(map(runs, processes))


def test_a_fault_at_no_point_is_refused():
    with pytest.raises(ValueError, match="at must be one of"):
        Fault(0, 1, "at noon")
