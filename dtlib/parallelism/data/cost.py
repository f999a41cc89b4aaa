"""What data parallelism costs: the step, what of its communication hides, and what the sum rounds.

The strategy itself is in `replica`; the time of a step in buckets is `bucketed_time` of chapter 2.
"""

from dtlib.collectives.cost.ring_and_tree import ring_all_reduce_time
from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, minimum, sqrt


@formula(
    r"T_\text{share}", "s", "Amdahl 1967", "the work divides evenly and nothing is communicated"
)
def evenly_divided_time(compute, P):
    """The time of a step if its work were all there is to it.

    The work of one rank, divided by the ranks.

    >>> evenly_divided_time(compute=100, P=1000)
    0.1
    """
    return compute / P


@formula(
    r"T_\text{step}",
    "s",
    "Amdahl 1967, with the ring's communication as what does not divide",
    "equal shares of a fixed batch, communication after computation, ring all-reduce",
)
def data_parallel_step_time(compute, n, P, alpha, beta):
    """One step of a fixed batch on `P` ranks, when nothing of the communication is hidden.

    The computation divided by the ranks, plus one ring all-reduce of the gradient.

    >>> data_parallel_step_time(compute=100, n=10e9, P=1, alpha=1e-5, beta=50e9)
    100.0
    >>> round(data_parallel_step_time(compute=100, n=10e9, P=1024, alpha=1e-5, beta=50e9), 3)
    0.518
    """
    return evenly_divided_time(compute, P) + ring_all_reduce_time(n, P, alpha, beta)


@formula(r"P_\text{fastest}", "", "the derivative of the step time", "as for the step time")
def data_parallel_fastest_ranks(compute, n, alpha, beta):
    """The number of ranks beyond which every further rank makes the step slower.

    Where the time saved by dividing the work further equals the two messages added; one rank when
    the work is too small for even a second one to pay. Not rounded.

    >>> round(data_parallel_fastest_ranks(compute=100, n=10e9, alpha=1e-5, beta=50e9))
    2232
    """
    return sqrt(maximum(1, (compute - 2 * n / beta) / (2 * alpha)))


@formula(
    r"k_\text{buckets}",
    "",
    "the derivative of `bucketed_time` by the number of buckets",
    "as for the bucketed time, where the network is the slower of the two",
)
def best_bucket_count(backward, start_time):
    """The number of buckets for which waiting for the first one costs as much as all the starts.

    `backward` / k is what the network waits for the first bucket, k times `start_time` what the
    starts take; their sum is least where they are equal. Not rounded.

    >>> round(best_bucket_count(backward=0.080, start_time=50e-6))
    40
    """
    return sqrt(backward / start_time)


@formula(
    r"P_\text{dense}",
    "",
    "bytes of an all-reduce over bytes of an all-gather",
    "bytes only; every rank keeps other places of its gradient, so nothing can be added",
)
def sparse_crossover_ranks(kept):
    """The number of ranks from which an all-gather of sparse gradients sends more than all of them.

    An all-reduce sends 2 (P-1)/P of the gradient, the all-gather `kept` of it to each of P - 1
    others; P - 1 cancels. Not rounded.

    >>> round(sparse_crossover_ranks(kept=0.01 * (2 + 4) / 2), 1)
    66.7
    """
    return 2 / kept


@formula(
    r"E_\text{sum}",
    "",
    "Higham 1993",
    "(P - 1) times the roundoff is below 1; any order; no overflow",
)
def summation_error_bound(roundoff, P, absolute_sum):
    """How far the sum of `P` floating-point numbers can be from the exact one, in any order.

    Each number goes through at most P - 1 additions, each of which changes it by at most a factor 1
    + u, so that together they change it by at most (P-1)u / (1 - (P-1)u) of its size. In the unit
    of the numbers.

    >>> summation_error_bound(roundoff=2**-8, P=8, absolute_sum=100)
    2.81...
    """
    return (P - 1) * roundoff / (1 - (P - 1) * roundoff) * absolute_sum


@formula(r"P_\text{replicas}", "", "counting", "every rank works, and the groups divide the ranks")
def replica_count(P, tp, p):
    """How many replicas of the model share the batch.

    All ranks, over those of one replica.

    >>> replica_count(P=128, tp=4, p=2)
    16.0
    """
    return P / (tp * p)


@formula(r"m_\text{step}", "", "counting", "the batch divides evenly")
def micro_batch_count(batch_tokens, dp, micro_batch, seq):
    """How many micro-batches each replica works through in one step.

    The tokens of a step, over those of one micro-batch of every replica.

    >>> micro_batch_count(batch_tokens=2**22, dp=16, micro_batch=2, seq=4096)
    32.0
    """
    return batch_tokens / (dp * micro_batch * seq)


@formula(
    r"\beta_\text{ports}",
    "B/s",
    "counting",
    (
        "replicas lie across nodes, tensor parallelism inside; every group rings through "
        "all ports of its members in a node"
    ),
)
def replica_bandwidth(nics, beta, beta_in, tp):
    """The bandwidth that a ring of replicas has for each of its ranks.

    A node's ports, shared by the rings that leave it, of which tensor parallelism makes one for
    each of its ranks; at most the bandwidth inside.

    >>> [replica_bandwidth(nics=8, beta=50e9, beta_in=450e9, tp=tp) / 1e9 for tp in (1, 4, 8)]
    [400.0, 100.0, 50.0]
    """
    return minimum(beta_in, nics * beta / tp)


@formula(
    r"T_\text{last backward}",
    "s",
    "Li et al. 2020",
    "gradients are added up locally and exchanged with the last micro-batch",
)
def last_backward_time(computing, m):
    """The arithmetic under which an exchange of gradients can hide.

    Two thirds of a micro-batch's work are its backward pass; only in the last one are the gradients
    final.

    >>> last_backward_time(computing=12.0, m=4)
    2.0
    """
    return 2 / 3 * computing / m


@formula(r"T_\text{exposed}", "s", "arithmetic", "what is hidden costs the arithmetic nothing")
def exposed_time(comm, hiding, overlap_fraction):
    """The part of a communication that no arithmetic hides.

    At most as much hides as there is arithmetic to hide under, and of that a share.

    >>> exposed_time(comm=3.0, hiding=2.0, overlap_fraction=0.5)
    2.0
    """
    return maximum(0, comm - overlap_fraction * minimum(comm, hiding))
