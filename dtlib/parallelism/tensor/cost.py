"""What tensor parallelism sends, and how wide a model must be to hide it.

A layer has 12 H^2 weights; forward that is 24 H^2 FLOP per token, of which each of t ranks does its
part, and two all-reduces of one activation per token. Backward has twice the arithmetic and as many
bytes, so the forward pass is the one that is hard to hide. Attention scores are left out.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil
from dtlib.foundations.roofline.intensity import tensor_parallel_intensity
from dtlib.foundations.roofline.times import ridge_intensity

_MEGATRON = "Shoeybi et al. 2019"
_LAYER = "layers of 12 H^2 weights, two all-reduces forward that send no more than they must"
_RATES = "peak rates on both sides; no latency; attention scores left out"


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
    symbol=r"R_\text{step}",
    unit="",
    source="72 H^2 / t FLOP per token over the bytes of four all-reduces",
    conditions=f"{_LAYER}, two backward; {_RATES}",
)
def tensor_step_headroom(hidden, tp, element_bytes, peak, beta):
    """The arithmetic of a layer's whole step over its communication, both as times.

    Equation: the intensity of chapter 2 over the ridge of the link.
    Arguments: as of `tensor_forward_headroom`. Returns a ratio.
    Raises ZeroDivisionError for one rank. Source: count.

    >>> round(tensor_step_headroom(hidden=8192, tp=8, element_bytes=2, peak=989e12, beta=450e9), 2)
    2.4
    """
    return tensor_parallel_intensity(hidden, tp, element_bytes) / ridge_intensity(peak, beta)


@formula(
    symbol=r"H_\text{hide}",
    unit="",
    source="where the forward headroom is 1",
    conditions=f"{_LAYER}; {_RATES}",
)
def tensor_parallel_least_hidden(tp, element_bytes, peak, beta):
    """The width from which a forward pass can hide what tensor parallelism sends.

    Equation: where the arithmetic of a layer takes as long as its two all-reduces; with two
    bytes to a number a third of (t - 1) ridges.
    Arguments: as of `tensor_forward_headroom`. Returns a width. Raises ZeroDivisionError for a
    bandwidth of 0. Source: count.

    >>> round(tensor_parallel_least_hidden(tp=8, element_bytes=2, peak=989e12, beta=450e9))
    5128
    """
    return element_bytes * (tp - 1) / 6 * ridge_intensity(peak, beta)


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
