"""How long a schedule takes, where it waits, and what it holds: the simulator.

A `PipelineTimeline` is a `Timeline` that knows the schedule which made it. Times are exact where
they are given as whole numbers or fractions.
"""

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from numbers import Rational
from operator import methodcaller

from dtlib.parallelism.pipeline.check import check_progress, check_work
from dtlib.parallelism.pipeline.play import Played, play
from dtlib.parallelism.pipeline.schedule import PipelineSchedule
from dtlib.timeline import Span, Timeline

SPAN_KINDS = {"F": "forward", "B": "backward", "W": "weight", "BW": "backward"}


class PipelineTimeline(Timeline):
    """When each action of a ``schedule`` ran, in a simulation or on real ranks."""

    def __init__(self, spans, schedule: PipelineSchedule, unit: str = "s"):
        names = {"backward": "input gradient", "weight": "weight gradient"}
        names = names if schedule.splits_backward else None
        super().__init__(spans, unit, names, range(schedule.p))
        self.schedule = schedule

    @property
    def peak_activations(self) -> list:
        """For each rank the most micro-batches that it holds at once; see `PipelineSchedule`."""
        return self.schedule.peak_activations


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
    with _collector_at_rest():
        return _simulated(schedule, f, b, w, comm)


def _simulated(schedule: PipelineSchedule, f, b, w, comm) -> PipelineTimeline:
    check_work(schedule)
    times = {kind: _per_stage(schedule, kind, t) for kind, t in zip("FBW", (f, b, w), strict=True)}
    if comm < 0:
        raise ValueError(f"comm must not be negative; got comm = {comm}")
    given = (comm, *times["F"], *times["B"], *times["W"])
    exact = all(isinstance(t, Rational) for t in given)
    scale = math.lcm(*(t.denominator for t in given)) if exact else 1
    times = {kind: [_whole(t * scale, exact) for t in row] for kind, row in times.items()}
    times["BW"] = [b + w for b, w in zip(times["B"], times["W"], strict=True)]
    played = play(schedule, methodcaller("time", times), _whole(comm * scale, exact))
    check_progress(schedule, played)
    ints = all(isinstance(t, int) for x in (f, b, w, comm) for t in (x if _several(x) else (x,)))
    return PipelineTimeline(
        _spans(schedule, played, _in_given_unit(scale, exact, ints)), schedule, ""
    )


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """A simulation makes tuples of numbers, among which a search for cycles finds nothing."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


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


def _whole(time, exact: bool):
    return int(time) if exact else time


def _several(time) -> bool:
    return isinstance(time, Sequence)


def _in_given_unit(scale: int, exact: bool, ints: bool):
    """What a simulated time, a multiple of 1/scale, is in the unit and the type of the given ones.

    Fractions give fractions. Whole numbers give whole numbers, or, where stages take a part of
    one, floats if these are exact for all times, else fractions.
    """
    if not exact or (ints and scale == 1):
        return lambda time: time
    if ints and scale & (scale - 1) == 0:
        return lambda time: time / scale if time % scale else time // scale
    return lambda time: Fraction(time, scale)


def _spans(schedule: PipelineSchedule, played: Played, given) -> list[Span]:
    times = {t: given(t) for row in (*played.starts, *played.stops) for t in row}
    return [
        Span(rank, "compute", str(a), times[start], times[stop], SPAN_KINDS[a.kind])
        for rank, row in enumerate(schedule.rows)
        for step, start, stop in zip(row, played.starts[rank], played.stops[rank], strict=True)
        for a in step.actions
    ]
