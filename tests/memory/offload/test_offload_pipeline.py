"""The pipeline of transfers and arithmetic: look-ahead hides latency, and never bandwidth."""

import random
from fractions import Fraction
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dtlib.foundations.data.prefetcher import prefetch
from dtlib.memory import (
    HostStore,
    ThrottledStore,
    hiding_lookahead,
    measure_offload,
    simulate_offload,
    streamed_layer_time,
)

times = st.integers(0, 9)


def longest_paths(layers, compute, fetch, back, alpha, lookahead, buffers, duplex):
    """The same pipeline as a graph: every event as early as all arrows into it allow.

    An arrow (a, b, d) says that b happens d after a, or later. Solved by relaxing until it stands.
    """
    arrows = []

    def after(a, b, d=0):
        arrows.append((a, b, d))

    for i in range(layers):
        for what, takes in (("fetch", fetch[i]), ("compute", compute[i]), ("back", back[i])):
            after((what, i, "begin"), (what, i, "end"), takes)
            if i:
                after((what, i - 1, "end"), (what, i, "begin"))
        after(("fetch", i, "end"), ("compute", i, "begin"), alpha)
        after(("compute", i, "end"), ("back", i, "begin"))
        asks = i + lookahead + 1
        if asks < layers:
            after(("compute", i, "end"), ("fetch", asks, "begin"))
            if not duplex:
                after(("back", i, "end"), ("fetch", asks, "begin"))
        if not duplex and i + lookahead < layers:
            after(("fetch", i + lookahead, "end"), ("back", i, "begin"))
        if i + buffers < layers:
            after(("back", i, "end"), ("fetch", i + buffers, "begin"), alpha)
    at = dict.fromkeys((event for a, b, _ in arrows for event in (a, b)), 0)
    changed = True
    while changed:
        changed = False
        for a, b, d in arrows:
            if at[a] + d > at[b]:
                at[b], changed = at[a] + d, True
    return [at["compute", i, "end"] for i in range(layers)]


@given(st.data())
def test_the_simulation_is_the_longest_path_through_the_graph_of_its_rules(data):
    layers = data.draw(st.integers(1, 7))
    compute, fetch, back = (
        data.draw(st.lists(times, min_size=layers, max_size=layers)) for _ in range(3)
    )
    back = [time + 1 for time in back]
    alpha, lookahead = data.draw(times), data.draw(st.integers(0, 3))
    buffers = data.draw(st.integers(lookahead + 1, lookahead + 3))
    duplex = data.draw(st.booleans())
    run = simulate_offload(
        layers,
        compute,
        fetch,
        back,
        alpha=alpha,
        lookahead=lookahead,
        buffers=buffers,
        duplex=duplex,
    )
    assert list(run.stop) == longest_paths(
        layers, compute, fetch, back, alpha, lookahead, buffers, duplex
    )


@pytest.mark.parametrize("lookahead", [1, 2, 3, 8])
@pytest.mark.parametrize(("compute", "fetch"), [(5, 8), (8, 5), (7, 7), (1, 30), (30, 1)])
def test_without_latency_every_lookahead_from_one_on_takes_the_longer_of_the_two(
    compute, fetch, lookahead
):
    run = simulate_offload(60, Fraction(compute, 3), Fraction(fetch, 3), lookahead=lookahead)
    assert run.layer_time(20) == Fraction(max(compute, fetch), 3)
    serial = simulate_offload(60, compute, fetch, lookahead=0)
    assert serial.layer_time(20) == compute + fetch


def test_the_source_s_depth_does_not_hide_a_gather_longer_than_its_layer():
    """16 ms behind 10 ms of arithmetic: a depth of 2 was claimed to hide it."""
    assert [simulate_offload(40, 10, 16, lookahead=k).layer_time(10) for k in (1, 2, 3)] == [16] * 3


def test_a_third_and_a_fourth_buffer_are_no_faster():
    """50 ms of arithmetic, 80 ms of transfer; 40 ms was claimed for three buffers."""
    assert [
        simulate_offload(40, 50, 80, lookahead=1, buffers=b).layer_time(12) for b in (2, 3, 4)
    ] == [80] * 3


@pytest.mark.parametrize(("compute", "fetch"), [(5, 8), (8, 5), (6, 6)])
@pytest.mark.parametrize("alpha", [0, 1, 3, 20, 55])
def test_the_law_with_latency_is_exact_for_every_lookahead(compute, fetch, alpha):
    least = hiding_lookahead(compute, fetch, alpha)
    for lookahead in range(least + 3):
        turn = lookahead + 1
        run = simulate_offload(60 * turn, compute, fetch, alpha=alpha, lookahead=lookahead)
        law = streamed_layer_time(*map(Fraction, (compute, fetch, alpha)), lookahead)
        assert run.layer_time(20 * turn) == law
        assert (law == max(compute, fetch)) == (lookahead >= least)


@pytest.mark.parametrize("duplex", [True, False])
def test_what_goes_back_needs_one_more_buffer_and_a_lane(duplex):
    for compute, fetch, back in product((2, 5, 9), repeat=3):
        run = simulate_offload(200, compute, fetch, back, duplex=duplex)
        lane = max(fetch, back) if duplex else fetch + back
        assert run.layer_time(60) == max(compute, lane)


@given(
    st.lists(times, min_size=2, max_size=12),
    st.lists(times, min_size=2, max_size=12),
    st.integers(0, 4),
)
def test_lookahead_never_hurts_and_no_lookahead_beats_the_lane_or_the_arithmetic(
    compute, fetch, alpha
):
    layers = min(len(compute), len(fetch))
    compute, fetch = compute[:layers], fetch[:layers]
    makespans = [
        simulate_offload(layers, compute, fetch, alpha=alpha, lookahead=k).makespan
        for k in range(layers)
    ]
    assert makespans == sorted(makespans, reverse=True)
    assert makespans[-1] >= max(sum(compute) + fetch[0] + alpha, sum(fetch) + compute[-1])


def test_more_buffers_absorb_jitter_down_to_the_mean_and_no_further():
    """10 or 80 ms at random, mean 45, behind 50 ms of arithmetic."""
    fetch = [10, 80] * 5000
    random.Random(0).shuffle(fetch)
    took = [
        float(simulate_offload(len(fetch), 50, fetch, lookahead=k).stop[-1]) / len(fetch)
        for k in (1, 2, 3, 7)
    ]
    assert took == sorted(took, reverse=True) and took[-1] > 50
    assert took[0] == pytest.approx((50 + 80) / 2, rel=0.01)
    assert took == pytest.approx([65.1, 55.4, 52.6, 50.3], rel=0.02)


def test_a_prefetcher_with_one_worker_has_the_same_law():
    for compute, fetch in product((3, 5, 8), repeat=2):
        for depth in (1, 2, 4):
            taken = prefetch([fetch] * 60, compute, workers=1, depth=depth).taken
            run = simulate_offload(60, compute, fetch, lookahead=depth)
            assert Fraction(taken[-1] - taken[-21], 20) == run.layer_time(20)


def test_the_timeline_shows_lanes_that_do_one_thing_at_a_time():
    run = simulate_offload(6, 5, 8, 3, alpha=2, lookahead=2)
    timeline = run.timeline()
    assert timeline.busy(0, "forward") == 30 and timeline.makespan == run.makespan
    for lane, total in (("link in", 48), ("link out", 18), ("compute", 30)):
        spans = [span for span in timeline.of(0) if span.lane == lane]
        assert sum(s.stop - s.start for s in spans) == total
        assert all(a.stop <= b.start for a, b in pairwise(spans))
    assert run.stalled == run.stop[-1] - 30


@pytest.mark.parametrize("lookahead", [0, 1, 3])
def test_real_threads_keep_the_order_of_the_simulation_and_its_lower_bounds(lookahead):
    """Sleeping never returns early, so these bounds hold on the busiest machine."""
    layers, size, bandwidth, compute = 8, 4000, 1e6, 0.002
    with ThrottledStore(bandwidth, record=True) as store:
        spans = measure_offload(store, layers, size, compute, lookahead).of(0)
    fetch = {s.name: s for s in spans if s.lane == "link in"}
    run = {s.name: s for s in spans if s.lane == "compute"}
    names = [f"layer {i}" for i in range(layers)]
    for i, name in enumerate(names):
        assert run[name].start >= fetch[name].stop  # never before it is here
        if i > lookahead:
            assert fetch[name].start >= run[names[i - lookahead - 1]].stop  # a buffer was free
        if i:
            assert fetch[name].start >= fetch[names[i - 1]].stop  # one at a time
    whole = run[names[-1]].stop - fetch[names[0]].start
    assert whole >= layers * size / bandwidth + compute  # bandwidth, whatever the look-ahead
    if not lookahead:
        assert whole >= layers * (size / bandwidth + compute)


def test_latency_is_shared_by_what_is_under_way_and_the_lane_is_not():
    """A latency of 1,000 s that nobody waits for: six transfers are seen after one, not six."""
    with ThrottledStore(1e5, alpha=1000.0, record=True) as store:
        for key in "abcdef":
            store.put(key, torch.zeros(25))
        store.flush()
        store.spans.clear()
        seen = [transfer.future.result() for transfer in map(store.get, "abcdef")]
    began = store.spans[0].start
    assert seen[0] - began >= 1000 and seen[-1] - began < 2000
    assert all(b - a >= 100 / 1e5 for a, b in pairwise(seen))


def test_a_pipeline_without_one_of_its_rules_is_another_one():
    """The twin: forget that a buffer must be free, that lanes are shared, that latency passes."""
    rules = {"alpha": 4, "lookahead": 1, "buffers": 2, "duplex": False}
    values = (8, [3] * 8, [5] * 8, [2] * 8)
    run = simulate_offload(*values, **rules)
    assert list(run.stop) == longest_paths(*values, **rules)
    for broken in ({"buffers": 9}, {"duplex": True}, {"alpha": 0}, {"lookahead": 0}):
        assert list(run.stop) != longest_paths(*values, **rules | broken)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"layers": 0}, "layers is 0"),
        ({"layers": 2.5}, "layers is 2.5"),
        ({"compute": -1}, "compute is -1"),
        ({"compute": None}, "compute is None, but must be a time of at least 0"),
        ({"fetch": float("nan")}, "fetch is nan"),
        ({"fetch": [1, 2]}, "fetch has 2 times for 4 layers"),
        ({"alpha": -1}, "alpha is -1"),
        ({"lookahead": -1}, "lookahead is -1"),
        ({"lookahead": 1.5}, "lookahead is 1.5"),
        ({"lookahead": 3, "buffers": 3}, "buffers is 3, but must be at least 4"),
    ],
)
def test_bad_pipelines_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        simulate_offload(**{"layers": 4, "compute": 1, "fetch": 1} | values)
    with HostStore() as store, pytest.raises(ValueError, match="record=True"):
        measure_offload(store, 2, 8, 0.0, 1)
    with (
        HostStore(record=True) as store,
        pytest.raises(ValueError, match="3 sizes for 2 layers"),
    ):
        measure_offload(store, 2, [8, 8, 8], 0.0, 1)
