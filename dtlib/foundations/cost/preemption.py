"""The price of being interrupted: failures, preemptions, checkpoints.

A job on many machines stops when any one of them does. Times between failures are exponential:
a machine that has run for an hour is as good as new. Work since the last checkpoint is lost.
"""

import math

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import exp, sqrt


@formula(
    r"\mu_P",
    "s",
    "the minimum of independent exponentials",
    "machines fail independently, at the same constant rate; the job needs all of them",
)
def gang_mtbf(mtbf, P):
    """The mean time between failures of a job that needs `P` machines at once.

    Rates add, so times divide.

    >>> gang_mtbf(mtbf=20 * 3600, P=64)
    1125.0
    """
    return mtbf / P


@formula(
    r"T_\text{retry}",
    "s",
    "Daly 2006, with an undisturbed restart",
    (
        "exponential times between failures; after each the work starts again from its "
        "beginning, after a restart that is not itself interrupted"
    ),
)
def retried_time(piece, restart_time, mtbf):
    """The expected time of work that must be done in one piece, without a failure.

    exp(U/mu) - 1 failures on average, each of which costs mu + R. Raises OverflowError when the
    work is over 700 times the mean time between failures.

    >>> retried_time(piece=3600, restart_time=0, mtbf=3600) / 3600
    1.718...
    """
    return (exp(piece / mtbf) - 1) * (mtbf + restart_time)


@formula(
    r"\kappa",
    "",
    "Daly 2006, with an undisturbed restart",
    (
        "exponential times between failures; the last checkpoint is always readable; a "
        "restart is not itself interrupted; everything is paid for at all times"
    ),
)
def failure_multiplier(interval, write_time, restart_time, mtbf):
    """How many times longer a job lasts, and costs, than its work alone.

    A segment of work and its checkpoint, in one piece, over the work. Raises OverflowError when an
    interval is over 700 times the mean time between failures.

    >>> round(failure_multiplier(interval=831, write_time=60, restart_time=0, mtbf=5760), 4)
    1.1596
    """
    return retried_time(interval + write_time, restart_time, mtbf) / interval


@formula(
    r"\varepsilon",
    "",
    "Young 1974",
    (
        "to first order: interval, write time and restart time far below the mean time "
        "between failures"
    ),
)
def failure_overhead(interval, write_time, restart_time, mtbf):
    """The multiplier less one, to first order.

    The time spent writing; half an interval of lost work and a restart, per failure.

    >>> round(failure_overhead(interval=240, write_time=20, restart_time=0, mtbf=26280), 4)
    0.0879
    """
    return write_time / interval + (interval / 2 + restart_time) / mtbf


@formula(
    r"\tau_\text{Young}",
    "s",
    "Young 1974",
    (
        "exponential times between failures; first order: the write time is far below the "
        "mean time between failures; the write blocks the job"
    ),
)
def young_interval(write_time, mtbf):
    """How much work to do between two checkpoints, to lose least to writing and to failures.

    Where the time spent writing, delta/tau, equals the work lost, tau/(2 mu).

    >>> young_interval(write_time=60, mtbf=5760) / 60
    13.85...
    """
    return sqrt(2 * write_time * mtbf)


@formula(
    r"\kappa_\text{Young}",
    "",
    "Daly 2006, with an undisturbed restart; the interval of Young 1974",
    "as for the multiplier; the job saves at Young's interval",
)
def young_multiplier(write_time, restart_time, mtbf):
    """How many times longer a job lasts, and costs, that saves at Young's interval.

    The multiplier of that interval. Raises OverflowError when writing takes over 600 times the mean
    time between failures.

    >>> round(young_multiplier(write_time=120, restart_time=600, mtbf=1125), 2)
    2.54
    """
    return failure_multiplier(young_interval(write_time, mtbf), write_time, restart_time, mtbf)


def optimal_interval(write_time: float, mtbf: float) -> float:
    """The interval for which `failure_multiplier` is least, exactly.

    Equation: (1 - x) exp(x) = exp(-delta/mu), for x = tau/mu; it has one root between 0 and 1, so
    one never works longer than a mean time between failures. The restart time plays no part.
    Arguments: `write_time` and `mtbf` seconds, of the whole job. Returns seconds.
    Raises ValueError for times that are not positive. Source: Daly 2006.

    >>> round(optimal_interval(write_time=60, mtbf=5760), 1)
    791.9
    """
    for name, value in (("write_time", write_time), ("mtbf", mtbf)):
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} is {value!r}, but must be a positive number of seconds")
    target = -write_time / mtbf
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        # log1p(-x) + x is the logarithm of the left side, and falls
        low, high = (middle, high) if math.log1p(-middle) + middle > target else (low, middle)
    return low * mtbf
