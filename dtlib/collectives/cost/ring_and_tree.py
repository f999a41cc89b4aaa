"""What rings and trees cost in closed form.

Each formula says of one algorithm what `schedule_time` adds up on the one-port alpha-beta model,
which is a `Switch`: every rank has one full-duplex port, a message costs ``alpha`` seconds plus its
bytes over ``beta``, the rounds are in step, and adding takes no time.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, floor, log2, maximum, sqrt

ONE_PORT = "one full-duplex port per rank, rounds in step, no contention, adding is free"
POWER_OF_TWO = f"{ONE_PORT}; P is a power of two"


@formula(r"T_\text{ring RS}", "s", "Patarasuk & Yuan 2009", ONE_PORT)
def ring_reduce_scatter_time(n, P, alpha, beta):
    """Time of a ring reduce-scatter.

    P - 1 rounds, each with 1/P of the buffer.

    >>> round(ring_reduce_scatter_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.017535
    """
    return (P - 1) * alpha + (P - 1) / P * n / beta


@formula(r"T_\text{ring AG}", "s", "Patarasuk & Yuan 2009", ONE_PORT)
def ring_all_gather_time(n, P, alpha, beta):
    """Time of a ring all-gather of `n` bytes in all.

    P - 1 rounds, each with 1/P of the buffer.

    >>> round(ring_all_gather_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.017535
    """
    return (P - 1) * alpha + (P - 1) / P * n / beta


@formula(r"T_\text{ring}", "s", "Patarasuk & Yuan 2009", ONE_PORT)
def ring_all_reduce_time(n, P, alpha, beta):
    """Time of a ring all-reduce.

    A ring reduce-scatter and a ring all-gather.

    >>> round(ring_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.03507
    """
    return 2 * (P - 1) * alpha + 2 * (P - 1) / P * n / beta


@formula(r"T_\text{tree bcast}", "s", "Thakur, Rabenseifner & Gropp 2005", ONE_PORT)
def tree_broadcast_time(n, P, alpha, beta):
    """Time of a tree broadcast, and of a tree reduction.

    One round for each level of the tree, each with the whole buffer.

    >>> round(tree_broadcast_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.060015
    """
    return ceil(log2(P)) * (alpha + n / beta)


@formula(r"T_\text{tree}", "s", "Thakur, Rabenseifner & Gropp 2005", ONE_PORT)
def tree_all_reduce_time(n, P, alpha, beta):
    """Time of a tree reduction and a tree broadcast.

    Twice ceil(log2 P) rounds, each with the whole buffer.

    >>> round(tree_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.12003
    """
    return 2 * ceil(log2(P)) * (alpha + n / beta)


@formula(r"T_\text{flat}", "s", "Hockney 1994", ONE_PORT)
def flat_all_reduce_time(n, P, alpha, beta):
    """Time of an all-reduce in which rank 0 hears every rank and answers every rank.

    Rank 0's port takes P - 1 whole buffers in, one by one, and P - 1 out.

    >>> round(flat_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.28007
    """
    return 2 * (P - 1) * (alpha + n / beta)


@formula(r"T_\text{doubling}", "s", "Thakur, Rabenseifner & Gropp 2005", POWER_OF_TWO)
def recursive_doubling_all_reduce_time(n, P, alpha, beta):
    """Time of a recursive doubling all-reduce.

    log2 P rounds, each with the whole buffer.

    >>> round(recursive_doubling_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.060015
    """
    return log2(P) * (alpha + n / beta)


@formula(r"T_\text{halving}", "s", "Rabenseifner 2004", POWER_OF_TWO)
def halving_doubling_all_reduce_time(n, P, alpha, beta):
    """Time of a halving-doubling all-reduce.

    2 log2 P rounds, with the bytes of a ring.

    >>> round(halving_doubling_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.03503
    """
    return 2 * log2(P) * alpha + 2 * (P - 1) / P * n / beta


@formula(
    r"T_\text{two trees}",
    "s",
    "Sanders, Speck & Träff 2009",
    f"{ONE_PORT}; an upper bound, met when P is 4, 16, 64 or 256",
)
def double_binary_tree_all_reduce_time(n, P, S, alpha, beta):
    """Time that a double binary tree all-reduce needs at most.

    4 floor(log2 P) + 4 (S - 1) rounds, each with one segment of half the buffer.

    >>> round(double_binary_tree_all_reduce_time(n=10**9, P=256, S=100, alpha=5e-6, beta=50e9), 6)
    0.04494
    """
    return 4 * (floor(log2(P)) + S - 1) * (alpha + n / (2 * S * beta))


@formula(
    r"S_\text{best}",
    "",
    "Sanders, Speck & Träff 2009",
    f"{ONE_PORT}; for the upper bound on its time",
)
def double_binary_tree_best_segments(n, P, alpha, beta):
    """How many segments make the double binary tree fastest.

    Where more rounds begin to cost more than shorter rounds save; at least 1. Seldom a whole
    number.

    >>> round(double_binary_tree_best_segments(n=10**9, P=256, alpha=5e-6, beta=50e9))
    118
    """
    return maximum(1, sqrt(maximum(0, floor(log2(P)) - 1) * n / (2 * alpha * beta)))


@formula(r"T_\text{pairwise}", "s", "Thakur, Rabenseifner & Gropp 2005", ONE_PORT)
def pairwise_all_to_all_time(n, P, alpha, beta):
    """Time of a pairwise all-to-all.

    P - 1 rounds, each with the 1/P of the buffer that is meant for one rank.

    >>> round(pairwise_all_to_all_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.017535
    """
    return (P - 1) * alpha + (P - 1) / P * n / beta


@formula(
    r"n_\text{ring/tree}", "B", "Thakur, Rabenseifner & Gropp 2005", f"{ONE_PORT}; P is at least 2"
)
def ring_tree_crossover_bytes(P, alpha, beta):
    """The buffer size from which on the ring is faster than the tree.

    `ring_all_reduce_time` equals `tree_all_reduce_time`.

    >>> round(ring_tree_crossover_bytes(P=256, alpha=10e-6, beta=50e9))
    17633017
    """
    return alpha * beta * (P - 1 - ceil(log2(P))) / (ceil(log2(P)) - (P - 1) / P)


@formula(r"n_{1/2}^\text{ring}", "B", "Hockney & Jesshope 1988", "ring all-reduce; " + ONE_PORT)
def ring_half_performance_bytes(P, alpha, beta):
    """The buffer size at which a ring spends as long on latency as on bytes.

    P times the half-performance size of one message.

    >>> round(ring_half_performance_bytes(P=64, alpha=2e-6, beta=50e9))
    6400000
    """
    return P * alpha * beta
