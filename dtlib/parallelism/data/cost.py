"""What data parallelism costs: the step, what of its communication hides, and what the sum rounds.

The strategy itself is in `replica`; the time of a step in buckets is `bucketed_time` of chapter 2.
"""

from dtlib.collectives.cost.ring_and_tree import ring_all_reduce_time
from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, minimum, sqrt


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


@formula(
    symbol=r"k_\text{buckets}",
    unit="",
    source="the derivative of `bucketed_time` by the number of buckets",
    conditions="as for the bucketed time, where the network is the slower of the two",
)
def best_bucket_count(backward, start_time):
    """The number of buckets for which waiting for the first one costs as much as all the starts.

    Equation: `backward` / k is what the network waits for the first bucket, k times `start_time`
    what the starts take; their sum is least where they are equal.
    Arguments: `backward` and `start_time` seconds. Returns a count, not rounded.
    Raises ZeroDivisionError for a start that costs nothing. Source: set the derivative to zero.

    >>> round(best_bucket_count(backward=0.080, start_time=50e-6))
    40
    """
    return sqrt(backward / start_time)


@formula(
    symbol=r"P_\text{dense}",
    unit="",
    source="bytes of an all-reduce over bytes of an all-gather",
    conditions="bytes only; every rank keeps other places of its gradient, so nothing can be added",
)
def sparse_crossover_ranks(kept):
    """The number of ranks from which an all-gather of sparse gradients sends more than all of them.

    Equation: an all-reduce sends 2 (P-1)/P of the gradient, the all-gather `kept` of it to each of
    P - 1 others; P - 1 cancels.
    Arguments: `kept`, the bytes that one rank keeps (values and their places) over the bytes of its
    gradient. Returns a count, not rounded. Raises ZeroDivisionError when nothing is kept.
    Source: count.

    >>> round(sparse_crossover_ranks(kept=0.01 * (2 + 4) / 2), 1)
    66.7
    """
    return 2 / kept


@formula(
    symbol=r"E_\text{sum}",
    unit="",
    source="Higham 1993",
    conditions="(P - 1) times the roundoff is below 1; any order; no overflow",
)
def summation_error_bound(roundoff, P, absolute_sum):
    """How far the sum of `P` floating-point numbers can be from the exact one, in any order.

    Equation: each number goes through at most P - 1 additions, each of which changes it by at most
    a factor 1 + u, so that together they change it by at most (P-1)u / (1 - (P-1)u) of its size.
    Arguments: `roundoff`, the unit roundoff u of the format; `P` numbers; `absolute_sum`, the sum
    of their absolute values. Returns the same unit as the numbers.
    Raises ZeroDivisionError where the bound ceases to exist. Source: Higham 1993.

    >>> summation_error_bound(roundoff=2**-8, P=8, absolute_sum=100)
    2.81...
    """
    return (P - 1) * roundoff / (1 - (P - 1) * roundoff) * absolute_sum


@formula(
    symbol=r"P_\text{replicas}",
    unit="",
    source="counting",
    conditions="every rank works, and the groups divide the ranks",
)
def replica_count(P, tp, p):
    """How many replicas of the model share the batch.

    Equation: all ranks, over those of one replica. Arguments: `P` ranks, `tp` that share a layer,
    `p` stages. Returns a count. Raises ZeroDivisionError for 0. Source: counting.

    >>> replica_count(P=128, tp=4, p=2)
    16.0
    """
    return P / (tp * p)


@formula(
    symbol=r"m_\text{step}",
    unit="",
    source="counting",
    conditions="the batch divides evenly",
)
def micro_batch_count(batch_tokens, dp, micro_batch, seq):
    """How many micro-batches each replica works through in one step.

    Equation: the tokens of a step, over those of one micro-batch of every replica.
    Arguments: counts. Returns a count. Raises ZeroDivisionError for an empty micro-batch.
    Source: counting.

    >>> micro_batch_count(batch_tokens=2**22, dp=16, micro_batch=2, seq=4096)
    32.0
    """
    return batch_tokens / (dp * micro_batch * seq)


@formula(
    symbol=r"\beta_\text{ports}",
    unit="B/s",
    source="counting",
    conditions="replicas lie across nodes, tensor parallelism inside; every group rings through "
    "all ports of its members in a node",
)
def replica_bandwidth(nics, beta, beta_in, tp):
    """The bandwidth that a ring of replicas has for each of its ranks.

    Equation: a node's ports, shared by the rings that leave it, of which tensor parallelism makes
    one for each of its ranks; at most the bandwidth inside.
    Arguments: `nics` ports of `beta` bytes/s in a node; `beta_in` bytes/s inside it; `tp`.
    Returns bytes/s. Raises ZeroDivisionError for `tp` = 0. Source: counting.

    >>> [replica_bandwidth(nics=8, beta=50e9, beta_in=450e9, tp=tp) / 1e9 for tp in (1, 4, 8)]
    [400.0, 100.0, 50.0]
    """
    return minimum(beta_in, nics * beta / tp)


@formula(
    symbol=r"T_\text{last backward}",
    unit="s",
    source="Li et al. 2020",
    conditions="gradients are added up locally and exchanged with the last micro-batch",
)
def last_backward_time(computing, m):
    """The arithmetic under which an exchange of gradients can hide.

    Equation: two thirds of a micro-batch's work are its backward pass; only in the last one are
    the gradients final. Arguments: `computing` seconds of a step, `m` micro-batches.
    Returns seconds. Raises ZeroDivisionError for no micro-batches. Source: Li et al. 2020.

    >>> last_backward_time(computing=12.0, m=4)
    2.0
    """
    return 2 / 3 * computing / m


@formula(
    symbol=r"T_\text{exposed}",
    unit="s",
    source="arithmetic",
    conditions="what is hidden costs the arithmetic nothing",
)
def exposed_time(comm, hiding, overlap_share):
    """The part of a communication that no arithmetic hides.

    Equation: at most as much hides as there is arithmetic to hide under, and of that a share.
    Arguments: `comm` and `hiding` seconds; `overlap_share`, from 0 (nothing) to 1.
    Returns seconds. Raises nothing. Source: arithmetic.

    >>> exposed_time(comm=3.0, hiding=2.0, overlap_share=0.5)
    2.0
    """
    return maximum(0, comm - overlap_share * minimum(comm, hiding))
