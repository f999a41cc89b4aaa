"""The judge of a reader's pipeline: legal, and of the right size."""

from collections.abc import Callable

from dtlib.exercises.judge import call
from dtlib.exercises.verdict import NotYet
from dtlib.parallelism.pipeline import PipelineError, PipelineSchedule, check_schedule


def built(
    builder: Callable, where: str, *args: int, ranks: int, batches: int, stages: int
) -> PipelineSchedule:
    """What the reader's builder gives for these arguments, if it is a legal pipeline of that size.

    Raises NotYet with what is wrong, in one line that begins with the place.

    >>> built(lambda: PipelineSchedule(["0F0"], m=1), "p = 1", ranks=1, batches=1, stages=1)
    Traceback (most recent call last):
    dtlib.exercises.verdict.NotYet: p = 1: ... does not do all the work once: nobody does 0B0
    """
    schedule = call(builder, *args)
    if not isinstance(schedule, PipelineSchedule):
        raise NotYet(f"{where}: return a PipelineSchedule, got {type(schedule).__name__}")
    size = {"ranks": schedule.p, "micro-batches": schedule.m, "stages": schedule.stages}
    wanted = {"ranks": ranks, "micro-batches": batches, "stages": stages}
    for name, count in size.items():
        if count != wanted[name]:
            raise NotYet(f"{where}: the schedule has {count} {name}, asked are {wanted[name]}")
    try:
        check_schedule(schedule)
    except PipelineError as error:
        headline = str(error).splitlines()[0]
        raise NotYet(f"{where}: {headline}: {error.problems[0]}"[:290]) from None
    return schedule
