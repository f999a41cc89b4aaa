"""Judges of schedules: for how many ranks they are, and what the library's checkers say of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dtlib import collectives
from dtlib.exercises.verdict import NotYet
from dtlib.parallelism.pipeline import PipelineError, PipelineSchedule, check_schedule

if TYPE_CHECKING:
    from dtlib.collectives import Schedule


def schedule_of(given: Any, P: int, where: str = "") -> Schedule:
    """``given`` if it is a schedule of ``P`` ranks, else `NotYet` that begins with the place.

    >>> from dtlib.collectives import ring_all_reduce
    >>> schedule_of(ring_all_reduce(2), 3, "P = 3")
    Traceback (most recent call last):
    dtlib.exercises.verdict.NotYet: P = 3: the schedule is for 2 ranks
    """
    place = f"{where}: " if where else ""
    if not isinstance(given, collectives.Schedule):
        raise NotYet(f"{place}return a Schedule, got {type(given).__name__}")
    if given.P != P:
        raise NotYet(f"{place}the schedule is for {given.P} ranks")
    return given


def must_pass(checker: Callable, schedule: Schedule, where: str = "") -> None:
    """Raise `NotYet` with what a checker says, in one line that begins with the place.

    >>> from dtlib.collectives import check_all_reduce, ring_reduce_scatter
    >>> must_pass(check_all_reduce, ring_reduce_scatter(2), "P = 2")
    Traceback (most recent call last):
    dtlib.exercises.verdict.NotYet: P = 2: ring reduce-scatter is no all-reduce: rank 0, ...
    """
    try:
        checker(schedule)
    except collectives.ScheduleError as error:
        headline, *problems = str(error).splitlines()
        first = f": {problems[0].strip()}" if problems else ""
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        place = f"{where}: " if where else ""
        raise NotYet(f"{place}{headline}{first}{more}") from None


def legal(schedule: Any, ranks: int, batches: int, stages: int) -> PipelineSchedule:
    """``schedule``, if it is a legal pipeline of that size, else `NotYet` with what is wrong.

    >>> legal(PipelineSchedule(["0F0"], m=1), ranks=1, batches=1, stages=1)
    Traceback (most recent call last):
    dtlib.exercises.verdict.NotYet: ... does not do all the work once: nobody does 0B0
    """
    if not isinstance(schedule, PipelineSchedule):
        raise NotYet(f"return a PipelineSchedule, got {type(schedule).__name__}")
    size = {"ranks": schedule.p, "micro-batches": schedule.m, "stages": schedule.stages}
    for (name, count), wanted in zip(size.items(), (ranks, batches, stages), strict=True):
        if count != wanted:
            raise NotYet(f"the schedule has {count} {name}, asked are {wanted}")
    try:
        check_schedule(schedule)
    except PipelineError as error:
        headline = str(error).splitlines()[0]
        raise NotYet(f"{headline}: {error.problems[0]}"[:240]) from None
    return schedule
