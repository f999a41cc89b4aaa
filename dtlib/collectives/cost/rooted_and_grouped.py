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


@formula(r"T_\text{flat scatter}", "s", "Hockney 1994", ONE_PORT)
def flat_scatter_time(n, P, alpha, beta):
    """Time of a flat scatter, and of a flat gather.

    Rank 0's port passes P - 1 parts, one by one.

    >>> round(flat_scatter_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.017535
    """
    return (P - 1) * (alpha + n / (P * beta))


@formula(r"T_\text{tree scatter}", "s", CHAN, ONE_PORT)
def tree_scatter_time(n, P, alpha, beta):
    """Time of a tree scatter, and of a tree gather.

    One round for each level of the tree; rank 0's port carries all parts but its own.

    >>> round(tree_scatter_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.017515
    """
    return ceil(log2(P)) * alpha + (P - 1) / P * n / beta


@formula(r"T_\text{chain bcast}", "s", CHAN, f"{ONE_PORT}; P is at least 2")
def chain_broadcast_time(n, P, S, alpha, beta):
    """Time of a chain broadcast, and of a chain reduction.

    The first of `S` segments needs P - 1 rounds to the last rank, each other one more.

    >>> round(chain_broadcast_time(n=10**9, P=8, S=100, alpha=5e-6, beta=50e9), 6)
    0.02173
    """
    return (P + S - 2) * (alpha + n / (S * beta))


@formula(r"S_\text{chain}", "", CHAN, f"{ONE_PORT}; P is at least 2")
def chain_best_segments(n, P, alpha, beta):
    """How many segments make a chain fastest.

    Where more rounds begin to cost more than shorter rounds save; at least 1. Seldom a whole
    number.

    >>> round(chain_best_segments(n=10**9, P=8, alpha=5e-6, beta=50e9))
    155
    """
    return maximum(1, sqrt((P - 2) * n / (alpha * beta)))


@formula(r"T_\text{chain AR}", "s", CHAN, f"{ONE_PORT}; P is at least 2")
def chain_all_reduce_time(n, P, S, alpha, beta):
    """Time of a chain all-reduce.

    A chain reduction, then a chain broadcast.

    >>> round(chain_all_reduce_time(n=10**9, P=8, S=100, alpha=5e-6, beta=50e9), 6)
    0.04346
    """
    return 2 * chain_broadcast_time(n, P, S, alpha, beta)


@formula(r"T_\text{sc+AG}", "s", CHAN, f"{ONE_PORT}; P is at least 2")
def scatter_all_gather_broadcast_time(n, P, alpha, beta):
    """Time of a broadcast that scatters first.

    A tree scatter, then a ring all-gather.

    >>> round(scatter_all_gather_broadcast_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.03505
    """
    return (ceil(log2(P)) + P - 1) * alpha + 2 * (P - 1) / P * n / beta


@formula(r"T_\text{folded}", "s", "Rabenseifner 2004", ONE_PORT)
def folded_halving_doubling_all_reduce_time(n, P, alpha, beta):
    """Time of a halving-doubling all-reduce, folded where P is no power of two.

    2 ceil(log2 P) rounds; with the largest power of two Q up to P, the bytes of a ring of Q ranks,
    and where P is not Q, 2 n more to fold and unfold.

    >>> round(folded_halving_doubling_all_reduce_time(n=10**9, P=6, alpha=5e-6, beta=50e9), 6)
    0.07003
    """
    return (
        2 * ceil(log2(P)) * alpha
        + 2 * (1 + ceil(log2(P)) - floor(log2(P))) * n / beta
        - 2 * n / (2 ** floor(log2(P)) * beta)
    )


@formula(r"T_\text{two ways}", "s", "Patarasuk & Yuan 2009", ONE_PORT)
def two_way_ring_all_reduce_time(n, P, alpha, beta):
    """Time of a two-way ring all-reduce on ranks with one port.

    As many rounds as a ring, each with two messages of half a chunk.

    >>> round(two_way_ring_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.03514
    """
    return 2 * (P - 1) * (2 * alpha + n / (P * beta))


@formula(r"T_\text{two links}", "s", "Patarasuk & Yuan 2009", TWO_LINKS)
def two_link_ring_all_reduce_time(n, P, alpha, beta):
    """Time of a two-way ring all-reduce on ranks with a link to either neighbour.

    As many rounds as a ring, each with half a chunk on every link. `beta` is that of one link, one
    way.

    >>> round(two_link_ring_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.01757
    """
    return 2 * (P - 1) * (alpha + n / (2 * P * beta))


@formula(r"T_\text{half ring}", "s", "Patarasuk & Yuan 2009", TWO_LINKS)
def half_ring_all_reduce_time(n, P, alpha, beta):
    """Time of a half-ring all-reduce on ranks with a link to either neighbour.

    2 floor(P / 2) rounds, each with a chunk on every link. `beta` is that of one link, one way.

    >>> round(half_ring_all_reduce_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.02004
    """
    return 2 * floor(P / 2) * (alpha + n / (P * beta))


@formula(
    r"T_\text{Bruck}",
    "s",
    "Bruck, Ho, Kipnis, Upfal & Weathersby 1997",
    f"{POWER_OF_TWO}; blocks for one rank travel as one message, copying them is free",
)
def bruck_all_to_all_time(n, P, alpha, beta):
    """Time of Bruck's all-to-all.

    log2 P rounds, each with half of the blocks.

    >>> round(bruck_all_to_all_time(n=10**9, P=8, alpha=5e-6, beta=50e9), 6)
    0.030015
    """
    return log2(P) * (alpha + n / (2 * beta))
