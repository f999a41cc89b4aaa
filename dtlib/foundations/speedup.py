"""What is won by adding ranks: the law of a step, speedup, efficiency, and what limits them.

A *strong* comparison keeps the whole problem and divides it; a *weak* one keeps each rank's share
and lets the problem grow. `compute` is the time that one rank alone would need for the work.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, minimum


@formula(
    symbol=r"S_\text{Amdahl}",
    unit="",
    source="Amdahl 1967",
    conditions="fixed problem; the rest divides evenly and nothing is added by dividing it",
)
def amdahl_speedup(serial, P):
    """How many times faster `P` ranks solve the same problem.

    Equation: of one unit of time the share f stays, and the rest is divided by P.
    Arguments: `serial`, the share f from 0 to 1; `P` ranks. Returns a ratio, below 1/f.
    Raises ZeroDivisionError for `P` of 0. Source: Amdahl 1967.

    >>> amdahl_speedup(serial=0.01, P=1024)
    91.18...
    """
    return 1 / (serial + (1 - serial) / P)


@formula(
    symbol=r"S_\text{Gustafson}",
    unit="",
    source="Gustafson 1988",
    conditions="fixed time; the part that divides grows with P, the serial part does not",
)
def gustafson_speedup(serial, P):
    """How many times as much `P` ranks do in the same time.

    Equation: in one unit of time the share f is the serial part, and all ranks fill the rest.
    Arguments: `serial`, the share f of the *parallel* run's time; `P` ranks. Returns a ratio.
    Raises nothing. Source: Gustafson 1988.

    >>> gustafson_speedup(serial=0.01, P=1024)
    1013.77
    """
    return serial + (1 - serial) * P


@formula(
    symbol=r"E_\text{strong}",
    unit="",
    source="Amdahl 1967",
    conditions="the same problem on one rank and on P",
)
def strong_scaling_efficiency(compute, time, P):
    """The share of `P` ranks' time that the same problem on one rank would have needed.

    Equation: the time of one rank over the rank-seconds of P. Arguments: `compute` seconds on one
    rank, `time` seconds on `P`. Returns a ratio, 1 when the work divides perfectly.
    Raises ZeroDivisionError for a time of 0. Source: Amdahl 1967.

    >>> strong_scaling_efficiency(compute=100, time=0.5, P=1000)
    0.2
    """
    return compute / (P * time)


@formula(
    symbol=r"E_\text{weak}",
    unit="",
    source="Gustafson 1988",
    conditions="the problem of P ranks is P times that of one",
)
def weak_scaling_efficiency(compute, time):
    """How well a step keeps its time while the problem grows with the ranks.

    Equation: the time of one rank with its share over the time of all with theirs.
    Arguments: `compute` seconds of one rank alone with its share, `time` seconds of a step of all.
    Returns a ratio, 1 when nobody notices the others. Raises ZeroDivisionError for a time of 0.
    Source: Gustafson 1988.

    >>> weak_scaling_efficiency(compute=1.0, time=1.25)
    0.8
    """
    return compute / time


@formula(
    symbol=r"T_\text{fleet}",
    unit="s",
    source="Amdahl 1967, with communication, waiting and overlap as terms of their own",
    conditions="fixed problem; what is hidden obeys its own bound, `most_overlap_time`",
)
def fleet_step_time(compute, P, comm, sync, overlap):
    """One step of `P` ranks: what they compute, say and wait for, less what happens at once.

    Equation: the divided work, plus communication, plus waiting for the slowest, minus the overlap.
    Arguments: `compute` seconds on one rank, `P` ranks, `comm`, `sync` and `overlap` seconds.
    Returns seconds. Raises ZeroDivisionError for `P` of 0; see `check_overlap` for the rest.
    Source: Amdahl 1967.

    >>> fleet_step_time(compute=100, P=100, comm=0.5, sync=0.25, overlap=0.25)
    1.5
    """
    return compute / P + comm + sync - overlap


@formula(
    symbol=r"T_\text{ov,max}",
    unit="s",
    source="two things at once last as long as the shorter of them",
    conditions="the processor computes and the network sends at full speed side by side",
)
def most_overlap_time(compute, P, comm, sync):
    """The most that a step can hide: no longer than either of the two that run at once.

    Equation: the smaller of communication with waiting, and computation.
    Arguments: `compute` seconds on one rank, `P` ranks, `comm` and `sync` seconds.
    Returns seconds. Raises ZeroDivisionError for `P` of 0. Source: the definition of overlap.

    >>> most_overlap_time(compute=100, P=100, comm=2.0, sync=0)
    1.0
    """
    return minimum(comm + sync, compute / P)


@formula(
    symbol=r"T_\text{fleet,min}",
    unit="s",
    source="the fleet law at its most overlap",
    conditions="as for the most overlap",
)
def least_fleet_step_time(compute, P, comm, sync):
    """The step when everything is hidden that can be.

    Equation: the longer of the two that run side by side.
    Arguments: `compute` seconds on one rank, `P` ranks, `comm` and `sync` seconds.
    Returns seconds. Raises ZeroDivisionError for `P` of 0. Source: the fleet law.

    >>> least_fleet_step_time(compute=100, P=100, comm=2.0, sync=0)
    2.0
    """
    return maximum(compute / P, comm + sync)


@formula(
    symbol=r"S_\text{sync}",
    unit="",
    source="Amdahl 1967, with communication as what does not divide",
    conditions="two ranks or more; communication takes the same time for each such number, and "
    "nothing is hidden; one rank alone does not communicate",
)
def synchronous_speedup(comm_ratio, P):
    """How many times faster `P` ranks are that communicate after every step.

    Equation: T_1 over T_1/P + T_comm, with rho for T_comm over T_1.
    Arguments: `comm_ratio`, rho; `P` ranks, at least two. Returns a ratio, below 1/rho.
    Raises nothing. Source: Amdahl 1967.

    >>> synchronous_speedup(comm_ratio=0.25, P=4)
    2.0
    """
    return P / (1 + P * comm_ratio)


@formula(
    symbol=r"S_\text{charged}",
    unit="",
    source="Amdahl 1967, with communication as what does not divide",
    conditions="communication takes the same time for each number of ranks, one rank included",
)
def charged_speedup(comm_ratio, P):
    """How many times faster `P` ranks are, when the single rank is charged for talking, too.

    Equation: T_1 + T_comm over T_1/P + T_comm, with rho for T_comm over T_1.
    Arguments: `comm_ratio`, rho; `P` ranks. Returns a ratio, below 1 + 1/rho.
    Raises nothing. Source: Amdahl 1967.

    >>> charged_speedup(comm_ratio=1, P=2)
    1.333...
    """
    return P * (1 + comm_ratio) / (1 + P * comm_ratio)


def check_overlap(compute, P, comm, sync, overlap) -> float:
    """The step's time, if that much can be hidden.

    Arguments as for `fleet_step_time`. Returns seconds. Raises ValueError, with what the step would
    have to do in no time, when `overlap` is negative or more than `most_overlap_time`.

    >>> check_overlap(compute=4, P=4, comm=2, sync=0, overlap=2)
    Traceback (most recent call last):
    ...
    ValueError: overlap 2 s, at most 1 s: the step would end before its communication
    """
    most = most_overlap_time(compute, P, comm, sync)
    if overlap < 0:
        raise ValueError(f"overlap {overlap:g} s: must not be negative")
    if overlap > most:
        late = "communication" if comm + sync > compute / P else "computation"
        raise ValueError(
            f"overlap {overlap:g} s, at most {most:g} s: the step would end before its {late}"
        )
    return fleet_step_time(compute, P, comm, sync, overlap)
