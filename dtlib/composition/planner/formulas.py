"""The formulas of a step: what a pass takes, what a pipeline waits, what shows of an exchange."""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ln, maximum, sqrt, where

_EVEN = "middle stages of at most so many layers"


@formula(r"T_\text{host}", "s", "counting", "the host never runs ahead of a collective by a layer")
def host_time(layer_host, calls, call_host, layers):
    """The time that the host needs to start all kernels of a pass.

    So much for each layer, and for each of the collectives in it.

    >>> host_time(layer_host=1e-3, calls=2, call_host=2e-4, layers=10)
    0.014
    """
    return layers * (layer_host + calls * call_host)


@formula(
    r"T_\text{starve}",
    "s",
    "a smooth maximum",
    "parts of a pass are slowed by the host and others by the GPU; never less than either",
)
def starving_time(computing, host, sharpness):
    """The time in which a GPU waits for its host during a pass.

    A pass takes as long as the slower of the two where one is much slower. Where they are alike,
    the GPU waits in some parts of a layer and the host in others, and the pass takes longer than
    both: a norm of the two, in which an infinite sharpness would be the maximum.

    >>> starving_time(computing=3.0, host=4.0, sharpness=2)
    2.0
    """
    return (computing**sharpness + host**sharpness) ** (1 / sharpness) - computing


@formula(r"T_\text{passes}", "s", "counting", "a pass that is repeated takes as long as before")
def passes_time(f, b, again):
    """The time of all passes of one micro-batch: forward, backward, and what is done again.

    >>> passes_time(f=2.0, b=2.5, again=1)
    6.5
    """
    return (1 + again) * f + b


@formula(r"T_\text{slow}", "s", "counting", _EVEN)
def slowest_stage_time(
    micro_time, layers, most_layers, first_layers, last_layers, first_tables, last_tables
):
    """The time of the stage that takes longest for one micro-batch.

    The ends have the tables on top: the first the one of the tokens, the last the head and the
    loss. Where layers do not divide, the ends have fewer of them.

    >>> slowest_stage_time(8.0, 8, 3, 3, 2, first_tables=0.25, last_tables=1.5)
    3.5
    """
    return maximum(
        most_layers * micro_time / layers,
        maximum(
            first_layers * micro_time / layers + first_tables,
            last_layers * micro_time / layers + last_tables,
        ),
    )


@formula(
    r"T_\text{uneven}",
    "s",
    "Narayanan et al. 2021, with unequal stages",
    "1F1B, or its interleaved form; the slowest stage never waits once it is busy",
)
def pipeline_wait_time(p, m, v, slowest_stage, all_stages):
    """The time that the ranks of a pipeline wait, on average, in a step.

    The slowest stage does its m micro-batches, and the others fill and drain around it, in v parts;
    a rank works for m times the mean of all stages.

    >>> pipeline_wait_time(p=4, m=8, v=2, slowest_stage=3.0, all_stages=12.0)
    4.5
    """
    return m * slowest_stage + (all_stages - slowest_stage) / v - m * all_stages / p


@formula(r"T_\text{stage sends}", "s", "counting", "each rank sends in both directions, in v parts")
def stage_sends_time(m, v, hop_time):
    """The time that a stage's messages take in a step: one forward and one backward, v times.

    >>> stage_sends_time(m=8, v=2, hop_time=0.001)
    0.032
    """
    return 2 * m * v * hop_time


@formula(
    r"T_\text{replicas}",
    "s",
    "Rajbhandari et al. 2020",
    "what replicas do not divide is reduced once; what they divide is scattered and gathered",
)
def replicas_exchange_time(zero, m, reduced_time, scattered_time, gathered_time):
    """The time of all collectives of a step among replicas.

    Each happens once in a step, except that from ZeRO's stage 2 on gradients are scattered for
    every micro-batch, and in stage 3 weights are gathered for each of its passes.

    >>> [replicas_exchange_time(zero, m=8, reduced_time=0, scattered_time=2, gathered_time=1)
    ...  for zero in (1, 2, 3)]
    [3, 17, 32]
    """
    return (
        reduced_time
        + where(zero < 2, 1, m) * scattered_time
        + where(zero < 3, 1, 2 * m) * gathered_time
    )


@formula(r"T_\text{hide}", "s", "counting", "a backward pass takes two thirds of the work")
def hiding_time(slowest_stage, m, zero):
    """The arithmetic under which the exchange of a step can hide.

    Up to ZeRO's stage 1 that is the backward pass of the last micro-batch; from stage 2 on, where
    every micro-batch exchanges, it is all of them.

    >>> hiding_time(3.0, m=8, zero=1), hiding_time(3.0, m=8, zero=2)
    (2.0, 24.0)
    """
    return slowest_stage * where(zero < 2, 2 / 3, m)


@formula(
    r"T_\text{straggle}",
    "s",
    "the mean of the largest of P normal numbers, for many ranks",
    "the pace of each rank is drawn once, with a small spread, and is its pace in every step",
)
def straggling_time(slowest_stage, m, spread, P):
    """The time for which a rank of the mean pace waits in a step for the slowest of all.

    No two GPUs run at the same clock. The slowest of P is about sqrt(2 ln P) spreads behind.

    >>> round(straggling_time(slowest_stage=0.5, m=8, spread=0.01, P=512), 4)
    0.1413
    """
    return m * slowest_stage * spread * sqrt(2 * ln(P))
