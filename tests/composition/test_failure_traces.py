"""One trace for all: held against a clock that ticks once a second, closed forms and by hand."""

import math
import statistics
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from dtlib.composition import (
    TICKS,
    Failure,
    Recovery,
    Voting,
    failure_trace,
    quorum_account,
    restarting_multiplier,
    restarts_account,
)

DAY = 86400
CAUSES = ("work", "uneven", "voting", "lost", "detecting", "healing", "away")


class Clock:
    """Replicas that vote, second by second: what each second of each replica went into."""

    def __init__(self, plan):
        self.plan, self.spent = plan, Counter()
        self.back, self.fresh = {}, set()
        self.mode, self.over, self.step = "idle", 0, 0

    def run(self, trace, duration):
        for t in range(duration):
            self.end_of(t)
            for failure in (one for one in trace if one.tick == t * TICKS):
                self.fail(failure.replica, t)
            while self.over == t:
                self.end_of(t)
                self.begin(t)
            here = self.plan.replicas - len(self.back)
            self.spent["away"] += len(self.back)
            if self.mode == "step":
                self.step += here
            else:
                self.spent[self.mode] += here
        self.end_of(duration)
        self.spent["lost"] += self.step
        return [self.spent[cause] * TICKS for cause in CAUSES]

    def fail(self, replica, t):
        self.spent["lost"] += self.step
        self.back[replica] = t + self.plan.away_time
        self.fresh -= {replica}
        self.mode, self.over, self.step = "detecting", t + self.plan.detect_time, 0

    def end_of(self, t):
        if self.over != t:
            return
        if self.mode == "healing":
            self.fresh = set()
        if self.mode == "step" and self.step:
            here, plan = self.plan.replicas - len(self.back), self.plan
            self.spent["work"] += plan.rows * plan.row_time
            self.spent["voting"] += here * plan.vote_time
            self.spent["uneven"] += self.step - plan.rows * plan.row_time - here * plan.vote_time
            self.step = 0
        self.mode = "idle"

    def begin(self, t):
        here_again = {replica for replica, tick in self.back.items() if tick <= t}
        self.back = {r: tick for r, tick in self.back.items() if r not in here_again}
        self.fresh |= here_again
        if self.fresh:
            self.mode, self.over = "healing", t + self.plan.heal_time
            if self.plan.heal_time:
                return
            self.fresh = set()
        longest = math.ceil(self.plan.rows / (self.plan.replicas - len(self.back)))
        self.mode, self.step = "step", 0
        self.over = t + longest * self.plan.row_time + self.plan.vote_time


def case(seed):
    """A plan of small whole numbers, and a trace that leaves somebody."""
    draw = Random(seed)
    replicas = draw.randint(3, 6)
    times = [draw.randint(0, 2), draw.randint(0, 3), draw.randint(0, 4), draw.randint(0, 30)]
    plan = Voting(replicas, draw.randint(replicas, 20), draw.randint(1, 3), *times)
    trace, t = [], 0
    while (t := t + draw.choice((1, 3, 20, 60))) < 400:
        trace.append(Failure(t * TICKS, draw.randrange(replicas - 2)))
    return plan, trace


def disagreements(change=lambda plan: plan):
    found = 0
    for seed in range(300):
        plan, trace = case(seed)
        account = quorum_account(trace, change(plan), 400)
        assert account.total == 400 * TICKS * plan.replicas and account.failures == len(trace)
        found += [getattr(account, cause) for cause in CAUSES] != Clock(plan).run(trace, 400)
    return found


def test_every_second_of_every_replica_goes_where_a_ticking_clock_puts_it():
    assert disagreements() == 0


@pytest.mark.parametrize("left_out", ["vote_time", "detect_time", "heal_time", "away_time"])
def test_sabotage_replicas_without_one_of_the_times_disagree(left_out):
    assert disagreements(lambda plan: replace(plan, **{left_out: 0})) > 100


def test_one_failure_by_hand():
    """Four replicas, steps of 3 + 1 s; a failure at 6, noticed at 7; steps of 4 + 1 s until 17."""
    plan = Voting(4, 11, row_time=1, vote_time=1, detect_time=1, heal_time=2, away_time=10)
    account = quorum_account([Failure(6 * TICKS, 0)], plan, 23)
    found = [getattr(account, cause) / TICKS for cause in CAUSES]
    # steps: 0-4 with four, 7-12 and 12-17 with three, healing 17-19, 19-23 with four
    assert found == [4 * 11, 2 * 1 + 2 * 1, 2 * 4 + 2 * 3, 4 * 2, 3 * 1, 4 * 2, 11]


def sigmas(found, expected):
    error = statistics.stdev(found) / math.sqrt(len(found))
    return (statistics.mean(found) - expected) / error


def goodputs(plan, mtbf, duration, runs=24):
    return [
        quorum_account(failure_trace(plan.replicas, mtbf, duration, seed), plan, duration).goodput
        for seed in range(runs)
    ]


@pytest.mark.parametrize("mtbf", [20, 60, 1000])
def test_a_quorum_that_nobody_is_away_from_is_a_restart_with_an_interval_of_one_step(mtbf):
    plan = Voting(64, 640, row_time=1, vote_time=2)
    found = goodputs(plan, mtbf, 2e4 if mtbf < 100 else 1e6)
    due = 1 / restarting_multiplier(10, 2, 0, mtbf)
    assert abs(sigmas(found, due)) < 3
    assert abs(sigmas(found, 1 / restarting_multiplier(10, 2, 0, 1.3 * mtbf))) > 4  # sabotage


def test_a_failure_costs_half_a_step_and_the_share_of_those_who_are_away():
    """To first order, where the rows divide by 64 and by 63."""
    plan = Voting(64, 64 * 63, row_time=0.1, away_time=600)
    duration = 1e8
    trace = failure_trace(64, 2e4, duration, seed=3)
    account = quorum_account(trace, plan, duration)
    cost = (account.total - account.work) / 64 / TICKS / account.failures
    assert cost == pytest.approx(6.3 / 2 + 600 / 64, rel=0.03)
    assert account.uneven < 0.02 * account.away  # two are away at once now and then


def test_a_restarting_job_on_a_trace_pays_what_the_multiplier_says():
    recovery, duration = Recovery(600, 10, detect_time=60, restart_time=240), 3e6
    found = [
        restarts_account(failure_trace(64, 5000, duration, seed), recovery, duration).goodput
        for seed in range(24)
    ]
    assert abs(sigmas(found, 1 / restarting_multiplier(600, 10, 300, 5000))) < 3
    assert abs(sigmas(found, 1 / restarting_multiplier(600, 10, 240, 5000))) > 5  # sabotage


def test_both_ways_see_the_same_failures():
    trace = failure_trace(64, 3600, 30 * DAY, seed=2)
    account = restarts_account(trace, Recovery(600, 10, restart_time=300), 30 * DAY)
    ends = [phase.stop for phase in account.phases if phase.what == "lost"]
    assert account.failures == len(trace) and set(ends) <= {failure.tick for failure in trace}
    assert len(ends) > 0.9 * len(trace)
    assert quorum_account(trace, Voting(64, 640, 1), 30 * DAY).failures == len(trace)


def test_a_trace_is_as_dense_as_it_says_and_hits_all_alike():
    trace = failure_trace(8, 100, 1e6, seed=1)
    assert abs(len(trace) - 1e4) < 4 * math.sqrt(1e4)
    hits = Counter(failure.replica for failure in trace)
    assert sorted(hits) == list(range(8))
    assert max(abs(count - len(trace) / 8) for count in hits.values()) < 4 * math.sqrt(1e4 / 8)
    assert trace == failure_trace(8, 100, 1e6, seed=1) != failure_trace(8, 100, 1e6, seed=2)


def test_nobody_left_is_an_error():
    plan = Voting(2, 4, 1, away_time=50)
    trace = [Failure(10 * TICKS, 0), Failure(20 * TICKS, 1)]
    with pytest.raises(ValueError, match="replicas left is 0, but must be at least 1"):
        quorum_account(trace, plan, 100)
    healing = replace(plan, away_time=5, heal_time=10)
    with pytest.raises(ValueError, match="replicas left is 0"):
        quorum_account(trace, healing, 100)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Voting(0, 4, 1), "Voting: replicas is 0"),
        (lambda: Voting(4, 3, 1), "Voting: rows is 3, but must be at least the replicas"),
        (lambda: Voting(4, 4, 0), "Voting: row_time is 0"),
        (lambda: Voting(4, 4, 1, away_time=-1), "Voting: away_time is -1"),
        (lambda: failure_trace(4, 0, 5), "failure_trace: mtbf is 0"),
        (lambda: quorum_account([], Voting(4, 4, 1), 0), "quorum_account: duration is 0"),
    ],
)
def test_what_cannot_be_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
