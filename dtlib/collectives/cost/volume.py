"""How much an algorithm sends, in closed form: rounds, messages and bytes.

`Schedule` counts the same: ``len(schedule)``, ``schedule.messages()``, ``schedule.sent_bytes(n)``.
A round counts once however many ranks send in it; messages are counted over all ranks.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, log2


@formula(r"V_\text{ring}", "B", "Patarasuk & Yuan 2009", "the buffer divides into P equal chunks")
def ring_all_reduce_sent_bytes(n, P):
    """Bytes that each rank sends, and receives, in a ring or a halving-doubling all-reduce.

    P - 1 of P chunks to reduce-scatter, and as many to all-gather.

    >>> ring_all_reduce_sent_bytes(n=1000, P=8)
    1750.0
    """
    return 2 * (P - 1) / P * n


@formula(
    r"V_\text{tree}",
    "B",
    "Thakur, Rabenseifner & Gropp 2005",
    "the rank that sends most is the root, which broadcasts",
)
def tree_all_reduce_sent_bytes(n, P):
    """Bytes that the busiest rank sends in a tree all-reduce.

    The root hands the whole buffer to one rank for each level of the tree.

    >>> tree_all_reduce_sent_bytes(n=1000, P=8)
    3000
    """
    return ceil(log2(P)) * n


@formula(r"R_\text{ring}", "", "Patarasuk & Yuan 2009", "one ring in one direction")
def ring_all_reduce_rounds(P):
    """Rounds of a ring all-reduce.

    P - 1 to reduce-scatter, P - 1 to all-gather.

    >>> ring_all_reduce_rounds(P=8)
    14
    """
    return 2 * (P - 1)


@formula(
    r"R_\text{tree}",
    "",
    "Thakur, Rabenseifner & Gropp 2005",
    "binomial trees; halving-doubling takes as many when P is a power of two",
)
def tree_all_reduce_rounds(P):
    """Rounds of a tree all-reduce.

    One round for each level of the tree upwards, and one downwards.

    >>> tree_all_reduce_rounds(P=8)
    6
    """
    return 2 * ceil(log2(P))


@formula(r"M_\text{ring}", "", "Patarasuk & Yuan 2009", "one message for each chunk and hop")
def ring_all_reduce_messages(P):
    """Messages of a ring all-reduce, over all ranks.

    Every rank sends one in every round.

    >>> ring_all_reduce_messages(P=8)
    112
    """
    return P * ring_all_reduce_rounds(P)


@formula(
    r"M_\text{tree}",
    "",
    "Thakur, Rabenseifner & Gropp 2005",
    "any tree, flat or binomial, with the whole buffer in a message",
)
def tree_all_reduce_messages(P):
    """Messages of a tree or a flat all-reduce, over all ranks.

    Every rank but the root hears once and is heard once.

    >>> tree_all_reduce_messages(P=8)
    14
    """
    return 2 * (P - 1)
