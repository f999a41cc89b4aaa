"""Schedules of recomputation as data: their check, their cost, and Revolve's optimality."""

import heapq
from fractions import Fraction
from math import comb

import pytest

from dtlib.memory.recompute.schedule import (
    RecomputeAction,
    RecomputeError,
    RecomputeSchedule,
    check_recompute,
    fewest_advances,
    keep_all,
    revolve,
    revolve_advances,
    revolve_reach,
    uniform,
)
from dtlib.memory.recompute.simulation import Chain, LayerCost, simulate_recompute

EVERY = [keep_all(7), *(uniform(7, k) for k in range(1, 8)), *(revolve(7, s) for s in range(1, 9))]


@pytest.mark.parametrize("schedule", [*EVERY, uniform(7, 3, keep_last=False)], ids=str)
def test_every_builder_makes_a_schedule_that_runs_and_reads_back(schedule):
    check_recompute(schedule)
    assert RecomputeSchedule(schedule.name, schedule.layers, str(schedule)) == schedule


@pytest.mark.parametrize("schedule", EVERY[:12:2], ids=str)
def test_sabotage_a_schedule_that_lacks_one_action_does_not_run(schedule):
    for lost in range(len(schedule.actions)):
        rest = schedule.actions[:lost] + schedule.actions[lost + 1 :]
        with pytest.raises(RecomputeError):
            check_recompute(RecomputeSchedule("damaged", schedule.layers, rest))


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ("T0:2", r"at the end there are no backward pass of layers 0 ... 1 and tapes of layers"),
        ("K0 T0:2 B0:2", r"at the end there are kept states \[0\]"),
        ("A1:2", r"action 0, A1:2: needs the running state 1, but it is state 0"),
        ("T0:2 B0:1", r"action 1, B0:1: the next backward pass is that of layer 1"),
        ("A0:1 T1:2 B0:2", r"action 2, B0:2: no tape of layer 0"),
        ("T0:2 B1:2 K1", r"action 2, K1: needs the running state 1, but it is none"),
        ("K0 K0", r"action 1, K0: state 0 is kept already"),
        ("D0", r"action 0, D0: state 0 is not kept; kept are none"),
        ("K0 T0:2 R0 T0:1", r"action 3, T0:1: layer 0 has a tape"),
        ("A0:3", r"action 0, A0:3: layers are 0 ... 1"),
    ],
)
def test_the_check_names_the_action_and_what_is_wrong(actions, message):
    with pytest.raises(RecomputeError, match=message):
        check_recompute(RecomputeSchedule("bad", 2, actions))


@pytest.mark.parametrize("text", ["X3", "K", "A3", "K3:4", "A3:", "", "A-1:2"])
def test_a_text_that_is_no_action(text):
    with pytest.raises(RecomputeError, match="is no action"):
        RecomputeAction.parse(text)


def test_what_the_builders_refuse():
    with pytest.raises(ValueError, match="uniform: segment is 9, but must be at most layers, 8"):
        uniform(8, 9)
    with pytest.raises(ValueError, match="revolve: slots is 0"):
        revolve(8, 0)
    with pytest.raises(ValueError, match="the length of chain is 3, but must be 4"):
        simulate_recompute(keep_all(4), Chain.equal(3))


def test_keeping_all_repeats_nothing_and_keeps_every_tape():
    cost = simulate_recompute(keep_all(6), Chain.equal(6, 2, 32))
    assert (cost.extra_forwards, cost.peak_bytes) == (0, 6 * 34)
    assert cost.curve == tuple(34 * n for n in (1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0))


@pytest.mark.parametrize("layers", range(1, 14))
def test_uniform_segments_keep_their_law_exactly(layers):
    """(L / k - 1) c + k a bytes, and L - k extra forward passes: a third of 1 - k / L of 3 F."""
    state, interior = 2, 32
    for segment in range(1, layers + 1):
        cost = simulate_recompute(uniform(layers, segment), Chain.equal(layers, state, interior))
        assert cost.extra_forwards == layers - segment
        assert Fraction(cost.extra_flops, 3 * layers) == (1 - Fraction(segment, layers)) / 3
        if layers % segment == 0:
            kept = (layers // segment - 1) * state + segment * (state + interior)
            assert (cost.peak_bytes, cost.peak_slots) == (kept, layers // segment - 1)


def test_a_stage_keeps_no_tape_after_its_forward_pass_and_repeats_all_of_it():
    cost = simulate_recompute(uniform(8, 2, keep_last=False), Chain.equal(8, 2, 32))
    assert (cost.forward_bytes, cost.extra_forwards) == (4 * 2, 8)
    assert cost.peak_bytes == 4 * 2 + 2 * 34 - 2


def test_the_square_root_is_the_best_segment_only_if_a_tape_is_as_small_as_a_state():
    """E-21.1: of 32 layers with 2 and 34 bytes, one layer a segment keeps least, 6 twice that."""

    def kept(segment, interior):
        chain = Chain.equal(36, 2, interior)
        return simulate_recompute(uniform(36, segment), chain).peak_bytes

    def best(interior):
        return min(range(1, 37), key=lambda k: kept(k, interior))

    assert best(0) == 6 and best(32) in (1, 2) and kept(6, 32) > 2 * kept(best(32), 32)
    table = [Fraction(32, k) * 2 + 34 * k for k in (1, 2, 6)]
    assert [round(float(x)) for x in table] == [98, 100, 215]  # with the first input counted twice


@pytest.mark.parametrize("slots", range(1, 9))
def test_the_binomial_formula_is_what_dynamic_programming_finds(slots):
    for layers in range(1, 61):
        assert revolve_advances(layers, slots) == fewest_advances(layers, slots)


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 8, 20])
def test_the_schedule_does_what_its_formula_says_within_its_slots(slots):
    for layers in (1, 2, 3, 5, 8, 13, 32):
        cost = simulate_recompute(revolve(layers, slots))
        assert cost.extra_forwards == revolve_advances(layers, slots)
        assert cost.peak_slots <= slots
        if layers >= slots:
            assert cost.peak_slots == slots or layers == slots


def test_no_layer_is_advanced_through_more_often_than_its_repeats():
    for slots in (2, 3, 5):
        for repeats in (1, 2, 3):
            layers = revolve_reach(slots, repeats)
            runs = simulate_recompute(revolve(layers, slots)).forwards
            assert max(runs) == repeats + 1  # and once more with a tape
            assert revolve_advances(layers, slots) == repeats * layers - comb(
                slots + repeats, slots + 1
            )


def test_one_slot_needs_the_square_of_the_layers_and_never_one_pass():
    """E-21.2: keeping the input only costs L (L - 1) / 2 layers again, 496 for 32, not 32."""
    assert [revolve_advances(n, 1) for n in (2, 8, 32)] == [1, 28, 496]
    assert simulate_recompute(revolve(32, 1)).peak_slots == 1


def least_extra(chain, budget):
    """The fewest extra forward passes of any schedule at all: every sequence of actions is tried.

    Dijkstra over (running state, kept states, tapes, layers left): an independent reference that
    knows only what an action does. A budget counts bytes that are held after each action.
    """
    layers = len(chain.layers)
    start = (0, frozenset(), frozenset(), layers)
    best, queue, order = {start: 0}, [(0, 0, start)], 0
    while queue:
        cost, _, state = heapq.heappop(queue)
        if cost > best[state]:
            continue
        running, kept, taped, left = state
        if left == 0:
            return cost - layers
        following = []
        if running is not None:
            following.append((0, (running, kept | {running}, taped, left)))
            if running < left:
                following.append((1, (running + 1, kept, taped, left)))
                following.append((1, (running + 1, kept, taped | {running}, left)))
        following += [(0, (at, kept, taped, left)) for at in kept]
        following += [(0, (running, kept - {at}, taped, left)) for at in kept]
        if left - 1 in taped:
            following.append((0, (None, kept, taped - {left - 1}, left - 1)))
        for more, found in following:
            fits = chain.held(found[1], found[2]) <= budget
            if fits and cost + more < best.get(found, 10**9):
                best[found], order = cost + more, order + 1
                heapq.heappush(queue, (cost + more, order, found))
    return None


@pytest.mark.parametrize(("layers", "slots"), [(2, 1), (3, 1), (3, 2), (4, 2), (5, 2), (5, 3)])
def test_no_sequence_of_actions_at_all_beats_revolve(layers, slots):
    """With tapes that weigh a slot's byte more than nothing, so that only one may stand."""
    tape = 100
    chain = Chain((LayerCost(1, tape, keeps_input=False),) * layers, 1)
    assert least_extra(chain, tape + slots) == revolve_advances(layers, slots)


def test_sabotage_the_search_does_beat_a_worse_schedule():
    chain = Chain((LayerCost(1, 100, keeps_input=False),) * 4, 1)
    assert least_extra(chain, 102) < simulate_recompute(revolve(4, 1)).extra_forwards


def test_a_state_that_a_slot_and_two_tapes_hold_counts_once():
    keeps = {"keeps_input": True, "keeps_output": True}
    chain = Chain((LayerCost(10, 1, **keeps), LayerCost(20, 2, **keeps)), 40)
    assert chain.kept_bytes == 10 + 20 + 40 + 3
    assert chain.held({1}, {0, 1}) == chain.kept_bytes
    assert chain.held({0, 1}, ()) == 30
