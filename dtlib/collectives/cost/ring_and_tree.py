"""What rings and trees cost in closed form.

Each formula says of one algorithm what `schedule_time` adds up on the one-port alpha-beta model,
which is a `Switch`: every rank has one full-duplex port, a message costs ``alpha`` seconds plus its
bytes over ``beta``, the rounds are in step, and adding takes no time.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, floor, log2, maximum, sqrt

ONE_PORT = "one full-duplex port per rank, rounds in step, no contention, adding is free"
POWER_OF_TWO = f"{ONE_PORT}; P is a power of two"


@formula(
    symbol=r"T_\text{ring RS}",
    unit="s",
    source="Patarasuk & Yuan 2009",
    conditions=ONE_PORT,
)
def ring_reduce_scatter_time(n, P, alpha, beta):
    """Time of a ring reduce-scatter.

    Equation: P - 1 rounds, each with 1/P of the buffer.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Patarasuk & Yuan 2009.

    >>> round(ring_reduce_scatter_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.017535
    """
    return (P - 1) * alpha + (P - 1) / P * n / beta


@formula(
    symbol=r"T_\text{ring AG}",
    unit="s",
    source="Patarasuk & Yuan 2009",
    conditions=ONE_PORT,
)
def ring_all_gather_time(n, P, alpha, beta):
    """Time of a ring all-gather of `n` bytes in all.

    Equation: P - 1 rounds, each with 1/P of the buffer.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Patarasuk & Yuan 2009.

    >>> round(ring_all_gather_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.017535
    """
    return (P - 1) * alpha + (P - 1) / P * n / beta


@formula(
    symbol=r"T_\text{ring}",
    unit="s",
    source="Patarasuk & Yuan 2009",
    conditions=ONE_PORT,
)
def ring_all_reduce_time(n, P, alpha, beta):
    """Time of a ring all-reduce.

    Equation: a ring reduce-scatter and a ring all-gather.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Patarasuk & Yuan 2009.

    >>> round(ring_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.03507
    """
    return 2 * (P - 1) * alpha + 2 * (P - 1) / P * n / beta


@formula(
    symbol=r"T_\text{tree bcast}",
    unit="s",
    source="Thakur, Rabenseifner & Gropp 2005",
    conditions=ONE_PORT,
)
def tree_broadcast_time(n, P, alpha, beta):
    """Time of a tree broadcast, and of a tree reduction.

    Equation: one round for each level of the tree, each with the whole buffer.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Thakur, Rabenseifner & Gropp 2005.

    >>> round(tree_broadcast_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.060015
    """
    return ceil(log2(P)) * (alpha + n / beta)


@formula(
    symbol=r"T_\text{tree}",
    unit="s",
    source="Thakur, Rabenseifner & Gropp 2005",
    conditions=ONE_PORT,
)
def tree_all_reduce_time(n, P, alpha, beta):
    """Time of a tree reduction and a tree broadcast.

    Equation: twice ceil(log2 P) rounds, each with the whole buffer.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Thakur, Rabenseifner & Gropp 2005.

    >>> round(tree_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.12003
    """
    return 2 * ceil(log2(P)) * (alpha + n / beta)


@formula(
    symbol=r"T_\text{flat}",
    unit="s",
    source="Hockney 1994",
    conditions=ONE_PORT,
)
def flat_all_reduce_time(n, P, alpha, beta):
    """Time of an all-reduce in which rank 0 hears every rank and answers every rank.

    Equation: rank 0's port takes P - 1 whole buffers in, one by one, and P - 1 out.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Hockney 1994.

    >>> round(flat_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.28007
    """
    return 2 * (P - 1) * (alpha + n / beta)


@formula(
    symbol=r"T_\text{doubling}",
    unit="s",
    source="Thakur, Rabenseifner & Gropp 2005",
    conditions=POWER_OF_TWO,
)
def recursive_doubling_all_reduce_time(n, P, alpha, beta):
    """Time of a recursive doubling all-reduce.

    Equation: log2 P rounds, each with the whole buffer.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Thakur, Rabenseifner & Gropp 2005.

    >>> round(recursive_doubling_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.060015
    """
    return log2(P) * (alpha + n / beta)


@formula(
    symbol=r"T_\text{halving}",
    unit="s",
    source="Rabenseifner 2004",
    conditions=POWER_OF_TWO,
)
def halving_doubling_all_reduce_time(n, P, alpha, beta):
    """Time of a halving-doubling all-reduce.

    Equation: 2 log2 P rounds, with the bytes of a ring.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Rabenseifner 2004.

    >>> round(halving_doubling_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.03503
    """
    return 2 * log2(P) * alpha + 2 * (P - 1) / P * n / beta


@formula(
    symbol=r"T_\text{two trees}",
    unit="s",
    source="Sanders, Speck & Träff 2009",
    conditions=f"{ONE_PORT}; an upper bound, met when P is 4, 16, 64 or 256",
)
def double_binary_tree_all_reduce_time(n, P, S, alpha, beta):
    """Time that a double binary tree all-reduce needs at most.

    Equation: 4 floor(log2 P) + 4 (S - 1) rounds, each with one segment of half the buffer.
    Arguments: `n` bytes per rank, `P` ranks, `S` segments of each half, `alpha` seconds, `beta`
    bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Sanders, Speck & Träff 2009.

    >>> round(double_binary_tree_all_reduce_time(n=10**9, P=256, S=100, alpha=5e-6, beta=50e9), 6)
    0.04494
    """
    return 4 * (floor(log2(P)) + S - 1) * (alpha + n / (2 * S * beta))


@formula(
    symbol=r"S_\text{best}",
    unit="",
    source="Sanders, Speck & Träff 2009",
    conditions=f"{ONE_PORT}; for the upper bound on its time",
)
def double_binary_tree_best_segments(n, P, alpha, beta):
    """How many segments make the double binary tree fastest.

    Equation: where more rounds begin to cost more than shorter rounds save; at least 1.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns a count, seldom a whole one. Raises ZeroDivisionError when `alpha` or `beta` is 0.
    Source: Sanders, Speck & Träff 2009.

    >>> round(double_binary_tree_best_segments(n=10**9, P=256, alpha=5e-6, beta=50e9))
    118
    """
    return maximum(1, sqrt(maximum(0, floor(log2(P)) - 1) * n / (2 * alpha * beta)))


@formula(
    symbol=r"T_\text{pairwise}",
    unit="s",
    source="Thakur, Rabenseifner & Gropp 2005",
    conditions=ONE_PORT,
)
def pairwise_all_to_all_time(n, P, alpha, beta):
    """Time of a pairwise all-to-all.

    Equation: P - 1 rounds, each with the 1/P of the buffer that is meant for one rank.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Thakur, Rabenseifner & Gropp 2005.

    >>> round(pairwise_all_to_all_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.017535
    """
    return (P - 1) * alpha + (P - 1) / P * n / beta


@formula(
    symbol=r"n_\text{ring/tree}",
    unit="B",
    source="Thakur, Rabenseifner & Gropp 2005",
    conditions=f"{ONE_PORT}; P is at least 2",
)
def ring_tree_crossover_bytes(P, alpha, beta):
    """The buffer size from which on the ring is faster than the tree.

    Equation: `ring_all_reduce_time` equals `tree_all_reduce_time`.
    Arguments: `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns bytes. Raises ZeroDivisionError for `P` = 1.
    Source: Thakur, Rabenseifner & Gropp 2005.

    >>> round(ring_tree_crossover_bytes(P=256, alpha=10e-6, beta=50e9))
    17633017
    """
    return alpha * beta * (P - 1 - ceil(log2(P))) / (ceil(log2(P)) - (P - 1) / P)


@formula(
    symbol=r"n_{1/2}^\text{ring}",
    unit="B",
    source="Hockney & Jesshope 1988",
    conditions="ring all-reduce; " + ONE_PORT,
)
def ring_half_performance_bytes(P, alpha, beta):
    """The buffer size at which a ring spends as long on latency as on bytes.

    Equation: P times the half-performance size of one message.
    Arguments: `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns bytes. Raises nothing.
    Source: Hockney & Jesshope 1988.

    >>> round(ring_half_performance_bytes(P=64, alpha=2e-6, beta=50e9))
    6400000
    """
    return P * alpha * beta
