"""A drawing shows every message, and a timeline takes the simulated time."""

from itertools import pairwise

import pytest
from every_algorithm import CHECKS, name

from dtlib import collectives as c
from dtlib.collectives import Schedule, SharedHost, Switch
from dtlib.collectives.drawing import draw, timeline

each_builder = pytest.mark.parametrize("build", CHECKS, ids=name)


def arrows(figure) -> int:
    return sum(text.arrow_patch is not None for ax in figure.axes for text in annotations(ax))


def annotations(ax):
    return [text for text in ax.texts if hasattr(text, "arrow_patch")]


@each_builder
def test_every_message_is_an_arrow(build):
    assert arrows(draw(build(4))) == build(4).messages()


def test_long_schedules_continue_below_and_keep_their_round_numbers():
    upper, lower = draw(c.ring_all_reduce(8)).axes
    assert lower.get_xticklabels()[0].get_text() == "round 7"
    assert upper.get_ylim()[0] > upper.get_ylim()[1]


def test_labels_stand_at_the_sender_and_tell_adding_from_keeping():
    (axes,) = draw(c.halving_doubling_all_reduce(4)).axes
    labels = {t.get_text() for t in axes.texts if t.get_text()}
    assert labels == {"+2–3", "+0–1", "+0", "+1", "+2", "+3", "0", "1", "2", "3", "0–1", "2–3"}


def test_a_schedule_without_messages_is_drawn_as_well():
    assert arrows(draw(Schedule(2, 1, []))) == 0


@each_builder
@pytest.mark.parametrize("machine", [Switch(8, 5e-6, 50e9), SharedHost(8, 1e-4, 2e9, 2)])
def test_a_timeline_takes_as_long_as_the_simulation_says(build, machine):
    steps = timeline(build(8), 10**6, machine)
    expected = c.schedule_time(build(8), 10**6, machine)
    assert steps.makespan == pytest.approx(expected, rel=1e-12)
    assert len(steps.spans) == 2 * build(8).messages()


@each_builder
def test_a_port_has_one_message_at_a_time(build):
    steps = timeline(build(8), 10**6, Switch(8, 5e-6, 50e9))
    for rank in steps.ranks:
        for lane in ("out", "in"):
            spans = [span for span in steps.of(rank) if span.lane == lane]
            for before, after in pairwise(spans):
                assert after.start >= before.stop * (1 - 1e-12)
