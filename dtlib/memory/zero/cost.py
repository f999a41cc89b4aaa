"""What ZeRO's stages send, per rank and step, with and without accumulated gradients."""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import where

_ZERO = "Rajbhandari et al. 2020"


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
