"""How long a schedule takes, where it waits, and what it holds: the simulator.

A `PipelineTimeline` is a `Timeline` that knows the schedule which made it. Times are exact where
they are given as whole numbers or fractions.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from numbers import Rational
from typing import NamedTuple

from dtlib.parallelism.pipeline.check import check_progress, check_work
from dtlib.parallelism.pipeline.collector import collector_at_rest
from dtlib.parallelism.pipeline.play import Played, play
from dtlib.parallelism.pipeline.schedule import PipelineSchedule
from dtlib.timeline import WORK, Span, Timeline

SPAN_KINDS = {"F": "forward", "B": "backward", "W": "weight", "BW": "backward"}


class PipelineTimeline(Timeline):
    """When each action of a ``schedule`` ran, in a simulation or on real ranks."""

    def __init__(self, spans, schedule: PipelineSchedule, unit: str = "s"):
        super().__init__(spans, unit, _names(schedule), range(schedule.p))
        self.schedule = schedule

    @property
    def peak_activations(self) -> list:
        """For each rank the most micro-batches that it holds at once; see `PipelineSchedule`."""
        return self.schedule.peak_activations


class Unit(NamedTuple):
    """What a simulation counts in: 1/``scale``, where times are ``exact``, of the given unit."""

    scale: int
    exact: bool
    ints: bool

    def counted(self, time):
        """A given time as a whole number, unless it is a float."""
        return int(time * self.scale) if self.exact else time

    def given(self, count):
        """What was counted, in the unit and the type of the given times.

        Fractions give fractions. Whole numbers give whole numbers, or, where stages take a part of
        one, floats if these are exact for all times, else fractions.
        """
        if not self.exact or (self.ints and self.scale == 1):
            return count
        if self.ints and self.scale & (self.scale - 1) == 0:
            return count / self.scale if count % self.scale else count // self.scale
        return Fraction(count, self.scale)


class SimulatedTimeline(PipelineTimeline):
    """When each action of a ``schedule`` would run: measured by what was ``played`` alone.

    Its spans are made when somebody looks at them.
    """

    def __init__(self, schedule: PipelineSchedule, played: Played, unit: Unit):
        self.schedule, self.unit, self.names = schedule, "", _names(schedule) or {}
        self.ranks = list(range(schedule.p))
        self._played, self._counted_in = played, unit

    @cached_property
    def spans(self) -> list[Span]:
        """All actions of all ranks, in the order of the rows."""
        return [
            Span(rank, "compute", str(action), *time, SPAN_KINDS[action.kind])
            for rank, row in enumerate(self.schedule.rows)
            for step, time in zip(row, self._times(rank), strict=True)
            for action in step.actions
        ]

    @property
    def makespan(self):
        """Last stop minus first start, over all ranks."""
        starts, stops, _ = self._played
        first, last = min(row[0] for row in starts if row), max(row[-1] for row in stops if row)
        return self._counted_in.given(last) - self._counted_in.given(first)

    def _times(self, rank: int, *kinds: str) -> list[tuple]:
        return super()._times(rank, *kinds) if kinds not in ((), WORK) else self._of_steps[rank]

    @cached_property
    def _of_steps(self) -> list[list[tuple]]:
        """For each rank when its steps begin and end, in the unit of the given times."""
        starts, stops, _ = self._played
        given = {t: self._counted_in.given(t) for row in (*starts, *stops) for t in row}
        return [
            [(given[start], given[stop]) for start, stop in zip(*row, strict=True)]
            for row in zip(starts, stops, strict=True)
        ]


def simulate(schedule: PipelineSchedule, f=1, b=1, w=1, comm=0) -> PipelineTimeline:
    """The timeline of a schedule whose ranks each begin an action as soon as they can.

    Equation: start of an action = max(end of the one before in its row, end of what it needs, plus
    `comm` if that was on another rank); end = start + duration.
    Arguments: ``f``, ``b``, ``w``, times of the forward pass, the gradient of the input and that of
    the weights, of one micro-batch in a rank's whole share of the model, of which a stage takes
    1/v; or a list of one time for each stage, where stages are uneven. A backward pass that is not
    split takes b + w. ``comm``, time from the end of an action until another rank has the result.
    Returns a `PipelineTimeline`: `makespan`, `bubble_fraction`, `stage_bubble`,
    `peak_activations`, and the spans. Times are exact if those given are whole or fractions.
    Raises PipelineError for rows that are no pipeline, ValueError for a negative time or a list of
    another length. Source: the dependencies of Huang et al. 2019, of Qi et al. 2023 for W.

    >>> from dtlib.parallelism.pipeline import one_f_one_b, zero_bubble
    >>> timeline = simulate(one_f_one_b(4, 8))
    >>> timeline.makespan, timeline.stage_bubble, timeline.peak_activations
    (33, 9, [4, 3, 2, 1])
    >>> simulate(zero_bubble(4, 8, c=1)).makespan
    27
    """
    with collector_at_rest():
        return _simulated(schedule, f, b, w, comm)


def _simulated(schedule: PipelineSchedule, f, b, w, comm) -> PipelineTimeline:
    check_work(schedule)
    times = {kind: _per_stage(schedule, kind, t) for kind, t in zip("FBW", (f, b, w), strict=True)}
    if comm < 0:
        raise ValueError(f"comm must not be negative; got comm = {comm}")
    unit = _unit((comm, *times["F"], *times["B"], *times["W"]), (f, b, w, comm))
    times = {kind: [unit.counted(t) for t in row] for kind, row in times.items()}
    times["BW"] = [b + w for b, w in zip(times["B"], times["W"], strict=True)]
    durations = [
        schedule.by_step(rank, [times[kind][s] for kind, s, _ in schedule.actions(rank)])
        for rank in range(schedule.p)
    ]
    played = play(schedule, durations, unit.counted(comm))
    check_progress(schedule, played)
    return SimulatedTimeline(schedule, played, unit)


def _unit(of_stages: Sequence, given: Sequence) -> Unit:
    exact = all(isinstance(t, Rational) for t in of_stages)
    scale = math.lcm(*(t.denominator for t in of_stages)) if exact else 1
    ints = all(isinstance(t, int) for x in given for t in (x if _several(x) else (x,)))
    return Unit(scale, exact, ints)


def _names(schedule: PipelineSchedule) -> dict[str, str] | None:
    """What a legend calls the halves of a backward pass, where there are halves."""
    names = {"backward": "input gradient", "weight": "weight gradient"}
    return names if schedule.splits_backward else None


def _per_stage(schedule: PipelineSchedule, kind: str, time) -> list:
    """One time for each stage: the given ones, or a rank's time shared out to its v stages."""
    if _several(time):
        times = list(time)
        if len(times) != schedule.stages:
            raise ValueError(
                f"{kind.lower()} must be one time, or one for each of the {schedule.stages} stages "
                f"of {schedule.name}; got {len(times)} times"
            )
    elif isinstance(time, Rational):
        times = [Fraction(time) / Fraction(schedule.v)] * schedule.stages
    else:
        times = [time / schedule.v] * schedule.stages
    if min(times) < 0:
        raise ValueError(f"{kind.lower()} must not be negative; got {min(times)}")
    return times


def _several(time) -> bool:
    return isinstance(time, Sequence)
