"""What a run costs: GPU-hours, money, deadlines and budgets; renting, owning, and energy.

A run has a fixed amount of work. Its bill depends on the number of GPUs only through the share of
their peak that they reach; its time depends on both. What interruptions add is in
`dtlib.foundations.cost.preemption`, and `young_interval`, how often to save, is known here too.

Money is in US dollars and a price is dollars per second of one GPU: ``4 / hour`` is 4 dollars an
hour. A time of work, such as ``compute``, is what one GPU alone would need.
"""

from dtlib.formulas.formula import formula
from dtlib.foundations.cost.preemption import young_interval
from dtlib.models.work import training_flops

__all__ = [
    "break_even_time",
    "deadline_cost",
    "fewest_ranks",
    "gpu_time",
    "most_ranks",
    "ownership_price",
    "run_cost",
    "run_time",
    "token_cost",
    "training_cost",
    "training_energy",
    "young_interval",
]


@formula(
    r"T_\text{GPU}",
    "s",
    "the definition of the MFU, Chowdhery et al. 2023",
    "the MFU is that of the whole run, its interruptions included",
)
def gpu_time(flops, peak, mfu):
    """The GPU-hours of a run, all GPUs together: the number of GPUs does not occur.

    The work over the rate at which one GPU does useful arithmetic.

    >>> round(gpu_time(flops=6 * 70e9 * 2e12, peak=989e12, mfu=0.45) / 3600)
    524286
    """
    return flops / (peak * mfu)


@formula(
    r"C_\text{run}",
    "USD",
    "the price of one GPU's time, times the time",
    "every GPU is paid for as long as the run lasts, and for nothing else",
)
def training_cost(flops, peak, mfu, price):
    """What a run costs: it rises only as the efficiency falls.

    The price of the GPU-hours.

    >>> cost = training_cost(flops=6 * 70e9 * 2e12, peak=989e12, mfu=0.45, price=4 / 3600)
    >>> round(cost / 1e6, 2)
    2.1
    """
    return price * gpu_time(flops, peak, mfu)


@formula(
    r"C_\text{token}",
    "USD",
    "Kaplan et al. 2020 for the work of a token",
    "dense model, attention neglected",
)
def token_cost(params, peak, mfu, price):
    """What training on one token costs.

    The price of six FLOP per parameter.

    >>> round(1e9 * token_cost(params=7e9, peak=989e12, mfu=0.4, price=2 / 3600))
    59
    """
    return training_cost(training_flops(params, 1), peak, mfu, price)


@formula(
    r"T_P",
    "s",
    "Amdahl's law with communication for its serial part",
    "the work divides, the communication of a step does not shrink; no overlap",
)
def run_time(compute, P, comm_ratio):
    """How long a run takes on `P` ranks whose communication does not shrink.

    The work divides among the ranks, the communication does not.

    >>> run_time(compute=1000, P=10, comm_ratio=0.01)
    110.0
    """
    return compute / P + comm_ratio * compute


@formula(
    r"C_P",
    "USD",
    "ranks times time times price",
    "as for the time of the run; every rank is paid for while it communicates",
)
def run_cost(compute, P, comm_ratio, price):
    """What that run costs: a straight line in the number of ranks.

    Ranks times time times price.

    >>> run_cost(compute=1000, P=100, comm_ratio=0.01, price=1)
    2000.0
    """
    return price * compute * (1 + comm_ratio * P)


@formula(
    r"C_\text{deadline}",
    "USD",
    "the number of ranks eliminated from time and cost of the run",
    "the deadline is later than the communication alone lasts",
)
def deadline_cost(compute, comm_ratio, price, deadline):
    """The least cost of a run that is over by the deadline.

    The front of cost against time, a hyperbola: (T/T0 - 1)(C/C0 - 1) = 1, where T0 is the
    communication alone and C0 the price of the work alone.

    >>> deadline_cost(compute=1000, comm_ratio=0.01, price=1, deadline=20)
    2000.0
    """
    return price * compute * deadline / (deadline - comm_ratio * compute)


@formula(
    r"P_\text{fewest}",
    "",
    "the time of the run, solved for the ranks",
    "the deadline is later than the communication alone lasts; round up",
)
def fewest_ranks(compute, comm_ratio, deadline):
    """How many ranks meet a deadline.

    The work over the time that communication leaves. To be rounded up.

    >>> fewest_ranks(compute=1000, comm_ratio=0.01, deadline=110)
    10.0
    """
    return compute / (deadline - comm_ratio * compute)


@formula(
    r"P_\text{most}",
    "",
    "the cost of the run, solved for the ranks",
    "the budget pays for the work alone; round down",
)
def most_ranks(compute, comm_ratio, price, budget):
    """How many ranks a budget pays for.

    What is left beside the work alone goes into communication. To be rounded down.

    >>> most_ranks(compute=1000, comm_ratio=0.01, price=1, budget=2000)
    100.0
    """
    return (budget / (price * compute) - 1) / comm_ratio


@formula(
    r"c_\text{own}",
    "USD/s",
    "straight-line depreciation",
    "nothing is left at the end of the life; no interest; running costs while in use",
)
def ownership_price(purchase, lifetime, utilisation, running):
    """What an hour of use costs on a GPU of one's own.

    The purchase spread over the hours of use, and what running it costs.

    >>> hours = 4 * 8766
    >>> round(3600 * ownership_price(35064, hours * 3600, 0.5, running=0.5 / 3600), 2)
    2.5
    """
    return purchase / (lifetime * utilisation) + running


@formula(
    r"T_\text{even}",
    "s",
    "purchase over what an hour of use saves",
    "the rent stays what it is and is above the running cost; no interest, no resale",
)
def break_even_time(purchase, price, running, utilisation):
    """How long one must own a GPU until buying has been cheaper than renting.

    The purchase over what owning saves in a second.

    >>> break_even_time(55000, price=4 / 3600, running=0, utilisation=1) / 3600
    13750.0
    """
    return purchase / (utilisation * (price - running))


@formula(
    r"E_\text{run}",
    "J",
    "power times time",
    "GPUs draw their full power throughout; their servers' other parts are not counted",
)
def training_energy(flops, peak, mfu, power, pue):
    """The electric energy of a run.

    Power times GPU-hours, times what the building adds.

    >>> training_energy(flops=3.6e18, peak=1e15, mfu=0.5, power=700, pue=1) / 3.6e6
    1.4
    """
    return power * pue * gpu_time(flops, peak, mfu)
