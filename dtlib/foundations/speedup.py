"""What is won by adding ranks: the law of a step, speedup, efficiency, and what limits them.

A *strong* comparison keeps the whole problem and divides it; a *weak* one keeps each rank's share
and lets the problem grow. `compute` is the time that one rank alone would need for the work.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, minimum


@formula(
    r"S_\text{Amdahl}",
    "",
    "Amdahl 1967",
    "fixed problem; the rest divides evenly and nothing is added by dividing it",
)
def amdahl_speedup(serial, P):
    """How many times faster `P` ranks solve the same problem.

    Of one unit of time the share f stays, and the rest is divided by P. Below 1/f.

    >>> amdahl_speedup(serial=0.01, P=1024)
    91.18...
    """
    return 1 / (serial + (1 - serial) / P)


@formula(
    r"S_\text{Gustafson}",
    "",
    "Gustafson 1988",
    "fixed time; the part that divides grows with P, the serial part does not",
)
def gustafson_speedup(serial, P):
    """How many times as much `P` ranks do in the same time.

    In one unit of time the share f is the serial part, and all ranks fill the rest. `serial` is the
    share f of the *parallel* run's time.

    >>> gustafson_speedup(serial=0.01, P=1024)
    1013.77
    """
    return serial + (1 - serial) * P


@formula(r"E_\text{strong}", "", "Amdahl 1967", "the same problem on one rank and on P")
def strong_scaling_efficiency(compute, time, P):
    """The share of `P` ranks' time that the same problem on one rank would have needed.

    The time of one rank over the rank-seconds of P. 1 when the work divides perfectly.

    >>> strong_scaling_efficiency(compute=100, time=0.5, P=1000)
    0.2
    """
    return compute / (P * time)


@formula(r"E_\text{weak}", "", "Gustafson 1988", "the problem of P ranks is P times that of one")
def weak_scaling_efficiency(compute, time):
    """How well a step keeps its time while the problem grows with the ranks.

    The time of one rank with its share over the time of all with theirs. 1 when nobody notices the
    others. `compute` is one rank alone with its share.

    >>> weak_scaling_efficiency(compute=1.0, time=1.25)
    0.8
    """
    return compute / time


@formula(
    r"T_\text{fleet}",
    "s",
    "Amdahl 1967, with communication, waiting and overlap as terms of their own",
    "fixed problem; what is hidden obeys its own bound, `most_overlap_time`",
)
def fleet_step_time(compute, P, comm, sync, overlap):
    """One step of `P` ranks: what they compute, say and wait for, less what happens at once.

    The divided work, plus communication, plus waiting for the slowest, minus the overlap. See
    `check_overlap` for the overlap.

    >>> fleet_step_time(compute=100, P=100, comm=0.5, sync=0.25, overlap=0.25)
    1.5
    """
    return compute / P + comm + sync - overlap


@formula(
    r"T_\text{ov,max}",
    "s",
    "two things at once last as long as the shorter of them",
    "the processor computes and the network sends at full speed side by side",
)
def most_overlap_time(compute, P, comm, sync):
    """The most that a step can hide: no longer than either of the two that run at once.

    The smaller of communication with waiting, and computation.

    >>> most_overlap_time(compute=100, P=100, comm=2.0, sync=0)
    1.0
    """
    return minimum(comm + sync, compute / P)


@formula(r"T_\text{fleet,min}", "s", "the fleet law at its most overlap", "as for the most overlap")
def least_fleet_step_time(compute, P, comm, sync):
    """The step when everything is hidden that can be.

    The longer of the two that run side by side.

    >>> least_fleet_step_time(compute=100, P=100, comm=2.0, sync=0)
    2.0
    """
    return maximum(compute / P, comm + sync)


@formula(
    r"S_\text{sync}",
    "",
    "Amdahl 1967, with communication as what does not divide",
    (
        "two ranks or more; communication takes the same time for each such number, and "
        "nothing is hidden; one rank alone does not communicate"
    ),
)
def synchronous_speedup(comm_ratio, P):
    """How many times faster `P` ranks are that communicate after every step.

    T_1 over T_1/P + T_comm, with rho for T_comm over T_1. Below 1/rho.

    >>> synchronous_speedup(comm_ratio=0.25, P=4)
    2.0
    """
    return P / (1 + P * comm_ratio)


@formula(
    r"S_\text{charged}",
    "",
    "Amdahl 1967, with communication as what does not divide",
    "communication takes the same time for each number of ranks, one rank included",
)
def charged_speedup(comm_ratio, P):
    """How many times faster `P` ranks are, when the single rank is charged for talking, too.

    T_1 + T_comm over T_1/P + T_comm, with rho for T_comm over T_1. Below 1 + 1/rho.

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
