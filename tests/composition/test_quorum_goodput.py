"""Replicas under one failure, counted by hand, and under many: every replica-tick has one cause."""

from dataclasses import dataclass
from random import Random

import pytest

from dtlib.composition import (
    TICKS,
    Fleet,
    Lifetime,
    QuorumRecovery,
    Recovery,
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
