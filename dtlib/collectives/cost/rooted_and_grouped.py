"""What the algorithms with a root, in groups and to all cost, in closed form.

As in `dtlib.collectives.cost.ring_and_tree`: the one-port alpha-beta model, unless the conditions
say otherwise. `schedule_time` on a `Switch` gives the same. What rings cost on nodes is in
`levels`.
"""

from dtlib.collectives.cost.ring_and_tree import ONE_PORT, POWER_OF_TWO
from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, floor, log2, maximum, sqrt

CHAN = "Chan, Heimlich, Purkayastha & van de Geijn 2007"
TWO_LINKS = "a link to either neighbour, usable at once, in both directions; rounds in step"


@formula(
    symbol=r"T_\text{flat scatter}",
    unit="s",
    source="Hockney 1994",
    conditions=ONE_PORT,
)
def flat_scatter_time(n, P, alpha, beta):
    """Time of a flat scatter, and of a flat gather.

    Equation: rank 0's port passes P - 1 parts, one by one.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Hockney 1994.

    >>> round(flat_scatter_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.017535
    """
    return (P - 1) * (alpha + n / (P * beta))


@formula(
    symbol=r"T_\text{tree scatter}",
    unit="s",
    source=CHAN,
    conditions=ONE_PORT,
)
def tree_scatter_time(n, P, alpha, beta):
    """Time of a tree scatter, and of a tree gather.

    Equation: one round for each level of the tree; rank 0's port carries all parts but its own.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Chan, Heimlich, Purkayastha & van de Geijn 2007.

    >>> round(tree_scatter_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.017515
    """
    return ceil(log2(P)) * alpha + (P - 1) / P * n / beta


@formula(
    symbol=r"T_\text{chain bcast}",
    unit="s",
    source=CHAN,
    conditions=f"{ONE_PORT}; P is at least 2",
)
def chain_broadcast_time(n, P, S, alpha, beta):
    """Time of a chain broadcast, and of a chain reduction.

    Equation: the first of `S` segments needs P - 1 rounds to the last rank, each other one more.
    Arguments: `n` bytes per rank, `P` ranks, `S` segments, `alpha` seconds, `beta` bytes/s per
    direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Chan, Heimlich, Purkayastha & van de Geijn 2007.

    >>> round(chain_broadcast_time(n=10**9, P=8, S=100, alpha=5e-6, beta=50e9), 6)
    0.02173
    """
    return (P + S - 2) * (alpha + n / (S * beta))


@formula(
    symbol=r"S_\text{chain}",
    unit="",
    source=CHAN,
    conditions=f"{ONE_PORT}; P is at least 2",
)
def chain_best_segments(n, P, alpha, beta):
    """How many segments make a chain fastest.

    Equation: where more rounds begin to cost more than shorter rounds save; at least 1.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns a count, seldom a whole one. Raises ZeroDivisionError when `alpha` or `beta` is 0.
    Source: Chan, Heimlich, Purkayastha & van de Geijn 2007.

    >>> round(chain_best_segments(n=10**9, P=8, alpha=5e-6, beta=50e9))
    155
    """
    return maximum(1, sqrt((P - 2) * n / (alpha * beta)))


@formula(
    symbol=r"T_\text{chain AR}",
    unit="s",
    source=CHAN,
    conditions=f"{ONE_PORT}; P is at least 2",
)
def chain_all_reduce_time(n, P, S, alpha, beta):
    """Time of a chain all-reduce.

    Equation: a chain reduction, then a chain broadcast.
    Arguments: `n` bytes per rank, `P` ranks, `S` segments, `alpha` seconds, `beta` bytes/s per
    direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Chan, Heimlich, Purkayastha & van de Geijn 2007.

    >>> round(chain_all_reduce_time(n=10**9, P=8, S=100, alpha=5e-6, beta=50e9), 6)
    0.04346
    """
    return 2 * chain_broadcast_time(n, P, S, alpha, beta)


@formula(
    symbol=r"T_\text{sc+AG}",
    unit="s",
    source=CHAN,
    conditions=f"{ONE_PORT}; P is at least 2",
)
def scatter_all_gather_broadcast_time(n, P, alpha, beta):
    """Time of a broadcast that scatters first.

    Equation: a tree scatter, then a ring all-gather.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Chan, Heimlich, Purkayastha & van de Geijn 2007.

    >>> round(scatter_all_gather_broadcast_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.03505
    """
    return (ceil(log2(P)) + P - 1) * alpha + 2 * (P - 1) / P * n / beta


@formula(
    symbol=r"T_\text{folded}",
    unit="s",
    source="Rabenseifner 2004",
    conditions=ONE_PORT,
)
def folded_halving_doubling_all_reduce_time(n, P, alpha, beta):
    """Time of a halving-doubling all-reduce, folded where P is no power of two.

    Equation: 2 ceil(log2 P) rounds; with the largest power of two Q up to P, the bytes of a ring of
    Q ranks, and where P is not Q, 2 n more to fold and unfold.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Rabenseifner 2004.

    >>> round(folded_halving_doubling_all_reduce_time(n=10**9, P=6, alpha=5e-6, beta=50e9), 6)
    0.07003
    """
    return (
        2 * ceil(log2(P)) * alpha
        + 2 * (1 + ceil(log2(P)) - floor(log2(P))) * n / beta
        - 2 * n / (2 ** floor(log2(P)) * beta)
    )


@formula(
    symbol=r"T_\text{two ways}",
    unit="s",
    source="Patarasuk & Yuan 2009",
    conditions=ONE_PORT,
)
def two_way_ring_all_reduce_time(n, P, alpha, beta):
    """Time of a two-way ring all-reduce on ranks with one port.

    Equation: as many rounds as a ring, each with two messages of half a chunk.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Patarasuk & Yuan 2009.

    >>> round(two_way_ring_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.03514
    """
    return 2 * (P - 1) * (2 * alpha + n / (P * beta))


@formula(
    symbol=r"T_\text{two links}",
    unit="s",
    source="Patarasuk & Yuan 2009",
    conditions=TWO_LINKS,
)
def two_link_ring_all_reduce_time(n, P, alpha, beta):
    """Time of a two-way ring all-reduce on ranks with a link to either neighbour.

    Equation: as many rounds as a ring, each with half a chunk on every link.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per link, one way.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Patarasuk & Yuan 2009.

    >>> round(two_link_ring_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.01757
    """
    return 2 * (P - 1) * (alpha + n / (2 * P * beta))


@formula(
    symbol=r"T_\text{half ring}",
    unit="s",
    source="Patarasuk & Yuan 2009",
    conditions=TWO_LINKS,
)
def half_ring_all_reduce_time(n, P, alpha, beta):
    """Time of a half-ring all-reduce on ranks with a link to either neighbour.

    Equation: 2 floor(P / 2) rounds, each with a chunk on every link.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per link, one way.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Patarasuk & Yuan 2009.

    >>> round(half_ring_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.02004
    """
    return 2 * floor(P / 2) * (alpha + n / (P * beta))


@formula(
    symbol=r"T_\text{Bruck}",
    unit="s",
    source="Bruck, Ho, Kipnis, Upfal & Weathersby 1997",
    conditions=f"{POWER_OF_TWO}; blocks for one rank travel as one message, copying them is free",
)
def bruck_all_to_all_time(n, P, alpha, beta):
    """Time of Bruck's all-to-all.

    Equation: log2 P rounds, each with half of the blocks.
    Arguments: `n` bytes per rank, `P` ranks, `alpha` seconds, `beta` bytes/s per direction.
    Returns seconds. Raises ZeroDivisionError for `beta` = 0.
    Source: Bruck, Ho, Kipnis, Upfal & Weathersby 1997.

    >>> round(bruck_all_to_all_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.030015
    """
    return log2(P) * (alpha + n / (2 * beta))
