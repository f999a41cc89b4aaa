"""What ZeRO's stages send, per rank and step, and how long that takes on rings."""

from dtlib.collectives.cost.ring_and_tree import ring_all_reduce_time
from dtlib.formulas.formula import formula
from dtlib.formulas.poly import where

_ZERO = "Rajbhandari et al. 2020"
_RING = "ring collectives, one port per rank, nothing overlaps"


@formula(
    symbol=r"Q_\text{shards}",
    unit="B",
    source="half of a ring all-reduce each, Patarasuk & Yuan 2009",
    conditions="weights and gradients are numbers of one width, and divide evenly",
)
def sharded_sent_bytes(params, gathers, scatters, dp, element_bytes):
    """What a rank sends when all weights are gathered and all gradients scattered so many times.

    Equation: an all-gather and a reduce-scatter each send all parts but one.
    Arguments: `params` parameters; `gathers` all-gathers and `scatters` reduce-scatters of all of
    them in a step; `dp` ranks; `element_bytes` bytes of a number. Returns bytes.
    Raises ZeroDivisionError for no rank. Source: Patarasuk & Yuan 2009.

    >>> sharded_sent_bytes(params=7e9, gathers=2, scatters=1, dp=8, element_bytes=2) / 1e9
    36.75
    """
    return (gathers + scatters) * (dp - 1) / dp * element_bytes * params


@formula(
    symbol=r"N_\text{gather}",
    unit="",
    source=_ZERO,
    conditions="an all-reduce gathers once; stage 3 releases weights after each pass",
)
def weight_gathers(stage, m):
    """How often a step gathers all weights, or before stage 1 all gradients.

    Equation: once a step; in stage 3 for the forward and the backward pass of each micro-batch.
    Arguments: `stage` 0 to 3, `m` micro-batches. Returns a count. Raises nothing.
    Source: Rajbhandari et al. 2020.

    >>> [weight_gathers(stage, m=4) for stage in range(4)]
    [1, 1, 1, 8]
    """
    return where(stage < 3, 1, 2 * m)


@formula(
    symbol=r"N_\text{scatter}",
    unit="",
    source=_ZERO,
    conditions="from stage 2 on a rank keeps no whole gradient between micro-batches",
)
def gradient_scatters(stage, m):
    """How often a step reduces and scatters all gradients.

    Equation: once a step, or from stage 2 on once for each micro-batch.
    Arguments: `stage` 0 to 3, `m` micro-batches. Returns a count. Raises nothing.
    Source: Rajbhandari et al. 2020.

    >>> [gradient_scatters(stage, m=4) for stage in range(4)]
    [1, 1, 4, 4]
    """
    return where(stage < 2, 1, m)


@formula(
    symbol=r"Q_\text{ZeRO}",
    unit="B",
    source=_ZERO,
    conditions="weights and gradients are numbers of one width, and divide evenly; before stage 2 "
    "micro-batches add to whole gradients",
)
def zero_sent_bytes(params, stage, dp, m, element_bytes):
    """What a rank sends in one step, in each stage of ZeRO; stage 0 is data parallelism.

    Equation: one micro-batch costs 2, 2, 2 and 3 times the model; m of them cost 2, 2, m + 1, 3 m.
    Arguments: `params` parameters, `stage` 0 to 3, `dp` ranks, `m` micro-batches a step,
    `element_bytes` bytes of a number. Returns bytes. Raises ZeroDivisionError for no rank.
    Source: Rajbhandari et al. 2020.

    >>> [zero_sent_bytes(1e9, stage, dp=1000, m=1, element_bytes=2) / 1e9 for stage in range(4)]
    [3.996, 3.996, 3.996, 5.994]
    >>> [zero_sent_bytes(1e9, stage, dp=1000, m=16, element_bytes=2) / 1e9 for stage in range(4)]
    [3.996, 3.996, 33.966, 95.904]
    """
    return sharded_sent_bytes(
        params, weight_gathers(stage, m), gradient_scatters(stage, m), dp, element_bytes
    )


@formula(
    symbol=r"T_\text{shards}",
    unit="s",
    source=_ZERO,
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
    symbol=r"T_\text{ZeRO}",
    unit="s",
    source=_ZERO,
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
