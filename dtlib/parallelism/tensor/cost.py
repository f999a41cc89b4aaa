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


@formula(r"n_\text{act}", "B", _MEGATRON, "numbers of two bytes")
def activation_message_bytes(micro_batch, seq, hidden):
    """What one layer hands to the next: a row of the model's width for each token.

    Two bytes for every number.

    >>> activation_message_bytes(micro_batch=8, seq=2048, hidden=8192)
    268435456
    """
    return 2 * micro_batch * seq * hidden


@formula(r"Q_\text{tensor}", "B", _MEGATRON, f"{_LAYER}; as much again in the backward pass")
def tensor_parallel_layer_bytes(micro_batch, seq, hidden, tp, element_bytes):
    """What one rank sends in one layer's forward pass: its part of two all-reduces.

    Two all-reduces, each twice (t - 1) / t of the stream's bytes.

    >>> tensor_parallel_layer_bytes(micro_batch=4, seq=2048, hidden=4096, tp=8, element_bytes=2)
    234881024.0
    """
    return 4 * (tp - 1) / tp * micro_batch * seq * hidden * element_bytes


@formula(
    r"R_\text{fwd}",
    "",
    "24 H^2 / t FLOP per token over the bytes of two all-reduces",
    f"{_LAYER}; {_RATES}",
)
def tensor_forward_headroom(hidden, tp, element_bytes, peak, beta):
    """The arithmetic of a layer's forward pass over its communication, both as times.

    Forward has a third of the arithmetic and half of the bytes of a step, so two thirds of the
    step's intensity, over the ridge of the link. Tokens cancel. With two bytes to a number it is 3
    H beta / ((t - 1) F). Below 1 the arithmetic cannot hide the communication.

    >>> round(tensor_forward_headroom(8192, 8, element_bytes=2, peak=989e12, beta=450e9), 2)
    1.6
    """
    return 6 * hidden / (element_bytes * (tp - 1)) / ridge_intensity(peak, beta)


@formula(r"\eta_\text{pad}", "", "count", "whole heads; the rank with most of them sets the pace")
def head_imbalance_fraction(heads, tp):
    """How much more than an even share the busiest rank has to do, when ranks do not divide heads.

    The heads of the busiest rank over the mean, less one. Padding with heads that compute nothing
    costs the same.

    >>> head_imbalance_fraction(heads=32, tp=6)
    0.125
    """
    return ceil(heads / tp) * tp / heads - 1


@formula(
    r"Q_\text{loss}",
    "B",
    "Shoeybi et al. 2019, section 3",
    "ring all-reduces; logits divided by words; backward sends nothing",
)
def vocab_loss_bytes(micro_batch, seq, tp, element_bytes):
    """What one rank sends for the loss of divided logits: three all-reduces of a number per token.

    Each all-reduce is twice (t - 1) / t of its bytes.

    >>> vocab_loss_bytes(micro_batch=1, seq=8, tp=2, element_bytes=4)
    96.0
    """
    return 6 * (tp - 1) / tp * micro_batch * seq * element_bytes


@formula(r"Q_\text{gather}", "B", "count", "an all-gather that sends no more than it must")
def gathered_logits_bytes(micro_batch, seq, vocab, tp, element_bytes):
    """What one rank sends to give every rank all logits: its words, to every other rank.

    One t-th of the logits to t - 1 ranks.

    >>> gathered_logits_bytes(micro_batch=1, seq=8, vocab=100, tp=2, element_bytes=4)
    1600.0
    """
    return (tp - 1) / tp * micro_batch * seq * vocab * element_bytes


@formula(
    r"M_\text{pieces}",
    "B",
    "counted from the operations",
    "numbers of one width; logits divided by words, and five tensors of their size at once",
)
def loss_pieces_bytes(chunk_tokens, micro_batch, seq, hidden, vocab, tp, element_bytes):
    """What a rank makes at once for a loss in pieces: one piece's logits, and both gradients.

    A piece's logits are there five times at the worst moment: themselves, their exponentials, the
    gradients that come back on two paths, and the sum of these. The gradients of the stream and of
    the head are there from the first piece on.

    >>> loss_pieces_bytes(2, micro_batch=1, seq=3, hidden=4, vocab=14, tp=2, element_bytes=8)
    880.0
    """
    return element_bytes * ((5 * chunk_tokens + hidden) * vocab / tp + micro_batch * seq * hidden)


@formula(
    r"T_\text{tensor}",
    "s",
    _MEGATRON,
    f"{_RING}; layers of one attention and one feed-forward block",
)
def tensor_parallel_time(n, layers, reductions, p, m, tp, alpha, beta):
    """The time for which tensor parallelism communicates in one step.

    For every micro-batch and each of the rank's layers two all-reduces forward and two backward
    (and two more where the forward pass is repeated), each of one layer's output.

    >>> time = tensor_parallel_time(268435456, 80, 4, p=1, m=1, tp=8, alpha=0, beta=450e9)
    >>> round(time, 3)
    0.334
    """
    return reductions * layers / p * m * ring_all_reduce_time(n, tp, alpha, beta)
