"""What is drawn of a schedule is what the simulator counts, layer by layer."""

import pytest

from dtlib.memory import Chain, RecomputeError, keep_all, revolve, simulate_recompute, uniform
from dtlib.memory.recompute.drawing import draw_recompute, kept_spans, steps
from dtlib.memory.recompute.schedule import RecomputeSchedule

SCHEDULES = [keep_all(6), uniform(9, 3), uniform(8, 3), uniform(5, 1, keep_last=False)]
SCHEDULES += [revolve(12, 1), revolve(12, 3), revolve(32, 5)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.name)
def test_the_drawn_layers_hold_and_repeat_what_the_simulator_says(schedule):
    chain = Chain.equal(schedule.layers, state_bytes=2, interior_bytes=32)
    cost = simulate_recompute(schedule, chain)
    played = list(steps(schedule))
    assert max(chain.held(step.kept, step.taped) for step in played) == cost.peak_bytes
    for layer in range(schedule.layers):
        forward = [step for step in played if step.kind in "AT" and step.begin == layer]
        assert len(forward) == cost.forwards[layer]
    assert [step.end for step in played if step.kind == "B"] == [*range(schedule.layers)][::-1]
    assert played[-1].stop == sum(cost.forwards) + 2 * schedule.layers


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.name)
def test_the_bars_are_the_slots_that_are_in_use(schedule):
    spans = kept_spans(schedule)
    for step in steps(schedule):
        middle = (step.start + step.stop) / 2
        assert {state for state, a, b in spans if a < middle < b} == step.kept


def test_it_draws_with_and_without_bytes_and_refuses_what_cannot_run():
    assert len(draw_recompute(uniform(4, 2)).axes) == 1
    assert len(draw_recompute(uniform(4, 2), Chain.equal(4)).axes) == 2
    with pytest.raises(RecomputeError, match="state 0 is not kept"):
        draw_recompute(RecomputeSchedule("no slot", 2, "A0:1 T1:2 B1:2 R0 T0:1 B0:1"))
