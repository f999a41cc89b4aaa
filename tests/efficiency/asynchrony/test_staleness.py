"""Servers: an exact law of staleness, in virtual time and on ranks, and a border of stability."""

import itertools
import random
from dataclasses import replace

import pytest

from dtlib.efficiency import (
    Asynchronous,
    Reply,
    Rule,
    StaleSynchronous,
    Synchronous,
    descend,
    simulate_server,
    stability_border,
    stale_descent,
)
from dtlib.runtime import RanksError, launch

TIMINGS = {
    "constant": lambda draw: lambda worker: 1.0,
    "exponential": lambda draw: lambda worker: draw.expovariate(1.0),
    "log-normal": lambda draw: lambda worker: draw.lognormvariate(0.0, 1.5),
    "Pareto": lambda draw: lambda worker: draw.paretovariate(1.1),
    "one is slow": lambda draw: lambda worker: 10.0 if worker == 0 else 1.0,
}


def timing(name, seed=0):
    return TIMINGS[name](random.Random(seed))


@pytest.mark.parametrize("P", [1, 2, 4, 16, 64])
@pytest.mark.parametrize("name", TIMINGS)
def test_staleness_is_conserved_whatever_the_times_are(name, P):
    history = simulate_server(Asynchronous(P), timing(name), updates=500)
    assert sum(history.staleness) + sum(history.ages_in_flight) == (P - 1) * 500
    assert len(history.ages_in_flight) == P


@pytest.mark.parametrize("name", TIMINGS)
def test_the_mean_is_p_minus_one_and_not_half_of_it(name):
    history = simulate_server(Asynchronous(16), timing(name), updates=20_000)
    assert history.mean_staleness == 15 - sum(history.ages_in_flight) / 20_000
    assert 14.8 < history.mean_staleness <= 15
    assert history.idle_fraction == 0


def test_half_of_it_is_what_a_barrier_leaves_whose_gradients_are_applied_one_by_one():
    history = simulate_server(StaleSynchronous(16, slack=0), timing("exponential"), updates=16 * 50)
    assert history.mean_staleness == 15 / 2
    assert history.idle_fraction > 0.5


def test_staleness_of_each_worker_is_its_time_times_the_others_rates():
    times = [1.0, 1.0, 1.0, 10.0]
    history = simulate_server(Asynchronous(4), lambda w: times[w] * (1 + 1e-6 * w), updates=4000)
    for worker, time in enumerate(times):
        own = [a.staleness for a in history.arrivals if a.worker == worker]
        due = time * sum(1 / t for other, t in enumerate(times) if other != worker)
        assert abs(sum(own) / len(own) - due) < 0.02
    seconds = history.arrivals[-1].time
    assert abs(history.updates / seconds - sum(1 / t for t in times)) < 0.01


@pytest.mark.parametrize("slack", [0, 1, 3, 8])
@pytest.mark.parametrize("name", TIMINGS)
def test_the_fast_reader_is_blocked_and_the_slow_one_never(name, slack):
    rule = StaleSynchronous(5, slack)
    history = simulate_server(rule, timing(name), updates=600)
    clock = [0] * 5
    for arrival in history.arrivals:
        clock[arrival.worker] += 1
        assert max(clock) - min(clock) <= slack + 1
        if clock[arrival.worker] == min(clock):
            assert arrival.worker in arrival.released
    assert max(history.staleness) <= (2 * slack + 1) * 4
    free = simulate_server(Asynchronous(5), timing("one is slow"), updates=600)
    assert max(free.staleness) > 4  # what no slack bounds


def test_slack_buys_time_with_staleness():
    idle, stale = [], []
    for slack in (0, 1, 2, 4, 8, 16):
        history = simulate_server(StaleSynchronous(8, slack), timing("exponential"), updates=8000)
        idle.append(history.idle_fraction)
        stale.append(history.mean_staleness)
    assert idle == sorted(idle, reverse=True)
    assert stale == sorted(stale)
    assert stale[0] == 3.5
    assert stale[-1] < 7


class HoldsWhatIsStale(Rule):
    """The wrong one: it waits until an old gradient is young again."""

    def decide(self, worker):
        if self.version - self.read[worker] > 2:
            return Reply()
        return Reply((worker,), (worker,))


def test_who_is_held_for_being_stale_is_held_for_ever():
    rule = HoldsWhatIsStale(8)
    simulate_server(rule, timing("exponential"), updates=1000)
    assert len(rule.waiting) == 7
    assert not simulate_server(Asynchronous(8), timing("exponential"), updates=1000).idle_fraction


class HoldsAll(Rule):
    """Nobody is answered."""

    def decide(self, worker):
        return Reply((worker,), ())


def test_a_rule_that_releases_nobody_is_named():
    with pytest.raises(ValueError, match="after 3 updates all workers wait"):
        simulate_server(HoldsAll(3), timing("exponential"), updates=1000)


def test_backups_drop_the_slowest_and_read_nothing_old():
    plain = simulate_server(Synchronous(8), timing("exponential"), updates=400)
    spare = simulate_server(Synchronous(8, backups=2), timing("exponential"), updates=400)
    assert set(plain.staleness) == {0}
    used = [w for a in spare.arrivals for w in a.used]
    assert len(used) == 400 * 6
    assert any(a.staleness for a in spare.arrivals)
    assert all(not a.used for a in spare.arrivals if a.staleness)
    assert spare.arrivals[-1].time < 0.7 * plain.arrivals[-1].time


def test_a_synchronous_round_waits_for_the_slowest():
    history = simulate_server(Synchronous(64), timing("exponential"), updates=2000)
    harmonic = sum(1 / k for k in range(1, 65))
    assert abs(history.arrivals[-1].time / 2000 - harmonic) < 0.15


def largest_root(a, tau, momentum=0.0):
    """The modulus of the largest root of the recurrence, from numpy."""
    import numpy

    coefficients = numpy.zeros(tau + 3)
    coefficients[:3] = 1, -(1 + momentum), momentum
    coefficients[tau + 1] += a
    return max(abs(numpy.roots(coefficients)))


@pytest.mark.parametrize("tau", [0, 1, 2, 3, 7, 15, 40])
@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.9, 0.99])
def test_the_border_is_where_the_largest_root_leaves_the_circle(tau, momentum):
    border = stability_border(tau, momentum)
    assert largest_root(border * (1 - 1e-4), tau, momentum) < 1
    assert largest_root(border * (1 + 1e-4), tau, momentum) > 1


@pytest.mark.parametrize("tau", [1, 2, 5, 15])
def test_runs_on_both_sides_of_the_border(tau):
    border = stability_border(tau)
    below = stale_descent(0.98 * border, tau, 20_000)
    above = stale_descent(1.02 * border, tau, 4000)
    assert abs(below[-1]) < 1e-6
    assert max(map(abs, above[-200:])) > max(map(abs, above[:200])) > 0.5


def test_borders_that_are_said_to_hold_and_do_not():
    # eta tau lambda < 1 is neither needed nor enough
    assert stale_descent(3.0, 0, 100)[-1] > 1e6
    assert abs(stale_descent(0.25, 5, 3000)[-1]) < 1e-6
    # delays of at most two that change are worse than two throughout
    assert stability_border(2) > 0.6
    assert max(map(abs, stale_descent(0.6, (0, 1, 2, 2), 4000))) > 1e6
    assert abs(stale_descent(0.6, 2, 4000)[-1]) < 1e-6
    # momentum: tau > (1 - b) / (a (1 + b)) is no divergence
    for a, b, tau in ((0.09, 0.9, 1), (0.04, 0.9, 2), (0.009, 0.9, 10)):
        assert tau > (1 - b) / (a * (1 + b))
        assert abs(stale_descent(a, tau, 40_000, momentum=b)[-1]) < 1e-6


def test_a_history_of_equal_times_descends_with_a_constant_delay():
    history = simulate_server(Asynchronous(4), lambda worker: 1.0 + 1e-9 * worker, updates=400)
    step = 0.3
    weights = descend(history, lambda x, worker: x, 1.0, step)
    constant = stale_descent(step, 3, 400)
    assert max(abs(x - y) for x, y in zip(weights, constant, strict=True)) < 1e-12
    assert abs(weights[-1]) < 1e-6 < stability_border(3) - step


@pytest.fixture(scope="module")
def ranks():
    with launch(5, timeout=120) as ranks:
        yield ranks


def served(kind, updates, poison=False):
    import time

    import torch
    import torch.distributed as dist

    from dtlib.efficiency import (
        Asynchronous,
        StaleSynchronous,
        Synchronous,
        parameter_server,
    )

    rules = {
        "asynchronous": lambda: Asynchronous(4),
        "stale": lambda: StaleSynchronous(4, slack=1),
        "synchronous": lambda: Synchronous(4),
        "backups": lambda: Synchronous(4, backups=1),
    }

    def gradient(x, worker):
        time.sleep(0.001 * worker)
        if poison and worker == 2:
            return x * torch.nan
        return own_gradient(x, worker)

    start = torch.linspace(-1, 1, 6, dtype=torch.float64)
    return parameter_server(
        rules[kind](), gradient, start, dist.group.WORLD, lr=0.05, updates=updates
    )


def own_gradient(x, worker):
    return (1 + worker) * (x - worker)


@pytest.mark.parametrize("kind", ["asynchronous", "stale", "synchronous", "backups"])
def test_a_real_server_keeps_the_law_and_its_history_can_be_replayed(ranks, kind):
    import torch

    (weights, history), *gradients = ranks.run(served, kind, 60)
    assert history.updates == 60
    start = torch.linspace(-1, 1, 6, dtype=torch.float64)
    replayed = descend(history, own_gradient, start, 0.05)[-1]
    assert float((weights - replayed).abs().max()) == 0
    if kind == "asynchronous":
        assert sum(history.staleness) + sum(history.ages_in_flight) == 3 * 60
    if kind == "stale":
        clock = [0] * 4
        for arrival in history.arrivals:
            clock[arrival.worker] += 1
            assert max(clock) - min(clock) <= 2
    if kind == "synchronous":
        x = start
        for _ in range(60):
            x = x - 0.05 * sum(own_gradient(x, w) for w in range(4)) / 4
        assert float((weights - x).abs().max()) < 1e-14
        assert gradients == [60] * 4
    if kind == "backups":
        assert all(len(a.used) in (0, 3) for a in history.arrivals)


def test_the_same_history_with_fresh_gradients_ends_elsewhere(ranks):
    import torch

    (weights, history), *_ = ranks.run(served, "asynchronous", 60)
    history.arrivals = [replace(a, read=a.version) for a in history.arrivals]
    start = torch.linspace(-1, 1, 6, dtype=torch.float64)
    other = descend(history, own_gradient, start, 0.05)[-1]
    assert float((weights - other).abs().max()) > 1e-6


def test_a_gradient_that_is_no_number_names_its_worker(ranks):
    with pytest.raises(RanksError, match="worker 2 at version"):
        ranks.run(served, "asynchronous", 60, True)


def test_bad_rules_are_refused():
    with pytest.raises(ValueError, match="slack"):
        StaleSynchronous(4, slack=-1)
    with pytest.raises(ValueError, match="backups"):
        Synchronous(4, backups=4)
    with pytest.raises(ValueError, match="P is 0"):
        Asynchronous(0)
    for tau, momentum in itertools.product((-1, 0.5), (0.0,)):
        with pytest.raises(ValueError, match="tau"):
            stability_border(tau, momentum)
    with pytest.raises(ValueError, match="momentum"):
        stability_border(1, 1.0)
