"""Replicas that go on, held against a clock that ticks once a second, closed forms and by hand."""

import math
import statistics
from collections import Counter
from dataclasses import dataclass, replace
from random import Random

import pytest

from dtlib.composition import (
    TICKS,
    Fleet,
    Lifetime,
    QuorumRecovery,
    Recovery,
    restarting_multiplier,
    simulate_fleet,
    simulate_quorum,
)

DAY = 86400


@dataclass
class Script:
    """Lives that are told in advance; then none ends."""

    lives: list

    def first(self, members, random):
        return self.lives.pop(0) if self.lives else 1e6


def test_one_failure_by_hand():
    fleet = Fleet(4, 1, Script([1e6, 1e6, 25, 1e6]), spares=1)
    recovery = QuorumRecovery(step_time=10, detect_time=3, heal_time=10)
    # 0-20: two steps of 4. 20-25: lost. 25-28: detected. Three go on in steps of 40/3 s; the spare
    # is healed at 38 and joins at 28 + 40/3 s.
    found = simulate_quorum(fleet, recovery, 100)
    joined = 28 * TICKS + -(-40 * TICKS // 3)
    assert found.lost == 4 * 5 * TICKS and found.detecting == 4 * 3 * TICKS
    assert found.restarting == joined - 28 * TICKS and found.waiting == 0
    assert found.total == 4 * 100 * TICKS and found.failures == 1


@pytest.mark.parametrize("seed", range(30))
def test_every_replica_tick_has_one_cause(seed):
    draw = Random(seed)
    life = Lifetime(draw.choice((500, 1_000, 2_000)), shape=draw.choice((0.7, 1.0, 2.0)))
    fleet = Fleet(draw.randint(1, 9), 2, life, draw.randint(0, 2), draw.choice((0, 50, 5_000)))
    recovery = QuorumRecovery(draw.uniform(0.5, 20), draw.choice((0, 4.5)), draw.choice((0, 77.7)))
    found = simulate_quorum(fleet, recovery, 20_000, seed)
    assert found.total == fleet.nodes * 20_000 * TICKS
    assert min(found.work, *found.causes.values()) >= 0 and found.failures > 0


def test_stop_hot_spare_and_quorum_under_one_seed():
    fleet = Fleet(64, 256, Lifetime(50_000 * 3600), spares=24, repair_time=DAY)
    saving = {"interval": 800, "write_time": 30, "detect_time": 10, "restart_time": 600}
    stop = simulate_fleet(fleet, Recovery(**saving), 90 * DAY)
    hot = simulate_fleet(fleet, Recovery(**saving, swap_time=60), 90 * DAY)
    quorum = simulate_quorum(fleet, QuorumRecovery(10, 10, 600), 90 * DAY)
    assert stop.goodput < hot.goodput < quorum.goodput
    assert 0 < 1 - quorum.goodput < (10 + 10 + 600 / 64 + 10) / fleet.mtbf * 1.3


@dataclass(frozen=True)
class WholeSeconds:
    """A life of whole seconds, any up to `most`."""

    most: int

    def first(self, members, random):
        return random.randint(1, self.most)


class Clock:
    """Replicas second by second: those that are `up`, by their ends, and those that are `down`."""

    def __init__(self, fleet, recovery, seed):
        self.fleet, self.plan, self.random = fleet, recovery, Random(seed)
        self.up = [self.life(0) for _ in range(fleet.nodes)]
        self.down, self.spares = [], [0] * fleet.spares
        self.mode, self.over, self.step, self.spent = "idle", 0, 0, Counter()

    def life(self, t):
        return t + self.fleet.life.first(1, self.random)

    def run(self, duration):
        for t in range(duration):
            if self.over == t:
                self.spent["work"] += self.step
                self.mode, self.step = "idle", 0
            while t in self.up:
                self.fail(t)
            self.take_spares(t)
            if self.over <= t:
                self.begin(t)
            self.count(t)
        self.spent["work"] += self.step
        return self.spent

    def fail(self, t):
        noticed = t + self.plan.detect_time
        self.up.remove(t)
        self.down.append({"noticed": noticed, "taken": None})
        self.spares.append(noticed + self.fleet.repair_time)
        self.spent["lost"] += self.step
        self.mode, self.over, self.step = "detecting", noticed, 0

    def take_spares(self, t):
        for one in self.down:
            if one["noticed"] <= t and one["taken"] is None and min(self.spares) <= t:
                self.spares.remove(min(self.spares))
                one["taken"] = t

    def begin(self, t):
        healed = [
            one
            for one in self.down
            if one["taken"] is not None and one["taken"] + self.plan.heal_time <= t
        ]
        self.down = [one for one in self.down if one not in healed]
        self.up += [self.life(t) for _ in healed]
        self.mode, self.over = "idle", t + 1
        if self.up:
            self.mode, length = "step", self.plan.step_time * self.fleet.nodes
            assert length % len(self.up) == 0
            self.over = t + length // len(self.up)

    def count(self, t):
        if self.mode == "step":
            self.step += len(self.up)
        elif self.mode == "detecting":
            self.spent["detecting"] += len(self.up)
        for one in self.down:
            if t < one["noticed"]:
                self.spent["detecting"] += 1
            else:
                self.spent["waiting" if one["taken"] is None else "restarting"] += 1


def disagreements(change=lambda recovery: recovery):
    """Of 300 small cases, those whose account is not that of the ticking clock."""
    found = 0
    for seed in range(300):
        draw = Random(seed)
        life = WholeSeconds(draw.choice((40, 150, 600)))
        fleet = Fleet(draw.randint(1, 4), 1, life, draw.randint(0, 2), draw.randint(0, 60))
        plan = QuorumRecovery(draw.choice((12, 24)), draw.randint(0, 6), draw.randint(0, 40))
        due = Clock(fleet, change(plan), seed).run(600)
        account = simulate_quorum(fleet, plan, 600, seed)
        spent = {"work": account.work} | account.causes
        found += any(ticks != due[cause] * TICKS for cause, ticks in spent.items())
    return found


def test_every_second_of_every_replica_goes_where_a_ticking_clock_puts_it():
    assert disagreements() == 0


@pytest.mark.parametrize("left_out", ["detect_time", "heal_time"])
def test_sabotage_a_clock_without_one_of_the_times_disagrees(left_out):
    assert disagreements(lambda recovery: replace(recovery, **{left_out: 0})) > 100


def sigmas(found, expected):
    """How many standard errors the mean of the runs is away from what is expected."""
    error = statistics.stdev(found) / math.sqrt(len(found))
    return (statistics.mean(found) - expected) / error


def goodputs(mtbf, recovery, duration, runs=24):
    fleet = Fleet(64, 1, Lifetime(64 * mtbf), spares=1000)
    return [simulate_quorum(fleet, recovery, duration, seed).goodput for seed in range(runs)]


@pytest.mark.parametrize("mtbf", [20, 60, 1000])
def test_where_nobody_is_away_a_quorum_is_a_restart_with_an_interval_of_one_step(mtbf):
    found = goodputs(mtbf, QuorumRecovery(12), 1000 * mtbf)
    assert abs(sigmas(found, 1 / restarting_multiplier(12, 0, 0, mtbf))) < 3
    assert abs(sigmas(found, 1 / restarting_multiplier(12, 0, 0, 1.3 * mtbf))) > 4  # sabotage


def test_to_be_noticed_is_a_restart_of_all():
    found = goodputs(600, QuorumRecovery(12, detect_time=30), 600_000)
    assert abs(sigmas(found, 1 / restarting_multiplier(12, 0, 30, 600))) < 3
    assert abs(sigmas(found, 1 / restarting_multiplier(12, 0, 20, 600))) > 5  # sabotage


def test_a_failure_costs_half_a_step_and_the_share_of_those_who_are_away():
    """To first order: a step of 64 is half over, and of 63 too when the healed one could join."""
    fleet = Fleet(64, 1, Lifetime(64 * 2e4), spares=1000)
    account = simulate_quorum(fleet, QuorumRecovery(10, heal_time=600), 1e8, seed=3)
    cost = (account.total - account.work) / 64 / TICKS / account.failures
    assert cost == pytest.approx(10 / 2 + (600 + 5) / 64, rel=0.03)
    assert cost != pytest.approx(10 / 2 + (300 + 5) / 64, rel=0.3)  # sabotage
