"""The planner against every sequence of actions, and the formulas against counting."""

import heapq
import random

import pytest
import torch
from torch import nn

from dtlib.foundations import TransformerSpec, layer_activation_bytes
from dtlib.memory.meter import Meter
from dtlib.memory.recompute.cost import (
    best_segment_length,
    full_work_fraction,
    one_slot_advances,
    score_bytes_fraction,
    segment_peak_bytes,
    selective_work_fraction,
    stage_segment_bytes,
)
from dtlib.memory.recompute.measure import measure_chain
from dtlib.memory.recompute.planner import PricedSchedule, best_schedule, not_beaten, pareto_front
from dtlib.memory.recompute.run import recompute_chain
from dtlib.memory.recompute.schedule import keep_all, revolve, revolve_advances, uniform
from dtlib.memory.recompute.simulation import Chain, LayerCost, simulate_recompute


def least_work(chain, budget):
    """The least work done again by any sequence of actions at all that stays within a budget.

    Dijkstra over (running state, kept states, tapes, layers left); it knows no structure. A
    budget counts bytes held after every action, and the workspace of a backward pass.
    """
    start = (0, frozenset(), frozenset(), len(chain.layers))
    best, queue, order = {start: 0}, [(0, 0, start)], 0
    while queue:
        cost, _, state = heapq.heappop(queue)
        if cost > best[state]:
            continue
        running, kept, taped, left = state
        if left == 0:
            return cost - chain.flops
        following = [(0, (at, kept, taped, left)) for at in kept]
        following += [(0, (running, kept - {at}, taped, left)) for at in kept]
        if running is not None:
            following.append((0, (running, kept | {running}, taped, left)))
            if running < left:
                work = chain.layers[running].flops
                following.append((work, (running + 1, kept, taped, left)))
                following.append((work, (running + 1, kept, taped | {running}, left)))
        workspace = chain.layers[left - 1].workspace_bytes
        if left - 1 in taped and chain.held(kept, taped) + workspace <= budget:
            following.append((0, (None, kept, taped - {left - 1}, left - 1)))
        for more, found in following:
            fits = chain.held(found[1], found[2]) <= budget
            if fits and cost + more < best.get(found, 10**9):
                best[found], order = cost + more, order + 1
                heapq.heappush(queue, (cost + more, order, found))
    return None


@pytest.mark.parametrize(("state", "interior"), [(1, 1), (2, 5), (3, 1)])
def test_on_equal_layers_no_sequence_of_actions_beats_the_planner(state, interior):
    chain = Chain.equal(4, state, interior)
    for budget in range(chain.kept_bytes + 2):
        plan, least = best_schedule(chain, budget), least_work(chain, budget)
        assert (plan.extra_flops if plan else None) == least
        assert plan is None or plan.peak_bytes <= budget


def test_on_unequal_layers_the_planner_meets_the_search():
    """Also where states differ in size: the output of each taped layer counts, not the last one."""
    draw, cases = random.Random(0), 0
    for _ in range(6):
        layers = [
            LayerCost(draw.randint(1, 4), draw.randint(0, 6), draw.randint(1, 5)) for _ in "1234"
        ]
        chain = Chain(tuple(layers), 2)
        for budget in range(4, chain.kept_bytes + 1, 3):
            plan, least = best_schedule(chain, budget), least_work(chain, budget)
            assert (plan.extra_flops if plan else None) == least
            cases += plan is not None
    assert cases > 20


@pytest.mark.parametrize("equal", [True, False])
def test_tapes_that_hold_their_output_and_need_room_in_their_backward_pass(equal):
    """Within every budget for which there is a way, a plan is found: none breaks it at its end."""
    draw, cases = random.Random(1), 0
    for _ in range(6):
        layers = [
            LayerCost(*(draw.randint(1, 4) for _ in "123"), True, draw.random() < 0.5, w)
            for w in draw.choices([0, 3, 6], k=3)
        ]
        chain = Chain((layers[0],) * 3 if equal else tuple(layers), layers[0].state_bytes)
        for budget in range(chain.kept_bytes + 7):
            plan, least = best_schedule(chain, budget), least_work(chain, budget)
            assert (plan.extra_flops if plan else None) == least, (chain, budget)
            cases += plan is not None and plan.extra_flops > 0
    assert cases > 20


def test_a_state_that_is_dropped_and_made_again_can_beat_the_planner():
    """It keeps a state until the backward pass comes; a search need not."""
    layers = [LayerCost(10, 0, 8), LayerCost(2, 3, 1), LayerCost(6, 0, 1), LayerCost(1, 3, 8)]
    chain = Chain(tuple(layers), 1)
    assert (best_schedule(chain, 16).extra_flops, least_work(chain, 16)) == (19, 11)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_where_a_tape_is_dear_the_planner_finds_revolve(slots):
    chain = Chain.equal(9, 1, 1000)
    plan = best_schedule(chain, 1000 + slots + 1)  # the tape's input is a state too
    assert plan.extra_flops == revolve_advances(9, slots)


def test_a_plan_runs_and_the_meter_reads_its_bytes():
    torch.manual_seed(0)
    sizes = (8, 32, 4, 64, 16, 8)
    layers = nn.ModuleList(
        nn.Sequential(nn.Linear(sizes[i], sizes[i + 1]), nn.GELU()) for i in range(5)
    )
    x = torch.randn(3, 8, requires_grad=True)
    chain = measure_chain(layers, x)
    runs = 0
    for plan in pareto_front(chain, 8):
        with Meter(layers) as meter:
            recompute_chain(plan.schedule, layers, x).sum().backward()
        assert meter.peak_bytes == plan.peak_bytes
        runs += 1
    assert runs > 2


def test_the_front_falls_and_nothing_known_lies_below_it():
    chain = Chain.equal(12, 2, 32)
    front = pareto_front(chain, 12)
    pairs = [(plan.peak_bytes, plan.extra_flops) for plan in front]
    assert pairs == sorted(pairs) and pairs[-1] == (chain.kept_bytes, 0)
    assert len({work for _, work in pairs}) == len(pairs)
    known = [
        keep_all(12),
        *(uniform(12, k) for k in range(1, 13)),
        *(revolve(12, s) for s in (1, 4)),
    ]
    for schedule in known:
        plan = PricedSchedule.of(schedule, chain)
        assert any(b <= plan.peak_bytes and w <= plan.extra_flops for b, w in pairs)
    assert not_beaten([*front, PricedSchedule(keep_all(12), 10**6, 1)]) == front


def test_sabotage_a_budget_too_small_has_no_plan_and_a_negative_one_is_refused():
    chain = Chain.equal(4, 2, 32)
    assert best_schedule(chain, 33) is None
    with pytest.raises(ValueError, match="budget is -1"):
        best_schedule(chain, -1)


def test_the_formulas_of_segments_are_what_the_simulation_counts():
    for layers, segment in ((12, 1), (12, 3), (12, 12), (80, 2)):
        chain = Chain.equal(layers, 2, 32)
        peak = simulate_recompute(uniform(layers, segment), chain).peak_bytes
        assert segment_peak_bytes(layers, segment, 2, 34) == peak
    chain = Chain.equal(9, 1)
    assert one_slot_advances(9) == simulate_recompute(revolve(9, 1), chain).extra_forwards
    best = best_segment_length(80, 2, 34)
    at_best = segment_peak_bytes(80, best, 2, 34)
    assert all(at_best <= segment_peak_bytes(80, k, 2, 34) for k in range(1, 81))


def test_seventy_billion_parameters_keep_least_at_two_layers_and_the_root_loses():
    """E-21.1, 80 layers, 4096 tokens of 8192 numbers: 6.5 GB at 1, 5.0 at 2, 10.9 at 9."""
    unit = 4096 * 8192
    kept = {k: segment_peak_bytes(80, k, 2 * unit, 34 * unit) / 1e9 for k in (1, 2, 9)}
    assert kept[2] < kept[1] < kept[9]
    assert [round(kept[k] + 2 * unit / 1e9, 1) for k in (1, 2, 9)] == [6.5, 5.0, 10.9]


@pytest.mark.parametrize("rank", range(4))
def test_a_stage_with_micro_batches_under_way_holds_what_the_law_says(rank):
    """E-21.9: 4, 3, 2, 1 micro-batches under way; one workspace, not one for each of them."""
    stages, micro_batches, layers, segment = 4, 8, 16, 2
    own = nn.ModuleList(nn.Linear(8, 8) for _ in range(layers // stages))
    schedule = uniform(len(own), segment, keep_last=False)
    keep = [nn.Sequential(layer, nn.GELU()) for layer in own]
    xs = [torch.randn(5, 8, requires_grad=True) for _ in range(micro_batches)]
    chain = measure_chain(keep, xs[0])
    state, layer = chain.layers[0].state_bytes, chain.layers[0].interior_bytes
    ahead, under_way = min(micro_batches, stages - rank), []
    with Meter(own) as meter:
        for x in xs:
            under_way.append(recompute_chain(schedule, keep, x))
            if len(under_way) == ahead:
                under_way.pop(0).sum().backward()
        for y in under_way:
            y.sum().backward()
    law = stage_segment_bytes(layers, segment, state, state + layer, stages, micro_batches, rank)
    assert meter.peak_bytes == law


def test_the_published_stage_of_exercise_six():
    """80 layers in 4 stages: 6.4 GB with every layer's input, 4.9 GB with every second, not 91."""
    unit = 4096 * 8192
    held = [stage_segment_bytes(80, k, 2 * unit, 34 * unit, 4, 8, 0) / 1e9 for k in (1, 2)]
    assert held == pytest.approx([6.44, 4.90], abs=0.01)
    assert 4 * 20 * 34 * unit / 1e9 == pytest.approx(91, abs=0.5)


@pytest.mark.parametrize(
    ("hidden", "heads", "saved", "work"), [(12288, 96, 70, 0.90), (20480, 128, 65, 0.55)]
)
def test_selective_recomputation_of_the_published_models(hidden, heads, saved, work):
    """Bytes as published; the work of one forward core is a third of the often quoted 2.7 %."""
    assert round(100 * score_bytes_fraction(hidden, heads, 2048)) == saved
    assert round(100 * selective_work_fraction(hidden, 2048), 2) == work
    quoted = 2048 / (6 * hidden) / (1 + 2048 / (6 * hidden))
    assert quoted == pytest.approx(3 * selective_work_fraction(hidden, 2048))
    law = 2048 * hidden * 5 * heads * 2048 / hidden
    whole = layer_activation_bytes(seq=2048, micro_batch=1, hidden=hidden, heads=heads)
    assert score_bytes_fraction(hidden, heads, 2048) == pytest.approx(law / whole)


def test_the_work_shares_are_those_of_the_exact_list():
    spec = TransformerSpec("classical", 12, 768, 12, 50257, positions=1024, bias=False)
    step, again = (
        [spec.flops_per_token(1024, causal=False, recompute=way) for way in ("none", kind)]
        for kind in ("full", "selective")
    )
    assert full_work_fraction(12, 768, 1024, 50257) == pytest.approx(step[1] / step[0] - 1)
    head = 3 * 2 * 768 * 50257
    share = (again[1] - again[0]) / (again[0] - head)
    assert selective_work_fraction(768, 1024) == pytest.approx(share)
    assert (
        full_work_fraction(12, 768, 1024, 50257) < 1 / 3 == full_work_fraction(12.0, 768, 1024, 0)
    )
