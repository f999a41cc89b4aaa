"""One trace of failures on real replicas, three ways, and by the simulators: step for step."""

import pytest
import torch

from dtlib.composition import (
    TICKS,
    Failure,
    Fault,
    Recovery,
    ReplicaTask,
    Voting,
    quorum_account,
    restarts_account,
    small_task,
    train_with_quorum,
    train_with_restarts,
)
from dtlib.runtime import RankError

SHARES, STEPS, EVERY = 12, 30, 5
TASK = small_task(SHARES, STEPS)
# In which step's time who dies. A share takes a second, so a step of four replicas 3, of three 4.
TRACE = ((8, 2), (17, 0), (29, 1))
FAILURES = [Failure(round((3 * time + 1.5) * TICKS), replica) for time, replica in TRACE]


@pytest.fixture(scope="module")
def alone():
    return train_with_quorum(TASK, replicas=1).states[0]["model"]


def same(state, due):
    return all(torch.equal(state["model"][name], due[name]) for name in due)


def restarted(restart, times, every=EVERY):
    """What the simulator makes of the trace, if steps take 3 s and restarts so many of them."""
    recovery = Recovery(3 * every, 0, detect_time=1.5, restart_time=3 * restart)
    return restarts_account(FAILURES, recovery, 3 * times)


@pytest.mark.parametrize("restart", [4, 0])
def test_a_job_that_restarts_does_the_steps_again_that_the_simulator_says(restart, alone):
    run = train_with_restarts(TASK, 4, TRACE, every=EVERY, restart=restart)
    assert same(run.state, alone)
    tried = sum(life.tried for life in run.lives)
    account = restarted(restart, tried + 3 * restart)
    assert account.failures == len(run.lives) - 1 == len(TRACE)
    assert account.work == STEPS * 3 * TICKS
    assert account.lost + account.detecting == (tried - STEPS) * 3 * TICKS
    assert account.restarting == 3 * restart * 3 * TICKS
    # sabotage: one that saves less often
    assert restarted(restart, tried + 3 * restart, every=EVERY + 2).work != account.work


def test_a_quorum_does_the_steps_again_that_the_simulator_says(alone):
    """Each failure costs two steps' time: the step, and three in which three compute."""
    faults = [
        Fault(replica, time - 2 * before, "before the sum", back=time - 2 * before + 2)
        for before, (time, replica) in enumerate(TRACE)
    ]
    run = train_with_quorum(TASK, 4, tuple(faults))
    assert all(same(state, alone) for state in run.states.values()) and len(run.states) == 4
    computing = [len(one.members) - len(one.healed) for one in run.attempts]
    seconds = sum(SHARES // replicas for replicas in computing)
    plan = Voting(4, SHARES, row_time=1, detect_time=1.5, away_time=13.5)
    account = quorum_account(FAILURES, plan, seconds)
    assert account.work == STEPS * SHARES * TICKS and account.uneven == 0
    assert account.lost == len(TRACE) * 4 * 1.5 * TICKS
    short = [one for one, replicas in zip(run.attempts, computing, strict=True) if replicas == 3]
    assert len(short) == 3 * len(TRACE) and all(one.committed for one in short)
    assert account.away == (len(short) * 4 + len(TRACE) * 1.5) * TICKS
    assert quorum_account(FAILURES[:2], plan, seconds).work > account.work  # sabotage


class Fading(torch.optim.SGD):
    """A rate that falls with each step, and of which no checkpoint knows."""

    taken = 0

    def step(self, closure=None):
        self.taken += 1
        self.param_groups[0]["lr"] = 0.1 / self.taken
        return super().step(closure)


def make_fading():
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2).double()
    return model, Fading(model.parameters())


def loss(model, number):
    draw = torch.Generator().manual_seed(number)
    return model(torch.randn(4, 3, dtype=torch.float64, generator=draw)).square().mean()


def broken_loss(model, number):
    raise ZeroDivisionError("a bug")


def test_sabotage_what_the_checkpoint_does_not_hold_is_found():
    task = ReplicaTask(make_fading, loss, shares=2, steps=5)
    due = train_with_restarts(task, 2, every=2).state["model"]
    assert not same(train_with_restarts(task, 2, [(3, 1)], every=2).state, due)


def test_a_failure_after_the_end_changes_nothing_and_a_bug_is_no_failure():
    task = ReplicaTask(make_fading, loss, shares=2, steps=3)
    assert train_with_restarts(task, 2, [(3, 1)], every=2).lives == ((0, 3),)
    with pytest.raises(RankError, match="a bug"):
        train_with_restarts(ReplicaTask(make_fading, broken_loss, 2, 3), 2, [(1, 1)], every=2)


def test_a_failure_within_a_restart_is_refused():
    task = ReplicaTask(make_fading, loss, shares=2, steps=5)
    with pytest.raises(ValueError, match="time is 4, but must be a whole number of at least 6"):
        train_with_restarts(task, 2, [(2, 1), (4, 0)], every=2, restart=3)
