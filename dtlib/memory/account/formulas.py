"""The account of a rank's memory: first what the model itself needs, before any input arrives."""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import minimum, sqrt, where

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


@formula(
    symbol=r"\Psi_\text{rank}",
    unit="",
    source="Shoeybi et al. 2019; Narayanan et al. 2021",
    conditions="every part divides evenly; the tables at both ends are spread over all stages",
)
def rank_params(params, tp, p):
    """The parameters that one rank holds, before ZeRO divides them further.

    Equation: tensor parallelism divides every layer, pipeline parallelism the list of layers.
    Arguments: `params`, `tp` ranks that share a layer, `p` stages. Returns a count.
    Raises ZeroDivisionError for 0 ranks or stages. Source: Narayanan et al. 2021.

    >>> rank_params(params=70e9, tp=8, p=4)
    2187500000.0
    """
    return params / (tp * p)


@formula(
    symbol=r"M_\text{gather}",
    unit="B",
    source="Rajbhandari et al. 2020",
    conditions="equal layers; the next layer is gathered while one is computed",
)
def gathered_bytes(params, layers, stage, element_bytes):
    """What stage 3 holds besides its share: whole layers, while they are computed.

    Equation: the weights of two layers; nothing before stage 3.
    Arguments: `params` that the rank would hold without ZeRO, in `layers`; `stage` 0 to 3;
    `element_bytes` of a weight.
    Returns bytes. Raises ZeroDivisionError for no layers. Source: Rajbhandari et al. 2020.

    >>> [gathered_bytes(params=30e9, layers=60, stage=z, element_bytes=2) for z in (2, 3)]
    [0, 2000000000.0]
    """
    return where(stage < 3, 0, 2 * element_bytes * params / layers)


@formula(
    symbol=r"M_\text{act}",
    unit="B",
    source="Narayanan et al. 2021; Korthikanti et al. 2023 for interleaved stages",
    conditions="1F1B; the first rank of the pipeline, which holds most; equal stages",
)
def pipeline_activation_bytes(kept_bytes, p, m, v):
    """What a rank keeps of its forward passes until their backward passes come.

    Equation: its part of as many micro-batches as are under way, at most one for each rank of the
    pipeline; interleaved stages start some more.
    Arguments: `kept_bytes` of one micro-batch in all layers, `p` ranks in the pipeline, `m`
    micro-batches, `v` stages of one rank. Returns bytes. Raises ZeroDivisionError for `p` = 0.
    Source: Narayanan et al. 2021; Korthikanti et al. 2023.

    >>> [pipeline_activation_bytes(kept_bytes=64e9, p=4, m=32, v=v) / 1e9 for v in (1, 3)]
    [64.0, 80.0]
    """
    return kept_bytes / p * minimum(p, m) * where(v < 2, 1, 1 + (p - 1) / (p * v))


@formula(
    symbol=r"M_\text{logits}",
    unit="B",
    source="counting",
    conditions="the logits in 16 bits and once in 32 bits for the loss; fused losses need less",
)
def logit_bytes(micro_batch, seq, vocab, tp):
    """What the last layer's output occupies: a number for every word, for every token.

    Equation: six bytes for each. Arguments: counts; `tp` ranks share the vocabulary.
    Returns bytes. Raises ZeroDivisionError for `tp` = 0. Source: counting.

    >>> logit_bytes(micro_batch=1, seq=4096, vocab=128256, tp=1) / 1e9
    3.152019456
    """
    return 6 * micro_batch * seq * vocab / tp


@formula(
    symbol=r"n_\Psi",
    unit="B",
    source="counting",
    conditions="every number has the same width",
)
def weight_bytes(params, element_bytes):
    """What one copy of the weights occupies, or of their gradients, when it travels.

    Equation: so many bytes for each parameter. Arguments: `params`; `element_bytes` bytes.
    Returns bytes. Raises nothing. Source: counting.

    >>> weight_bytes(params=30e9, element_bytes=2)
    60000000000.0
    """
    return element_bytes * params


@formula(
    symbol=r"M_\text{fused}",
    unit="B",
    source="Korthikanti et al. 2023, without the scores, which fused attention does not keep",
    conditions="classical layer with dropout, 16-bit numbers, fused attention, no sequence "
    "parallelism",
)
def fused_layer_bytes(seq, micro_batch, hidden, tp):
    """What one layer keeps of its forward pass when the scores are never stored.

    Equation: 34 bytes for each number of the residual stream, of which tensor parallelism divides
    24. Arguments: counts. Returns bytes. Raises ZeroDivisionError for `tp` = 0.
    Source: Korthikanti et al. 2023.

    >>> fused_layer_bytes(seq=4096, micro_batch=1, hidden=7168, tp=1) / 1e9
    0.998244352
    """
    return seq * micro_batch * hidden * (10 + 24 / tp)


@formula(
    symbol=r"M_\text{segments}",
    unit="B",
    source="Chen et al. 2016",
    conditions="equal segments; one is recomputed at a time; its own first input is counted twice",
)
def segmented_activation_bytes(layers, segment, layer_bytes, seq, micro_batch, hidden):
    """What a rank keeps when only every k-th layer's input is kept, and the rest is recomputed.

    Equation: two bytes for each number of every kept input, and all of one segment while its
    backward pass runs. With one segment of all layers nothing is recomputed.
    Arguments: `layers`; `segment`, layers in a segment; `layer_bytes`, what a whole layer keeps;
    `seq`, `micro_batch`, `hidden`. Returns bytes. Raises ZeroDivisionError for empty segments.
    Source: Chen et al. 2016.

    >>> segmented_activation_bytes(40, 4, 9.4e9, seq=4096, micro_batch=8, hidden=5120) / 1e9
    40.9554432
    """
    return layers / segment * (2 * seq * micro_batch * hidden) + segment * layer_bytes


@formula(
    symbol=r"k_\text{best}^\text{seg}",
    unit="",
    source="Chen et al. 2016, with the bytes of a transformer's layer",
    conditions="classical layer, scores kept, one rank; not a whole number",
)
def best_segment_layers(layers, seq, hidden, heads):
    """How many layers a segment should have, so that least is kept.

    Equation: where another layer in each segment costs what fewer kept inputs save.
    Arguments: counts. Returns a count, seldom a whole one; below 1, every layer's input is kept.
    Raises ZeroDivisionError for a width of 0. Source: Chen et al. 2016.

    >>> round(best_segment_layers(layers=80, seq=2048, hidden=12288, heads=96), 2)
    1.18
    """
    return sqrt(2 * layers / (34 + 5 * heads * seq / hidden))


@formula(
    symbol=r"W_\text{segments}",
    unit="FLOP",
    source="Chen et al. 2016",
    conditions="the forward pass is a third of the work; the last segment is still there",
)
def segment_repeated_flops(flops, segment, layers):
    """The work that recomputing segments adds to a step.

    Equation: the forward pass, a third of the work, of all segments but the last.
    Arguments: `flops` of the step without repeats; `segment` layers; `layers`. Returns FLOP.
    Raises ZeroDivisionError for no layers. Source: Chen et al. 2016.

    >>> segment_repeated_flops(flops=6e17, segment=12, layers=48) / 1e17
    1.5
    """
    return flops / 3 * (1 - segment / layers)
