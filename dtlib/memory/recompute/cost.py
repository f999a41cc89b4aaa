"""What recomputation saves and costs, as formulas: segments, stages of a pipeline, one slot."""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import minimum, sqrt


@formula(
    r"M_\text{seg}",
    "B",
    "Chen et al. 2016, with a layer's input apart from what the layer keeps",
    (
        "equal layers; segments of equal length; the last one is not recomputed; "
        "a layer's own bytes include its input"
    ),
)
def segment_peak_bytes(layers, segment, state_bytes, layer_bytes):
    """The most that is held when the input of every k-th layer is kept.

    The kept inputs of all segments but the last, and one segment's whole tape.

    >>> [segment_peak_bytes(32, k, state_bytes=2, layer_bytes=34) for k in (1, 2, 8)]
    [96.0, 98.0, 278.0]
    """
    return (layers / segment - 1) * state_bytes + segment * layer_bytes


@formula(
    r"k_\text{opt}",
    "",
    "Chen et al. 2016, with a layer's input apart from what the layer keeps",
    "equal layers; not a whole number; below 1, every layer's input is kept",
)
def best_segment_length(layers, state_bytes, layer_bytes):
    """How many layers a segment should have, so that least is held.

    Where the derivative of the segments' law is 0; the square root of the layers only where a layer
    keeps no more than its input.

    >>> best_segment_length(64, 2, 2), round(best_segment_length(32, 2, 34), 2)
    (8.0, 1.37)
    """
    return sqrt(layers * state_bytes / layer_bytes)


@formula(
    r"M_\text{stage}",
    "B",
    "counting",
    (
        "1F1B, one stage a rank; every segment is recomputed, so that no tape outlives a "
        "forward pass, and one workspace serves all micro-batches"
    ),
)
def stage_segment_bytes(layers, segment, state_bytes, layer_bytes, p, m, rank):
    """The most that a stage holds: kept inputs of the micro-batches under way, one segment's tape.

    As many micro-batches as are under way at this stage, p - r of them, each with the inputs of its
    segments; and once the tape of a segment, whose input is kept already.

    >>> [stage_segment_bytes(80, 1, 2, 34, p=4, m=8, rank=rank) for rank in range(4)]
    [192.0, 152.0, 112.0, 72.0]
    """
    return (
        minimum(m, p - rank) * layers / (p * segment) * state_bytes
        + segment * layer_bytes
        - state_bytes
    )


@formula(
    r"N_\text{again}",
    "",
    "Griewank and Walther 2000, for one slot",
    "only the input of the chain is kept, and one layer is taped at a time",
)
def one_slot_advances(layers):
    """The layers that are run again when nothing but the input is kept: not one pass, L/2 of them.

    L - 1 layers to reach the last, L - 2 to reach the one before it, and so on.

    >>> one_slot_advances(32)
    496.0
    """
    return layers * (layers - 1) / 2


@formula(
    r"\phi_\text{core}",
    "",
    "counting",
    "classical layers; all scores count, no causal half; the head is not counted",
)
def selective_work_fraction(hidden, seq):
    """The work of one more attention core, over the work of a step without recomputation.

    4 s H FLOP a token and layer, over three times 24 H^2 + 4 s H.

    >>> round(100 * selective_work_fraction(hidden=12288, seq=2048), 2)
    0.9
    """
    return seq / (18 * hidden) / (1 + seq / (6 * hidden))


@formula(
    r"\phi_\text{full}",
    "",
    "counting",
    (
        "classical layers; all scores count, no causal half; every layer runs once more, "
        "the head does not"
    ),
)
def full_work_fraction(layers, hidden, seq, vocab):
    """The work of one more forward pass of all layers, over that of a step: below a third.

    24 H^2 + 4 s H FLOP a token and layer, over three times that and the head's 2 H V.

    >>> round(full_work_fraction(layers=12, hidden=768, seq=1024, vocab=50257), 3)
    0.243
    """
    return layers * (24 * hidden + 4 * seq) / (3 * (layers * (24 * hidden + 4 * seq) + 2 * vocab))


@formula(
    r"\phi_\text{scores}",
    "",
    "Korthikanti et al. 2023",
    "classical layer with dropout, scores kept, 16-bit numbers, one rank",
)
def score_bytes_fraction(hidden, heads, seq):
    """The share of a layer's kept bytes that selective recomputation of the scores saves.

    5 A s / H of 34 + 5 A s / H.

    >>> round(score_bytes_fraction(hidden=12288, heads=96, seq=2048), 2)
    0.7
    """
    return 5 * heads * seq / (34 * hidden + 5 * heads * seq)
