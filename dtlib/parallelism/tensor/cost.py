"""What tensor parallelism sends, and how much of it the arithmetic can hide.

A layer has 12 H^2 weights; forward that is 24 H^2 FLOP per token, of which each of t ranks does its
part, and two all-reduces of one activation per token. Backward has twice the arithmetic and as many
bytes, so the forward pass is the one that is hard to hide: from `tensor_parallel_width` of
`dtlib.foundations` on. Attention scores are left out.
"""

from dtlib.collectives.cost.ring_and_tree import ring_all_reduce_time
from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil
from dtlib.foundations.roofline.times import ridge_intensity

_MEGATRON = "Shoeybi et al. 2019"
_LAYER = "layers of 12 H^2 weights, two all-reduces forward that send no more than they must"
_RATES = "peak rates on both sides; no latency; attention scores left out"
_RING = "ring collectives, one port per rank, nothing overlaps"


@formula(
    symbol=r"n_\text{act}",
    unit="B",
    source=_MEGATRON,
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
    symbol=r"Q_\text{tensor}",
    unit="B",
    source=_MEGATRON,
    conditions=f"{_LAYER}; as much again in the backward pass",
)
def tensor_parallel_layer_bytes(micro_batch, seq, hidden, tp, element_bytes):
    """What one rank sends in one layer's forward pass: its part of two all-reduces.

    Equation: two all-reduces, each twice (t - 1) / t of the stream's bytes.
    Arguments: `micro_batch` sequences of `seq` tokens, `hidden` numbers each of `element_bytes`;
    `tp` ranks. Returns bytes. Raises ZeroDivisionError for no rank. Source: Shoeybi et al. 2019.

    >>> tensor_parallel_layer_bytes(micro_batch=4, seq=2048, hidden=4096, tp=8, element_bytes=2)
    234881024.0
    """
    return 4 * (tp - 1) / tp * micro_batch * seq * hidden * element_bytes


@formula(
    symbol=r"R_\text{fwd}",
    unit="",
    source="24 H^2 / t FLOP per token over the bytes of two all-reduces",
    conditions=f"{_LAYER}; {_RATES}",
)
def tensor_forward_headroom(hidden, tp, element_bytes, peak, beta):
    """The arithmetic of a layer's forward pass over its communication, both as times.

    Equation: forward has a third of the arithmetic and half of the bytes of a step, so two thirds
    of the step's intensity, over the ridge of the link. Tokens cancel. With two bytes to a
    number it is 3 H beta / ((t - 1) F).
    Arguments: `hidden` width; `tp` ranks; `element_bytes` of one activation; `peak` FLOP/s; `beta`
    bytes/s per direction. Returns a ratio; below 1 the arithmetic cannot hide the communication.
    Raises ZeroDivisionError for one rank, which sends nothing. Source: count.

    >>> round(tensor_forward_headroom(8192, 8, element_bytes=2, peak=989e12, beta=450e9), 2)
    1.6
    """
    return 6 * hidden / (element_bytes * (tp - 1)) / ridge_intensity(peak, beta)


@formula(
    symbol=r"\eta_\text{pad}",
    unit="",
    source="count",
    conditions="whole heads; the rank with most of them sets the pace",
)
def head_imbalance_share(heads, tp):
    """How much more than an even share the busiest rank has to do, when ranks do not divide heads.

    Equation: the heads of the busiest rank over the mean, less one. Padding with heads that compute
    nothing costs the same. Arguments: counts. Returns a share. Raises ZeroDivisionError for no
    heads. Source: count.

    >>> head_imbalance_share(heads=32, tp=6)
    0.125
    """
    return ceil(heads / tp) * tp / heads - 1


@formula(
    symbol=r"Q_\text{loss}",
    unit="B",
    source="Shoeybi et al. 2019, section 3",
    conditions="ring all-reduces; logits divided by words; backward sends nothing",
)
def vocab_loss_bytes(micro_batch, seq, tp, element_bytes):
    """What one rank sends for the loss of divided logits: three all-reduces of a number per token.

    Equation: each all-reduce is twice (t - 1) / t of its bytes.
    Arguments: `micro_batch` sequences of `seq` tokens; `tp` ranks; `element_bytes` of one number.
    Returns bytes. Raises ZeroDivisionError for no rank. Source: Shoeybi et al. 2019.

    >>> vocab_loss_bytes(micro_batch=1, seq=8, tp=2, element_bytes=4)
    96.0
    """
    return 6 * (tp - 1) / tp * micro_batch * seq * element_bytes


@formula(
    symbol=r"Q_\text{gather}",
    unit="B",
    source="count",
    conditions="an all-gather that sends no more than it must",
)
def gathered_logits_bytes(micro_batch, seq, vocab, tp, element_bytes):
    """What one rank sends to give every rank all logits: its words, to every other rank.

    Equation: one t-th of the logits to t - 1 ranks. Arguments: `micro_batch` sequences of `seq`
    tokens, `vocab` numbers for each of them, of `element_bytes`; `tp` ranks. Returns bytes.
    Raises ZeroDivisionError for no rank. Source: count.

    >>> gathered_logits_bytes(micro_batch=1, seq=8, vocab=100, tp=2, element_bytes=4)
    1600.0
    """
    return (tp - 1) / tp * micro_batch * seq * vocab * element_bytes


@formula(
    symbol=r"T_\text{tensor}",
    unit="s",
    source=_MEGATRON,
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

    >>> time = tensor_parallel_time(268435456, 80, 4, p=1, m=1, tp=8, alpha=0, beta=450e9)
    >>> round(time, 3)
    0.334
    """
    return reductions * layers / p * m * ring_all_reduce_time(n, tp, alpha, beta)
