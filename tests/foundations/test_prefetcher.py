"""Theorems of the prefetcher: flow is conserved, Little holds as areas, chance has a price."""

from fractions import Fraction
from itertools import pairwise
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtlib.foundations.data.memoryless import (
    memoryless_busy_fraction,
    memoryless_in_order_busy_fraction,
)
from dtlib.foundations.data.prefetcher import area_under, count_trace, fetch_times, prefetch
from dtlib.foundations.data.rates import safe_depth

LOADERS = st.tuples(st.integers(1, 5), st.integers(1, 8))
FETCHES = st.lists(st.integers(0, 12), min_size=1, max_size=40)


def ticking(fetches, step, workers, depth, in_order):
    """The same loader by a clock of whole ticks: who is free, what is ready, what comes next."""
    count, asked, taken = len(fetches), min(depth, len(fetches)), {}
    waiting, making, ready = list(range(asked)), {}, {}
    now = gpu_free = 0
    while len(taken) < count:
        progress = True
        while progress:
            progress = False
            for i in [i for i, end in making.items() if end <= now]:
                ready[i] = making.pop(i)
                progress = True
            while waiting and len(making) < workers:
                i = waiting.pop(0)
                making[i] = now + fetches[i]
                progress = True
            finished = any(end <= now for end in making.values())
            can = [len(taken)] if in_order else sorted(ready, key=lambda i: (ready[i], i))
            if not finished and gpu_free <= now and can and can[0] in ready:
                i = can[0]
                taken[i], gpu_free = now, now + step
                del ready[i]
                if asked < count:
                    waiting.append(asked)
                    asked += 1
                progress = True
        now += 1
    return [taken[i] for i in range(count)]


@given(FETCHES, st.integers(1, 4), LOADERS, st.booleans())
def test_the_simulator_agrees_with_a_ticking_clock(fetches, step, loader, in_order):
    fetches = [time + 1 for time in fetches]
    run = prefetch(fetches, step, *loader, in_order=in_order)
    assert sorted(run.taken) == sorted(ticking(fetches, step, *loader, in_order))
    if in_order:
        assert list(run.taken) == ticking(fetches, step, *loader, in_order)


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize(("workers", "depth"), [(1, 1), (1, 4), (2, 3), (3, 2), (4, 4), (5, 12)])
@pytest.mark.parametrize(("fetch", "step"), [(2, Fraction(1, 2)), (3, 1), (1, 3)])
def test_without_chance_the_flow_is_that_of_the_slower_stage(fetch, step, workers, depth, in_order):
    run = prefetch([Fraction(fetch)] * 200, Fraction(step), workers, depth, in_order=in_order)
    taken, period = sorted(run.taken), workers * depth
    slower = max(Fraction(step), Fraction(fetch, min(workers, depth)))
    assert taken[100 + period] - taken[100] == period * slower
    assert taken[100 + period] - taken[100] != period * (slower + Fraction(1, 1000))


@given(FETCHES, st.integers(1, 4), LOADERS, st.booleans(), st.booleans())
def test_whatever_the_times_no_stage_is_outrun_and_no_limit_broken(
    fetches, step, loader, in_order, turns
):
    workers, depth = loader
    run = prefetch(fetches, step, workers, depth, in_order=in_order, turns=turns)
    assert run.stopped >= len(fetches) * step
    assert run.stopped * workers >= sum(fetches)
    for starts, stops, most in (
        (run.asked, run.taken, depth),
        (run.begun, run.ready, workers),
        (run.taken, [t + step for t in run.taken], 1),
    ):
        assert max(count_trace(starts, stops)[1]) <= most
    assert all(np.diff(sorted(run.taken)) >= step)
    if in_order:
        assert run.order == list(range(len(fetches)))


@given(FETCHES, st.integers(1, 4), LOADERS, st.booleans())
def test_little_is_an_identity_of_areas(fetches, step, loader, in_order):
    run = prefetch(fetches, step, *loader, in_order=in_order)
    for starts, stops in ((run.asked, run.taken), (run.begun, run.ready), (run.ready, run.taken)):
        spent = sum(b - a for a, b in zip(starts, stops, strict=True))
        assert area_under(*count_trace(starts, stops)) == spent


def test_sabotage_a_batch_that_is_not_counted_breaks_the_identity():
    run = prefetch([3, 1, 4, 1, 5, 9, 2, 6], 2, 2, 3)
    spent = sum(b - a for a, b in zip(run.asked, run.taken, strict=True))
    assert area_under(*count_trace(run.asked[1:], run.taken[1:])) != spent


def test_a_shared_queue_leaves_no_worker_idle_and_turns_do():
    fetches = [9, 1, 1, 1, 1, 1]
    shared, turned = (prefetch(fetches, 1, 2, 6, turns=turns) for turns in (False, True))
    assert shared.worker == (0, 1, 1, 1, 1, 1) and max(shared.ready) == 9
    assert turned.worker == (0, 1, 0, 1, 0, 1) and max(turned.ready) == 11


@pytest.mark.parametrize(("workers", "depth"), [(4, 4), (4, 16), (6, 8)])
def test_the_simulator_tends_to_the_exact_share_when_fetches_have_no_memory(workers, depth):
    fetches = np.random.default_rng(2).exponential(2.0, 40_000)
    exact = memoryless_busy_fraction(workers, depth, fetches.mean(), 0.5)
    run = prefetch(fetches.tolist(), 0.5, workers, depth, in_order=False)
    assert run.busy_fraction == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("depth", [1, 2, 4, 6])
def test_and_in_order(depth):
    fetches = np.random.default_rng(3).exponential(2.0, 40_000)
    exact = memoryless_in_order_busy_fraction(depth, fetches.mean(), 0.5)
    run = prefetch(fetches.tolist(), 0.5, depth, depth)
    assert run.busy_fraction == pytest.approx(exact, rel=0.01)
    narrower = prefetch(fetch_times(2.0, 0.5, 40_000).tolist(), 0.5, depth, depth)
    assert depth == 1 or narrower.busy_fraction > exact * 1.05


@given(FETCHES, st.integers(1, 4), st.integers(1, 12))
def test_in_order_a_depth_for_the_slowest_fetch_is_safe(fetches, step, spare):
    depth = max(1, safe_depth(max(fetches), step)) + spare - 1
    run = prefetch(fetches, step, depth, depth)
    assert set(np.diff(run.taken[depth - 1 :])) <= {step}


@given(st.lists(st.integers(0, 4), min_size=8, max_size=30), st.integers(1, 3))
def test_and_one_batch_less_is_not(before, step):
    depth = 4
    slow = (depth + 1) * step
    fetches = [min(x, depth * step) for x in before] + [slow] + [0] * depth
    late = len(before)
    run = prefetch(fetches, step, depth, depth)
    assert run.taken[late] - run.taken[late - 1] == step + slow - depth * step
    assert safe_depth(slow, step) == depth + 1


def test_in_order_more_workers_do_not_make_a_slow_batch_faster():
    fetches = fetch_times(2.0, 1.0, 1000).tolist()
    shares = [prefetch(fetches, 0.5, workers, 16).busy_fraction for workers in (4, 6, 8, 16)]
    assert shares[1] - shares[0] > 0.02 and shares[3] - shares[1] < 0.002


def test_with_one_worker_and_one_batch_the_chain_is_a_closed_form():
    for fetch, step in ((2.0, 0.5), (1.0, 1.0), (0.1, 3.0)):
        closed = step / (step + fetch * exp(-step / fetch))
        assert memoryless_busy_fraction(1, 1, fetch, step) == pytest.approx(closed, rel=1e-9)
        assert memoryless_in_order_busy_fraction(1, fetch, step) == pytest.approx(closed, rel=1e-9)


def test_order_costs_something_at_every_depth_but_one():
    for depth in range(2, 8):
        free = memoryless_busy_fraction(depth, depth, 2.0, 0.5)
        assert memoryless_in_order_busy_fraction(depth, 2.0, 0.5) < free


def test_as_many_workers_as_little_asks_for_are_never_enough_and_depth_helps_slowly():
    idle = [1 - memoryless_busy_fraction(4, depth, 2.0, 0.5) for depth in (4, 8, 16, 32, 64)]
    assert idle == sorted(idle, reverse=True) and idle[-1] > 0
    assert all(b > 0.3 * a for a, b in pairwise(idle))


def test_the_notes_of_four_loaders():
    """Mean 2 s, step 0.5 s, in order: what (workers, depth, spread) gives."""
    cases = {(4, 4, 0): 1.0, (4, 4, 1): 0.52, (8, 32, 1): 0.98, (8, 32, 2): 0.80}
    for (workers, depth, cv), share in cases.items():
        run = prefetch(fetch_times(2.0, cv, 4000).tolist(), 0.5, workers, depth)
        assert run.busy_fraction == pytest.approx(share, abs=0.01)


def test_fetch_times_have_the_mean_and_the_spread_that_are_asked():
    for cv in (0.0, 0.3, 1.0, 2.0):
        times = fetch_times(0.04, cv, 500)
        assert times.mean() == pytest.approx(0.04) and times.std() == pytest.approx(0.04 * cv)
        assert times.min() > 0
    assert (fetch_times(1, 1, 50, seed=1) != fetch_times(1, 1, 50, seed=2)).any()


def test_a_timeline_shows_every_fetch_and_every_step():
    run = prefetch([3, 1, 4, 1], 2, 2, 2)
    timeline = run.timeline()
    assert timeline.busy(0, "forward") == 8
    assert sum(s.stop - s.start for s in timeline.spans if s.kind == "communication") == 9
    assert max(span.stop for span in run.timeline(until=5).spans) == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([], 1, 1, 1), "fetches: 0"),
        (([1], 1, 0, 1), "workers: 0"),
        (([1], 1, 1, 0), "depth: 0"),
        (([-1], 1, 1, 1), "fetches: -1"),
    ],
)
def test_what_cannot_be_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        prefetch(*arguments)
    with pytest.raises(ValueError, match="must be positive"):
        fetch_times(0, 1, 10)
    with pytest.raises(ValueError, match="at most 10"):
        memoryless_in_order_busy_fraction(11, 2, 1)
