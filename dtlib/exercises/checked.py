"""What the library's checkers say of a reader's schedule, as the verdict of an exercise."""

from collections.abc import Callable

from dtlib.collectives.check import ScheduleError
from dtlib.collectives.schedule import Schedule
from dtlib.exercises.verdict import NotYet


def must_pass(checker: Callable, schedule: Schedule, where: str) -> None:
    """Raise NotYet with what a checker says, in one line that begins with the place.

    >>> from dtlib.collectives import check_all_reduce, ring_reduce_scatter
    >>> must_pass(check_all_reduce, ring_reduce_scatter(2), "P = 2")
    Traceback (most recent call last):
    dtlib.exercises.verdict.NotYet: P = 2: ring reduce-scatter is no all-reduce: rank 0, ...
    """
    try:
        checker(schedule)
    except ScheduleError as error:
        headline, *problems = str(error).splitlines()
        first = f": {problems[0].strip()}" if problems else ""
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise NotYet(f"{where}: {headline}{first}{more}") from None
