"""The account of a rank's memory: first what the model itself needs, before any input arrives."""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import minimum, sqrt, where

_ZERO = "Rajbhandari et al. 2020"
_STAGES = "stages 0 to 3; the parts are equal"


@formula(r"N_w", "", _ZERO, _STAGES)
def weight_shards(zero, dp):
    """How many parts the weights are cut into, of which a rank holds one.

    From stage 3 on one part for each replica, before that the whole.

    >>> [weight_shards(zero, dp=8) for zero in range(4)]
    [1, 1, 1, 8]
    """
    return where(zero < 3, 1, dp)


@formula(r"N_g", "", _ZERO, _STAGES)
def gradient_shards(zero, dp):
    """How many parts the gradients are cut into, of which a rank holds one.

    From stage 2 on one part for each replica, before that the whole.

    >>> [gradient_shards(zero, dp=8) for zero in range(4)]
    [1, 1, 8, 8]
    """
    return where(zero < 2, 1, dp)


@formula(r"N_o", "", _ZERO, _STAGES)
def optimizer_shards(zero, dp):
    """How many parts the optimizer's state is cut into, of which a rank holds one.

    From stage 1 on one part for each replica, before that the whole.

    >>> [optimizer_shards(zero, dp=8) for zero in range(4)]
    [1, 8, 8, 8]
    """
    return where(zero < 1, 1, dp)


@formula(
    r"M_\text{state}",
    "B",
    _ZERO,
    (
        "Adam; weights and gradients of 2 bytes, and 12 bytes for the optimizer's master "
        "weights and two moments; buffers and fragmentation are not counted"
    ),
)
def model_state_bytes(params, zero, dp):
    """What a rank holds of a model's weights, gradients and optimizer state.

    2, 2 and 12 bytes per parameter, each divided by its number of parts. `params` are those that
    this rank would hold without ZeRO: all of them, or its share under tensor and pipeline
    parallelism.

    >>> [model_state_bytes(params=7.5e9, zero=zero, dp=64) / 1e9 for zero in range(4)]
    [120.0, 31.40625, 16.640625, 1.875]
    """
    return (
        2 * params / weight_shards(zero, dp)
        + 2 * params / gradient_shards(zero, dp)
        + 12 * params / optimizer_shards(zero, dp)
    )


@formula(
    r"\Psi_\text{rank}",
    "",
    "Shoeybi et al. 2019; Narayanan et al. 2021",
    "every part divides evenly; the tables at both ends are spread over all stages",
)
def rank_params(params, tp, p):
    """The parameters that one rank holds, before ZeRO divides them further.

    Tensor parallelism divides every layer, pipeline parallelism the list of layers.

    >>> rank_params(params=70e9, tp=8, p=4)
    2187500000.0
    """
    return params / (tp * p)


@formula(
    r"M_\text{gather}",
    "B",
    "Rajbhandari et al. 2020",
    "equal layers; the next layer is gathered while one is computed",
)
def gathered_bytes(params, layers, zero, element_bytes):
    """What stage 3 holds besides its share: whole layers, while they are computed.

    The weights of two layers; nothing before stage 3. `params` are those that the rank would hold
    without ZeRO.

    >>> [gathered_bytes(params=30e9, layers=60, zero=z, element_bytes=2) for z in (2, 3)]
    [0, 2000000000.0]
    """
    return where(zero < 3, 0, 2 * element_bytes * params / layers)


@formula(
    r"M_\text{act}",
    "B",
    "Narayanan et al. 2021; Korthikanti et al. 2023 for interleaved stages",
    "1F1B; the first rank of the pipeline, which holds most; equal stages",
)
def pipeline_activation_bytes(kept_bytes, p, m, v):
    """What a rank keeps of its forward passes until their backward passes come.

    Its part of as many micro-batches as are under way, at most one for each rank of the pipeline;
    interleaved stages start some more.

    >>> [pipeline_activation_bytes(kept_bytes=64e9, p=4, m=32, v=v) / 1e9 for v in (1, 3)]
    [64.0, 80.0]
    """
    return kept_bytes / p * minimum(p, m) * where(v < 2, 1, 1 + (p - 1) / (p * v))


@formula(
    r"M_\text{logits}",
    "B",
    "counting",
    "the logits in 16 bits and once in 32 bits for the loss; fused losses need less",
)
def logit_bytes(micro_batch, seq, vocab, tp):
    """What the last layer's output occupies: a number for every word, for every token.

    Six bytes for each.

    >>> logit_bytes(micro_batch=1, seq=4096, vocab=128256, tp=1) / 1e9
    3.152019456
    """
    return 6 * micro_batch * seq * vocab / tp


@formula(r"n_\Psi", "B", "counting", "every number has the same width")
def weight_bytes(params, element_bytes):
    """What one copy of the weights occupies, or of their gradients, when it travels.

    So many bytes for each parameter.

    >>> weight_bytes(params=30e9, element_bytes=2)
    60000000000.0
    """
    return element_bytes * params


@formula(
    r"M_\text{fused}",
    "B",
    "Korthikanti et al. 2023, without the scores, which fused attention does not keep",
    ("classical layer with dropout, 16-bit numbers, fused attention, no sequence parallelism"),
)
def fused_layer_bytes(seq, micro_batch, hidden, tp):
    """What one layer keeps of its forward pass when the scores are never stored.

    34 bytes for each number of the residual stream, of which tensor parallelism divides 24.

    >>> fused_layer_bytes(seq=4096, micro_batch=1, hidden=7168, tp=1) / 1e9
    0.998244352
    """
    return seq * micro_batch * hidden * (10 + 24 / tp)


@formula(
    r"M_\text{segments}",
    "B",
    "Chen et al. 2016",
    "equal segments; one is recomputed at a time; its own first input is counted twice",
)
def segmented_activation_bytes(layers, segment, layer_bytes, seq, micro_batch, hidden):
    """What a rank keeps when only every k-th layer's input is kept, and the rest is recomputed.

    Two bytes for each number of every kept input, and all of one segment while its backward pass
    runs. With one segment of all layers nothing is recomputed.

    >>> segmented_activation_bytes(40, 4, 9.4e9, seq=4096, micro_batch=8, hidden=5120) / 1e9
    40.9554432
    """
    return layers / segment * (2 * seq * micro_batch * hidden) + segment * layer_bytes


@formula(
    r"k_\text{best}^\text{seg}",
    "",
    "Chen et al. 2016, with the bytes of a transformer's layer",
    "classical layer, scores kept, one rank; not a whole number",
)
def best_segment_layers(layers, seq, hidden, heads):
    """How many layers a segment should have, so that least is kept.

    Where another layer in each segment costs what fewer kept inputs save. Seldom a whole number;
    below 1, every layer's input is kept.

    >>> round(best_segment_layers(layers=80, seq=2048, hidden=12288, heads=96), 2)
    1.18
    """
    return sqrt(2 * layers / (34 + 5 * heads * seq / hidden))


@formula(
    r"W_\text{segments}",
    "FLOP",
    "Chen et al. 2016",
    "the forward pass is a third of the work; the last segment is still there",
)
def segment_repeated_flops(flops, segment, layers):
    """The work that recomputing segments adds to a step.

    The forward pass, a third of the work, of all segments but the last. `flops` are those of the
    step without repeats.

    >>> segment_repeated_flops(flops=6e17, segment=12, layers=48) / 1e17
    1.5
    """
    return flops / 3 * (1 - segment / layers)
