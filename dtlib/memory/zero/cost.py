"""What ZeRO's stages send, per rank and step, and how long that takes on rings."""

from dtlib.collectives.cost.ring_and_tree import ring_all_reduce_time
from dtlib.formulas.formula import formula
from dtlib.formulas.poly import where

_ZERO = "Rajbhandari et al. 2020"
_RING = "ring collectives, one port per rank, nothing overlaps"


@formula(
    r"Q_\text{shards}",
    "B",
    "half of a ring all-reduce each, Patarasuk & Yuan 2009",
    "weights and gradients are numbers of one width, and divide evenly",
)
def sharded_sent_bytes(params, gathers, scatters, dp, element_bytes):
    """What a rank sends when all weights are gathered and all gradients scattered so many times.

    An all-gather and a reduce-scatter each send all parts but one.

    >>> sharded_sent_bytes(params=7e9, gathers=2, scatters=1, dp=8, element_bytes=2) / 1e9
    36.75
    """
    return (gathers + scatters) * (dp - 1) / dp * element_bytes * params


@formula(
    r"N_\text{gather}",
    "",
    _ZERO,
    "an all-reduce gathers once; stage 3 releases weights after each pass",
)
def weight_gathers(zero, m):
    """How often a step gathers all weights, or before stage 1 all gradients.

    Once a step; in stage 3 for the forward and the backward pass of each micro-batch.

    >>> [weight_gathers(zero, m=4) for zero in range(4)]
    [1, 1, 1, 8]
    """
    return where(zero < 3, 1, 2 * m)


@formula(
    r"N_\text{scatter}",
    "",
    _ZERO,
    "from stage 2 on a rank keeps no whole gradient between micro-batches",
)
def gradient_scatters(zero, m):
    """How often a step reduces and scatters all gradients.

    Once a step, or from stage 2 on once for each micro-batch.

    >>> [gradient_scatters(zero, m=4) for zero in range(4)]
    [1, 1, 4, 4]
    """
    return where(zero < 2, 1, m)


@formula(
    r"Q_\text{ZeRO}",
    "B",
    _ZERO,
    (
        "weights and gradients are numbers of one width, and divide evenly; before stage 2 "
        "micro-batches add to whole gradients"
    ),
)
def zero_sent_bytes(params, zero, dp, m, element_bytes):
    """What a rank sends in one step, in each stage of ZeRO; stage 0 is data parallelism.

    One micro-batch costs 2, 2, 2 and 3 times the model; m of them cost 2, 2, m + 1, 3 m.

    >>> [zero_sent_bytes(1e9, zero, dp=1000, m=1, element_bytes=2) / 1e9 for zero in range(4)]
    [3.996, 3.996, 3.996, 5.994]
    >>> [zero_sent_bytes(1e9, zero, dp=1000, m=16, element_bytes=2) / 1e9 for zero in range(4)]
    [3.996, 3.996, 33.966, 95.904]
    """
    return sharded_sent_bytes(
        params, weight_gathers(zero, m), gradient_scatters(zero, m), dp, element_bytes
    )


@formula(
    r"T_\text{shards}",
    "s",
    _ZERO,
    f"{_RING}; weights are gathered layer by layer, again for every micro-batch",
)
def sharded_exchange_time(n, layers, m, dp, alpha, beta):
    """The time for which ZeRO's stage 3 communicates in one step.

    Per micro-batch the weights are gathered forward and again backward, and the gradients reduced
    and scattered; each of the three is half of a ring all-reduce, and starts anew for every layer.
    `n` counts a rank's undivided weights.

    >>> times = [sharded_exchange_time(60e9, 48, 1, 128, alpha, 50e9) for alpha in (0, 2e-6)]
    >>> [round(time, 2) for time in times]
    [3.57, 3.61]
    """
    return 3 * m * (layers * (dp - 1) * alpha + (dp - 1) / dp * n / beta)


@formula(
    r"T_\text{ZeRO}", "s", _ZERO, f"{_RING}; up to stage 2 gradients are exchanged once a step"
)
def zero_exchange_time(zero, n, layers, m, dp, alpha, beta):
    """The time for which replicas exchange gradients, and in stage 3 weights, in one step.

    One ring all-reduce, or from stage 3 on what gathering adds. `n` counts a rank's undivided
    weights.

    >>> [round(zero_exchange_time(z, 60e9, 48, 8, 128, 0, 320e9), 2) for z in (2, 3)]
    [0.37, 4.46]
    """
    return where(
        zero < 3,
        ring_all_reduce_time(n, dp, alpha, beta),
        sharded_exchange_time(n, layers, m, dp, alpha, beta),
    )


@formula(
    r"C_\text{NS}",
    "FLOP",
    "three products, counted from their shapes",
    "5 steps; the shorter side first",
)
def newton_schulz_flops(rows, columns):
    """What five steps of Newton and Schulz compute for one matrix, no more rows than columns.

    A step multiplies the matrix by its own transpose, squares that product, and multiplies the
    matrix by the polynomial.

    >>> newton_schulz_flops(rows=3, columns=5)
    1170
    """
    return 5 * (4 * rows**2 * columns + 2 * rows**3)


@formula(
    r"Q_\text{owner}",
    "B",
    "counted from the messages: what is not owned goes to its owner, what is owned comes back",
    "every matrix is cut evenly; what comes back is as wide as what is sent",
)
def owner_sent_bytes(params, owned_params, P, element_bytes):
    """What a rank sends for an update by owners: shards of others' matrices, and parts of its own.

    With an equal share of everything owned by everyone it is a P-th of what two gathers send.

    >>> owner_sent_bytes(params=8, owned_params=2, P=4, element_bytes=2)
    6.0
    """
    return element_bytes * (params + (P - 2) * owned_params) / P
