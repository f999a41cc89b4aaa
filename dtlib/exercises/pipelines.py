"""The judge of a reader's pipeline: legal, and of the right size."""

from collections.abc import Callable
from typing import Any

from dtlib.exercises.judge import call
from dtlib.exercises.verdict import NotYet
from dtlib.parallelism.pipeline import PipelineError, PipelineSchedule, check_schedule


def built(
    builder: Callable, where: str, *args: int, ranks: int, batches: int, stages: int
) -> PipelineSchedule:
    """What the reader's builder gives for these arguments, if it is `legal`.

    Raises NotYet with what is wrong, in one line that begins with the place.
    """
    schedule = call(builder, *args)
    try:
        return legal(schedule, ranks, batches, stages)
    except NotYet as wrong:
        raise NotYet(f"{where}: {wrong.reason}") from None


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
