"""What compression sends and saves: bytes of a message, who may gather, and when it pays."""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import minimum, sqrt

_RINGS = "ring all-reduce against ring all-gather; bytes only; no two ranks keep the same places"


@formula(r"\kappa_\text{sparse}", "", "counting", "a place is sent with each number")
def sparse_message_fraction(sent_share, element_bytes, index_bytes):
    """Bytes of a sparse message over those of the dense vector.

    Of each number that is kept, the number and its place.

    >>> sparse_message_fraction(sent_share=0.25, element_bytes=2, index_bytes=4)
    0.75
    """
    return sent_share * (element_bytes + index_bytes) / element_bytes


@formula(r"R_\text{gather}", "", "bytes of an all-gather over bytes of an all-reduce", _RINGS)
def gathered_over_dense_ratio(P, sent_share, element_bytes, index_bytes):
    """How many times the bytes of a dense all-reduce an all-gather of sparse messages sends.

    (P - 1) messages against 2 (P - 1) / P vectors; P - 1 cancels.

    >>> gathered_over_dense_ratio(P=512, sent_share=0.25, element_bytes=2, index_bytes=4)
    192.0
    """
    return P * sparse_message_fraction(sent_share, element_bytes, index_bytes) / 2


@formula(r"P_\text{border}", "", "where the ratio of the two is 1", _RINGS)
def sparse_border_ranks(sent_share, element_bytes, index_bytes):
    """The number of ranks beyond which sparse messages, gathered, are more bytes than dense ones.

    With numbers and places of one size it is one over the share. Not rounded.

    >>> sparse_border_ranks(sent_share=0.25, element_bytes=2, index_bytes=6)
    2.0
    """
    return 2 * element_bytes / ((element_bytes + index_bytes) * sent_share)


@formula(
    r"M_\text{err}",
    "",
    "Karimireddy et al. 2019, lemma 3",
    "a contraction in every step; over the largest mean square of a gradient",
)
def residual_bound(contraction):
    """How many times the square of a gradient the square of the memory can be, on average.

    >>> residual_bound(contraction=0.25)
    48.0
    """
    return 4 * (1 - contraction) / contraction**2


@formula(r"\omega_\text{QSGD}", "", "Alistarh et al. 2017", "levels reach to the Euclidean norm")
def levels_variance_bound(bucket_length, levels):
    """A bound of omega for QSGD: the mean square of its error over the square of the vector.

    Fine levels have an error of at most a gap each; coarse ones are mostly zeros.

    >>> levels_variance_bound(bucket_length=64, levels=16), levels_variance_bound(64, 2)
    (0.25, 4.0)
    """
    return minimum(bucket_length / levels**2, sqrt(bucket_length) / levels)


@formula(r"\kappa_\text{low}", "", "counting", "two factors in place of one matrix")
def low_rank_fraction(low_rank, rows, columns):
    """Numbers of a matrix's two factors over those of the matrix.

    >>> low_rank_fraction(low_rank=2, rows=8, columns=16)
    0.375
    """
    return low_rank * (rows + columns) / (rows * columns)


@formula(
    r"\beta_\text{pays}",
    "B/s",
    "where both steps take equally long",
    "nothing overlaps; latency is equal",
)
def paying_bandwidth(dense_sent, sent, coding):
    """The bandwidth below which compression makes a step shorter.

    The bytes that are saved, over the time that coding takes.

    >>> paying_bandwidth(dense_sent=10, sent=2, coding=4)
    2.0
    """
    return (dense_sent - sent) / coding


@formula(r"T_\text{coded}", "s", "counting", "nothing overlaps; one collective after the other")
def compressed_step_time(computing, coding, sent, alpha, beta):
    """One step: compute, code, send.

    >>> compressed_step_time(computing=1, coding=2, sent=12, alpha=5, beta=3)
    12.0
    """
    return computing + coding + alpha + sent / beta
