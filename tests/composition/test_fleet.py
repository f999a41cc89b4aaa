"""The simulated fleet, held against a clock that ticks once a second, formulas and its limits."""

import math
import statistics
from dataclasses import dataclass, replace
from random import Random

import pytest

from dtlib.composition import (
    TICKS,
    Account,
    Fleet,
    Lifetime,
    Recovery,
    lagging_overhead,
    restarting_multiplier,
    simulate_fleet,
)
from dtlib.foundations import failure_multiplier

DAY = 86400
CAUSES = ("work", "saving", "lost", "detecting", "waiting", "restarting")


@dataclass(frozen=True)
class WholeSeconds:
    """A life of whole seconds, any up to `most`."""

    most: int

    def first(self, members, random):
        return random.randint(1, self.most)


def by_seconds(fleet, recovery, duration, seed):
    """What every second of the run went into, by a clock that ticks once a second."""
    random, life, plan = Random(seed), fleet.life, recovery
    clocks = [life.first(1, random) for _ in range(fleet.nodes)]
    spares, missing, repairs, cold = fleet.spares, 0, [], False
    phase, over, begun, labels = "work", None, 0, []
    for t in range(duration):
        while True:
            spares += repairs.count(t)
            repairs = [time for time in repairs if time != t]
            if phase == "detecting" and over == t:
                phase = "waiting"
            if phase == "waiting":
                for _ in range(min(missing, spares)):
                    spares, missing = spares - 1, missing - 1
                    clocks.append(t + life.first(1, random))
                cold = cold or missing > 0
                if not missing:
                    hot = plan.swap_time is not None and not cold
                    phase, over = "restarting", t + (plan.swap_time if hot else plan.restart_time)
            if phase == "restarting" and over == t:
                phase, begun, cold = "work", t, False
            if t not in clocks:
                break
            if phase == "work":
                undo(labels, begun, t, plan)
            clocks.remove(t)
            missing += 1
            repairs.append(t + plan.detect_time + fleet.repair_time)
            phase, over = "detecting", t + plan.detect_time
        place = (t - begun) % (plan.interval + plan.write_time)
        saves = phase == "work" and place >= plan.interval
        labels.append("saving" if saves else phase)
    return labels


def undo(labels, begun, failed, plan):
    """What is lost: all since the latest checkpoint that was safe when the job failed."""
    safe = begun
    while safe + plan.interval + plan.write_time + plan.persist_lag <= failed:
        safe += plan.interval + plan.write_time
    labels[safe:failed] = ["lost"] * (failed - safe)


def case(seed):
    """A fleet and a recovery of small whole numbers."""
    draw = Random(seed)
    fleet = Fleet(draw.randint(1, 4), 1, WholeSeconds(draw.choice((20, 60, 400))),
                  draw.randint(0, 2), draw.randint(0, 40))  # fmt: skip
    interval = draw.randint(1, 12)
    swap = draw.choice((None, draw.randint(0, 3)))
    times = [draw.randint(0, most) for most in (4, interval, 6, 9)]
    return fleet, Recovery(interval, *times, swap)


def counted(account):
    return [getattr(account, cause) for cause in CAUSES]


def disagreements(change=lambda recovery: recovery):
    """Of 400 cases, those whose account is not that of the ticking clock."""
    found = 0
    for seed in range(400):
        fleet, recovery = case(seed)
        labels = by_seconds(fleet, change(recovery), 500, seed)
        account = simulate_fleet(fleet, recovery, 500, seed)
        found += counted(account) != [labels.count(cause) * TICKS for cause in CAUSES]
    return found


def test_every_second_goes_where_a_ticking_clock_puts_it():
    assert disagreements() == 0


@pytest.mark.parametrize("left_out", ["persist_lag", "detect_time", "write_time", "restart_time"])
def test_sabotage_a_clock_without_one_of_the_times_disagrees(left_out):
    assert disagreements(lambda recovery: replace(recovery, **{left_out: 0})) > 100


def test_sabotage_a_clock_whose_cold_nodes_start_like_hot_ones_disagrees():
    def always_hot(recovery):
        hot = recovery.swap_time
        return recovery if hot is None else replace(recovery, restart_time=hot)

    assert disagreements(always_hot) > 20


def goodputs(fleet, recovery, duration, runs=24):
    return [simulate_fleet(fleet, recovery, duration, seed).goodput for seed in range(runs)]


def sigmas(found, expected):
    """How many standard errors the mean of the runs is away from what is expected."""
    error = statistics.stdev(found) / math.sqrt(len(found))
    return (statistics.mean(found) - expected) / error


def enough(mtbf, **changed):
    """A fleet of 64 GPUs, with spares for all failures, and a mean time between failures."""
    return Fleet(16, 4, Lifetime(mean=64 * mtbf, **changed), spares=10**6)


@pytest.mark.parametrize("restart", [0, 600, 3000])
@pytest.mark.parametrize("interval", [300, 792, 2000])
def test_goodput_is_the_inverse_of_the_multiplier(interval, restart):
    recovery = Recovery(interval, 60, detect_time=restart / 4, restart_time=restart * 3 / 4)
    found = goodputs(enough(5760), recovery, 3e6)
    assert abs(sigmas(found, 1 / restarting_multiplier(interval, 60, restart, 5760))) < 3


def test_sabotage_another_formula_is_outside_three_sigma():
    found = goodputs(enough(5760), Recovery(792, 60, restart_time=3000), 3e6)
    undisturbed = failure_multiplier(792, 60, 3000, 5760)
    assert abs(sigmas(found, 1 / undisturbed)) > 10
    assert abs(sigmas(found, 1 / restarting_multiplier(792, 60, 3000, 5760 * 1.1))) > 5


def test_the_lag_costs_what_the_first_order_says_when_failures_are_rare():
    mtbf, interval, write, lag = 2e5, 600, 2, 500
    found = goodputs(enough(mtbf), Recovery(interval, write, lag), 1e8, runs=16)
    expected = lagging_overhead(interval, write, lag, 0, mtbf)
    assert abs(sigmas(found, 1 / (1 + expected))) < 3
    assert abs(sigmas(found, 1 / (1 + lagging_overhead(interval, write, 0, 0, mtbf)))) > 10


def test_a_job_that_waits_for_repairs_alternates():
    """One node, no spare: it works for a life, then waits for a repair."""
    fleet = Fleet(1, 1, Lifetime(mean=1000), spares=0, repair_time=300)
    waits = [
        account.waiting / account.total
        for account in (simulate_fleet(fleet, Recovery(1, 0), 1e6, seed) for seed in range(24))
    ]
    assert abs(sigmas(waits, 300 / 1300)) < 3
    assert abs(sigmas(waits, 300 / 1000)) > 10


def tiles(account: Account, duration) -> bool:
    """Whether the phases follow one another without a gap and add up to what the account says."""
    ends = [0, *(phase.stop for phase in account.phases)]
    follow = ends[:-1] == [phase.start for phase in account.phases] and ends[-1] == duration * TICKS
    spent = {}
    for what, start, stop in account.phases:
        spent[what] = spent.get(what, 0) + stop - start
    kept = spent.pop("kept", 0) == account.work + account.saving
    others = all(account.causes[what] == time for what, time in spent.items())
    return follow and kept and others and account.total == duration * TICKS


@pytest.mark.parametrize("seed", range(20))
def test_all_causes_add_up_to_the_whole_time_exactly(seed):
    draw = Random(seed)
    lifetime = Lifetime(draw.uniform(2e4, 2e5), draw.uniform(0.5, 2), draw.uniform(0, 1e5))
    fleet = Fleet(20, 8, lifetime, draw.randint(0, 4), draw.uniform(0, 1e4))
    recovery = Recovery(draw.uniform(50, 500), *(draw.uniform(0, 50) for _ in range(4)))
    account = simulate_fleet(fleet, recovery, DAY, seed)
    assert account.failures and tiles(account, DAY)
    # sabotage: a phase less, and a tick that moves from one cause to another
    assert not tiles(replace(account, phases=account.phases[:-1]), DAY)
    moved = replace(account, lost=account.lost + 1, work=account.work - 1)
    assert moved.total == account.total and not tiles(moved, DAY)


def test_without_failures_there_is_only_saving():
    fleet = Fleet(100, 8, Lifetime(mean=1e30), spares=0)
    account = simulate_fleet(fleet, Recovery(95, 5, 20, 30, 40), DAY)
    assert counted(account) == [0.95 * DAY * TICKS, 0.05 * DAY * TICKS, 0, 0, 0, 0]
    assert account.failures == 0 and account.goodput == 0.95


def test_nothing_is_lost_to_causes_that_take_no_time():
    account = simulate_fleet(enough(600), Recovery(100, 0), DAY)
    others = account.saving, account.detecting, account.waiting, account.restarting
    assert account.lost > 0 and others == (0, 0, 0, 0)


def test_a_seed_is_one_run():
    fleet, recovery = enough(3600), Recovery(600, 10, 60, 30, 300)
    same, again, other = (simulate_fleet(fleet, recovery, DAY, seed) for seed in (4, 4, 5))
    assert same == again != other


def test_hot_spares_help_while_there_are_some():
    life = Lifetime(mean=64 * 7200)
    cold, hot = Recovery(600, 10, 60, 30, 600), Recovery(600, 10, 60, 30, 600, swap_time=20)
    plenty, none = (Fleet(16, 4, life, spares, repair_time=7200) for spares in (50, 0))
    gain = [
        statistics.mean(goodputs(fleet, hot, 20 * DAY, 8))
        - statistics.mean(goodputs(fleet, cold, 20 * DAY, 8))
        for fleet in (plenty, none)
    ]
    assert gain[0] == pytest.approx(580 / 7200, rel=0.25)
    assert gain[1] == 0


def test_more_spares_wait_less():
    waits = [
        simulate_fleet(Fleet(64, 8, Lifetime(512 * 3600), n, 6 * 3600), Recovery(600, 5), 60 * DAY)
        for n in (0, 4, 8, 16, 32)
    ]
    shares = [account.waiting for account in waits]
    assert shares == sorted(shares, reverse=True) and shares[0] > shares[-1] == 0


def test_a_hundred_thousand_gpus_over_ninety_days():
    fleet = Fleet(12_500, 8, Lifetime(mean=50_000 * 3600), spares=100, repair_time=DAY)
    account = simulate_fleet(fleet, Recovery(300, 2, 60, 20, 120, swap_time=30), 90 * DAY)
    assert abs(account.failures - 4320) < 4 * math.sqrt(4320)
    assert tiles(account, 90 * DAY)


@pytest.mark.parametrize("shape", [0.6, 1.0, 2.5])
@pytest.mark.parametrize("age", [0.0, 700.0])
def test_a_node_lives_as_long_as_the_first_of_its_gpus(shape, age):
    """Held against single GPUs from the standard library, without those that died too young."""
    life, draw = Lifetime(1000, shape, age), Random(2)
    ours = [life.first(4, draw) for _ in range(8000)]
    scale = 1000 / math.gamma(1 + 1 / shape)
    alive = [t - age for t in (draw.weibullvariate(scale, shape) for _ in range(10**5)) if t > age]
    nodes = [min(alive[i : i + 4]) for i in range(0, len(alive) - 4, 4)]
    error = math.hypot(
        *(statistics.stdev(found) / math.sqrt(len(found)) for found in (ours, nodes))
    )
    assert abs(statistics.mean(ours) - statistics.mean(nodes)) < 3.5 * error
    alone = [life.first(1, draw) for _ in range(8000)]  # sabotage: a node of one GPU
    assert abs(statistics.mean(alone) - statistics.mean(nodes)) > 20 * error


def test_gpus_that_die_young_stop_a_new_fleet_more_often_than_an_old_one():
    new, old = (
        simulate_fleet(enough(7200, shape=0.7, age=age), Recovery(600, 5), 10 * DAY).failures
        for age in (0, 3e6)
    )
    assert new > 1.5 * old


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Lifetime(0), "Lifetime: mean is 0"),
        (lambda: Lifetime(5, shape=-1), "Lifetime: shape is -1"),
        (lambda: Lifetime(5, age=-1), "Lifetime: age is -1"),
        (lambda: Recovery(0, 1), "Recovery: interval is 0"),
        (lambda: Recovery(1e-9, 1), "interval is 1e-09, but must be at least a microsecond"),
        (lambda: Recovery(10, -1), "Recovery: write_time is -1"),
        (lambda: Recovery(10, 1, 11), "persist_lag is 11, but must be at most the interval"),
        (lambda: Recovery(10, 1, swap_time=-2), "Recovery: swap_time is -2"),
        (lambda: Fleet(0, 8, Lifetime(5), 0), "Fleet: nodes is 0"),
        (lambda: Fleet(1, 8, Lifetime(5), -1), "Fleet: spares is -1"),
        (lambda: Fleet(1, 8, Lifetime(5), 1, -1), "Fleet: repair_time is -1"),
        (lambda: simulate_fleet(enough(5), Recovery(1, 1), 0), "simulate_fleet: duration is 0"),
    ],
)
def test_what_no_fleet_can_be_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
