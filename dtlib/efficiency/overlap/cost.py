"""What overlap can reach: lower bounds of a step, the best number of buckets, contention, pieces.

Buckets without contention are `bucketed_time` of chapter 2; look-ahead is `streamed_layer_time` of
chapter 22.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, minimum, sqrt


@formula(
    r"T_\text{floor}",
    "s",
    "the longest chain of what must wait for what",
    "one network, which takes nothing from the arithmetic; the order of the messages is free",
)
def overlapped_step_floor_time(forward, backward, comm, first_ready, last_time):
    """What no overlap of gradients gets below.

    The last message cannot start before the backward pass is over, and the network cannot start
    before the first gradient is there. The longer of the two.

    >>> overlapped_step_floor_time(40, 60, 50, first_ready=2, last_time=10)
    110
    >>> overlapped_step_floor_time(40, 60, 90, first_ready=2, last_time=10)
    132
    """
    return forward + maximum(backward + last_time, first_ready + comm)


@formula(r"h_\text{comm}", "", "counting", "time is counted on one rank")
def hidden_fraction(comm, exposed):
    """The share of the communication that ran under arithmetic.

    >>> hidden_fraction(comm=40, exposed=30)
    0.25
    """
    return 1 - exposed / comm


@formula(r"h_\text{could}", "", "counting", "time is counted on one rank")
def overlap_efficiency_fraction(computing, comm, exposed):
    """The share that ran under arithmetic, of what could have: the shorter of the two at most.

    >>> overlap_efficiency_fraction(computing=30, comm=40, exposed=30)
    0.3333333333333333
    """
    return (comm - exposed) / minimum(computing, comm)


@formula(
    r"k_\text{overlap}",
    "",
    "where the two branches of `bucketed_time` meet, or the second is least",
    "as for the bucketed time",
)
def overlapped_bucket_count(backward, comm, start_time):
    """The number of equal buckets with which a step is shortest, whichever of the two is slower.

    On a slow network waiting for the first bucket costs as much as all starts; on a fast one starts
    hide, until the network has no time to spare. Not rounded.

    >>> round(overlapped_bucket_count(backward=50, comm=80, start_time=0.1), 1)
    22.4
    >>> overlapped_bucket_count(backward=50, comm=16, start_time=0.1)
    340.0
    """
    return maximum(sqrt(backward / start_time), (backward - comm) / start_time)


@formula(
    r"T_\text{contended}",
    "s",
    "as `bucketed_time`, with the arithmetic slower while the network is busy",
    "k equal buckets, at equal distances of undisturbed arithmetic, reduced one after another",
)
def contended_bucketed_time(backward, comm, k, start_time, sm_share):
    """Backward pass and all-reduce in `k` buckets, when collectives hold a share of the processors.

    While a bucket travels, the arithmetic runs at 1 - `sm_share` of its speed. Where the network
    keeps up, all buckets but the last cost that share of their time. Where it does not, the slower
    arithmetic is still ahead of it, and contention costs nothing.

    >>> contended_bucketed_time(backward=8, comm=40, k=4, start_time=2, sm_share=0.25)
    50.0
    >>> contended_bucketed_time(backward=80, comm=40, k=10, start_time=1, sm_share=0.25)
    96.25
    """
    return maximum(
        backward + (1 + sm_share * (k - 1)) * (comm / k + start_time),
        backward / k + comm + k * start_time,
    )


@formula(
    r"k_\text{contended}",
    "",
    "the derivative of the contended time by the number of buckets",
    "the network keeps up, and its share of the processors is not 0",
)
def contended_bucket_count(comm, start_time, sm_share):
    """The number of buckets for which a smaller last one gains what the starts take.

    Each further start holds processors, too, so on a fast network there is a best number where
    without contention there was none. Not rounded.

    >>> round(contended_bucket_count(comm=16, start_time=0.1, sm_share=0.2), 1)
    25.3
    """
    return sqrt((1 - sm_share) * comm / (sm_share * start_time))


@formula(
    r"T_\text{matmul}",
    "s",
    "Wang et al. 2023",
    "a ring; a piece of the product takes its share of the time of the whole",
)
def collective_matmul_time(computing, n, P, alpha, beta):
    """A product whose operand comes from `P` ranks, each piece multiplied while the next arrives.

    One piece is there already; under each of P - 1 messages one is multiplied, and the last one
    after. `n` is the whole operand, `computing` the whole product on one rank.

    >>> collective_matmul_time(computing=8, n=7, P=8, alpha=0, beta=1)
    8.0
    >>> collective_matmul_time(computing=8, n=16, P=8, alpha=1, beta=4)
    11.5
    """
    return computing / P + (P - 1) * maximum(computing / P, alpha + n / P / beta)
