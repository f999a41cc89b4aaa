"""Data parallelism: each rank computes on its share of the batch; then all add their gradients."""

from dtlib.collectives.cost import ring_all_reduce_time
from dtlib.foundations.formula import formula
from dtlib.foundations.poly import maximum, sqrt


@formula(
    symbol=r"T_\text{share}",
    unit="s",
    source="Amdahl 1967",
    conditions="the work divides evenly and nothing is communicated",
)
def evenly_divided_time(compute, P):
    """The time of a step if its work were all there is to it.

    Equation: the work of one rank, divided by the ranks.
    Arguments: `compute` seconds on one rank, `P` ranks. Returns seconds.
    Raises ZeroDivisionError for `P` of 0. Source: Amdahl 1967.

    >>> evenly_divided_time(compute=100, P=1000)
    0.1
    """
    return compute / P


@formula(
    symbol=r"T_\text{step}",
    unit="s",
    source="Amdahl 1967, with the ring's communication as what does not divide",
    conditions="equal shares of a fixed batch, communication after computation, ring all-reduce",
)
def data_parallel_step_time(compute, n, P, alpha, beta):
    """One step of a fixed batch on `P` ranks, when nothing of the communication is hidden.

    Equation: the computation divided by the ranks, plus one ring all-reduce of the gradient.
    Arguments: `compute` seconds on one rank, `n` bytes of gradient, `P` ranks, `alpha` seconds,
    `beta` bytes/s. Returns seconds. Raises ZeroDivisionError for `P` or `beta` of 0.
    Source: Amdahl 1967 for the argument.

    >>> data_parallel_step_time(compute=100, n=10e9, P=1, alpha=1e-5, beta=50e9)
    100.0
    >>> round(data_parallel_step_time(compute=100, n=10e9, P=1024, alpha=1e-5, beta=50e9), 3)
    0.518
    """
    return evenly_divided_time(compute, P) + ring_all_reduce_time(n, P, alpha, beta)


@formula(
    symbol=r"P_\text{fastest}",
    unit="",
    source="the derivative of the step time",
    conditions="as for the step time",
)
def data_parallel_fastest_ranks(compute, n, alpha, beta):
    """The number of ranks beyond which every further rank makes the step slower.

    Equation: where the time saved by dividing the work further equals the two messages added; one
    rank when the work is too small for even a second one to pay.
    Arguments: `compute` seconds on one rank, `n` bytes, `alpha` seconds, `beta` bytes/s.
    Returns a count, not rounded. Raises ZeroDivisionError for `alpha` or `beta` of 0.
    Source: set the derivative of `data_parallel_step_time` by `P` to zero.

    >>> round(data_parallel_fastest_ranks(compute=100, n=10e9, alpha=1e-5, beta=50e9))
    2232
    """
    return sqrt(maximum(1, (compute - 2 * n / beta) / (2 * alpha)))
