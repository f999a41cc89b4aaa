"""What a run costs: GPU-hours, money, deadlines and budgets, and the price of being interrupted.

Three groups. A run has a fixed amount of work, so its time and its bill depend on the number of
GPUs only through the efficiency. A job on many machines stops when one of them does; how often to
save follows from that. And a machine can be rented or owned.

Money is in US dollars, a price in dollars per second of one GPU: ``4 / hour`` is 4 dollars an hour.
"""

from dtlib.foundations.formula import formula
from dtlib.foundations.poly import sqrt


@formula(
    symbol=r"\tau_\text{Young}",
    unit="s",
    source="Young 1974",
    conditions="exponential times between failures; first order: the write time is far below the "
    "mean time between failures; the write blocks the job",
)
def young_interval(write_time, mtbf):
    """How much work to do between two checkpoints, to lose least to writing and to failures.

    Equation: where the time spent writing, delta/tau, equals the work lost, tau/(2 mu).
    Arguments: `write_time` seconds for which a checkpoint stops the job; `mtbf` seconds, mean time
    between failures of the whole job. Returns seconds. Raises nothing. Source: Young 1974.

    >>> young_interval(write_time=60, mtbf=5760) / 60
    13.85...
    """
    return sqrt(2 * write_time * mtbf)
