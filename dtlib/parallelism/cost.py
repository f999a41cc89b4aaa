"""What the ways of dividing a step cost, one equation each: the first account of every strategy.

Each strategy has its own chapter later; these equations are what an estimate needs of them.
"""

from dtlib.collectives.cost.ring_and_tree import ring_all_reduce_time
from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, minimum, where
from dtlib.machines.alpha_beta import message_time

_MEGATRON = "Narayanan et al. 2021"
_RING = "ring collectives, one port per rank, nothing overlaps"


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
    symbol=r"T_\text{bubble}",
    unit="s",
    source=_MEGATRON,
    conditions="equal stages; GPipe or 1F1B, interleaved if v is more than 1",
)
def pipeline_bubble_time(computing, p, m, v):
    """The time for which a rank of a pipeline waits in one step.

    Equation: the first micro-batch reaches the last rank p - 1 turns late, and the last gradient
    comes back as late; a turn is 1/m of the rank's work, or 1/v of that where stages interleave.
    Arguments: `computing`, seconds of work of one rank; `p` ranks in the pipeline; `m`
    micro-batches; `v` stages of one rank. Returns seconds.
    Raises ZeroDivisionError for no micro-batches. Source: Narayanan et al. 2021.

    >>> pipeline_bubble_time(computing=32.0, p=8, m=32, v=1)
    7.0
    """
    return (p - 1) / (v * m) * computing


@formula(
    symbol=r"n_\text{act}",
    unit="B",
    source="Shoeybi et al. 2019",
    conditions="numbers of two bytes",
)
def activation_message_bytes(micro_batch, seq, hidden):
    """What one layer hands to the next: a row of the model's width for each token.

    Equation: two bytes for every number. Arguments: counts. Returns bytes. Raises nothing.
    Source: Shoeybi et al. 2019.

    >>> activation_message_bytes(micro_batch=8, seq=2048, hidden=8192)
    268435456
    """
    return 2 * micro_batch * seq * hidden


@formula(
    symbol=r"T_\text{tensor}",
    unit="s",
    source="Shoeybi et al. 2019",
    conditions=f"{_RING}; layers of one attention and one feed-forward block",
)
def tensor_parallel_time(n, layers, reductions, p, m, tp, alpha, beta):
    """The time for which tensor parallelism communicates in one step.

    Equation: for every micro-batch and each of the rank's layers two all-reduces forward and two
    backward (and two more where the forward pass is repeated), each of one layer's output.
    Arguments: `n` bytes of that output; `layers`; `reductions` per layer; `p` stages; `m`
    micro-batches; `tp` ranks that share a layer; `alpha` seconds; `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Shoeybi et al. 2019.

    >>> n = activation_message_bytes(micro_batch=8, seq=2048, hidden=8192)
    >>> time = tensor_parallel_time(n, 80, 4, p=1, m=1, tp=8, alpha=0, beta=450e9)
    >>> round(time, 3)
    0.334
    """
    return reductions * layers / p * m * ring_all_reduce_time(n, tp, alpha, beta)


@formula(
    symbol=r"T_\text{sends}",
    unit="s",
    source=_MEGATRON,
    conditions="a stage waits for each message; stages that follow each other",
)
def pipeline_send_time(n, m, alpha, beta):
    """The time for which a stage of a pipeline sends in one step.

    Equation: one message to the next stage and one back to the one before, per micro-batch.
    Arguments: `n` bytes of a layer's output, `m` micro-batches, `alpha` seconds, `beta` bytes/s.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Narayanan et al. 2021.

    >>> round(pipeline_send_time(n=50e6, m=10, alpha=0, beta=50e9), 3)
    0.02
    """
    return 2 * m * message_time(n, alpha, beta)


@formula(
    symbol=r"T_\text{shards}",
    unit="s",
    source="Rajbhandari et al. 2020",
    conditions=f"{_RING}; weights are gathered layer by layer, again for every micro-batch",
)
def sharded_exchange_time(n, layers, m, dp, alpha, beta):
    """The time for which ZeRO's stage 3 communicates in one step.

    Equation: per micro-batch the weights are gathered forward and again backward, and the
    gradients reduced and scattered; each of the three is half of a ring all-reduce, and starts
    anew for every layer.
    Arguments: `n` bytes of a rank's undivided weights, in so many `layers`; `m` micro-batches, `dp`
    replicas, `alpha` seconds, `beta` bytes/s. Returns seconds.
    Raises ZeroDivisionError for `beta` = 0. Source: Rajbhandari et al. 2020.

    >>> times = [sharded_exchange_time(60e9, 48, 1, 128, alpha, 50e9) for alpha in (0, 2e-6)]
    >>> [round(time, 2) for time in times]
    [3.57, 3.61]
    """
    return 3 * m * (layers * (dp - 1) * alpha + (dp - 1) / dp * n / beta)


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
    symbol=r"T_\text{ZeRO}",
    unit="s",
    source="Rajbhandari et al. 2020",
    conditions=f"{_RING}; up to stage 2 gradients are exchanged once a step",
)
def zero_exchange_time(stage, n, layers, m, dp, alpha, beta):
    """The time for which replicas exchange gradients, and in stage 3 weights, in one step.

    Equation: one ring all-reduce, or from stage 3 on what gathering adds.
    Arguments: `stage` 0 to 3, `n` bytes of a rank's undivided weights, in so many `layers`; `m`
    micro-batches, `dp` replicas, `alpha` seconds, `beta` bytes/s. Returns seconds.
    Raises ZeroDivisionError for `beta` = 0. Source: Rajbhandari et al. 2020.

    >>> [round(zero_exchange_time(z, 60e9, 48, 8, 128, 0, 320e9), 2) for z in (2, 3)]
    [0.37, 4.46]
    """
    return where(
        stage < 3,
        ring_all_reduce_time(n, dp, alpha, beta),
        sharded_exchange_time(n, layers, m, dp, alpha, beta),
    )


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
