"""The account of a rank's memory: first what the model itself needs, before any input arrives."""

from dtlib.foundations.formula import formula
from dtlib.foundations.poly import where

_ZERO = "Rajbhandari et al. 2020"
_STAGES = "stages 0 to 3; the parts are equal"


@formula(symbol=r"N_w", unit="", source=_ZERO, conditions=_STAGES)
def weight_shards(stage, dp):
    """How many parts the weights are cut into, of which a rank holds one.

    Equation: from stage 3 on one part for each replica, before that the whole.
    Arguments: `stage` 0 to 3, `dp` replicas. Returns a count. Raises nothing.
    Source: Rajbhandari et al. 2020.

    >>> [weight_shards(stage, dp=8) for stage in range(4)]
    [1, 1, 1, 8]
    """
    return where(stage < 3, 1, dp)


@formula(symbol=r"N_g", unit="", source=_ZERO, conditions=_STAGES)
def gradient_shards(stage, dp):
    """How many parts the gradients are cut into, of which a rank holds one.

    Equation: from stage 2 on one part for each replica, before that the whole.
    Arguments: `stage` 0 to 3, `dp` replicas. Returns a count. Raises nothing.
    Source: Rajbhandari et al. 2020.

    >>> [gradient_shards(stage, dp=8) for stage in range(4)]
    [1, 1, 8, 8]
    """
    return where(stage < 2, 1, dp)


@formula(symbol=r"N_o", unit="", source=_ZERO, conditions=_STAGES)
def optimizer_shards(stage, dp):
    """How many parts the optimizer's state is cut into, of which a rank holds one.

    Equation: from stage 1 on one part for each replica, before that the whole.
    Arguments: `stage` 0 to 3, `dp` replicas. Returns a count. Raises nothing.
    Source: Rajbhandari et al. 2020.

    >>> [optimizer_shards(stage, dp=8) for stage in range(4)]
    [1, 8, 8, 8]
    """
    return where(stage < 1, 1, dp)


@formula(
    symbol=r"M_\text{state}",
    unit="B",
    source=_ZERO,
    conditions="Adam; weights and gradients of 2 bytes, and 12 bytes for the optimizer's master "
    "weights and two moments; buffers and fragmentation are not counted",
)
def model_state_bytes(params, stage, dp):
    """What a rank holds of a model's weights, gradients and optimizer state.

    Equation: 2, 2 and 12 bytes per parameter, each divided by its number of parts.
    Arguments: `params`, the parameters that this rank would hold without ZeRO (all of them, or its
    share under tensor and pipeline parallelism); `stage` 0 to 3; `dp` replicas.
    Returns bytes. Raises ZeroDivisionError for `dp` = 0 from stage 1 on.
    Source: Rajbhandari et al. 2020.

    >>> [model_state_bytes(params=7.5e9, stage=stage, dp=64) / 1e9 for stage in range(4)]
    [120.0, 31.40625, 16.640625, 1.875]
    """
    return (
        2 * params / weight_shards(stage, dp)
        + 2 * params / gradient_shards(stage, dp)
        + 12 * params / optimizer_shards(stage, dp)
    )
