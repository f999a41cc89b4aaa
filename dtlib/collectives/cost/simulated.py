"""What any schedule costs on any topology: the time of its rounds, one after another."""

from dtlib.collectives.schedule import Run, Schedule


def schedule_time(schedule: Schedule, n, topology):
    """Seconds that a schedule takes on a topology, round after round.

    Equation: the sum over the rounds of ``topology.round_time``; rounds with equal traffic are
    timed once. Arguments: ``n``, bytes of one rank's message (a number or an array of them);
    ``topology``, a `Switch`, a `SharedHost` or your own. Fractions give an exact result.
    Returns seconds. Raises ValueError when the topology has another number of ranks.

    >>> from dtlib.collectives import Switch, ring_all_reduce
    >>> switch = Switch(P=8, alpha=5e-6, beta=50e9)
    >>> round(schedule_time(ring_all_reduce(8), n=10**9, topology=switch), 6)
    0.03507
    """
    return sum(len(run) * seconds for run, seconds in _run_times(schedule, n, topology))


def round_times(schedule: Schedule, n, topology) -> list:
    """Seconds that each round takes, in order; arguments and errors as for `schedule_time`."""
    times = _run_times(schedule, n, topology)
    return [seconds for run, seconds in times for _ in range(len(run))]


def _run_times(schedule: Schedule, n, topology) -> list[tuple[Run, float]]:
    """The runs of a schedule, each with the seconds that one of its rounds takes."""
    if topology.P != schedule.P:
        raise ValueError(
            f"{schedule.name} has P = {schedule.P} ranks, the topology has P = {topology.P}"
        )
    seconds, times = {}, []
    for run in schedule.rounds.runs:
        traffic = run[0].traffic
        if traffic not in seconds:
            seconds[traffic] = topology.round_time(run[0], n / schedule.parts)
        times.append((run, seconds[traffic]))
    return times
