"""What collectives cost on nodes with one network port for each rank, in closed form.

`hierarchical_all_reduce`, `multi_rail_ring_all_reduce`, `two_level_all_to_all` (packed) and
`halving_doubling_all_gather` (of ranks dealt in turn) on a machine of `Nodes`. Ports inside a
node have a latency and a bandwidth of their own; a port takes its messages one after the other.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import log2, maximum

CONDITIONS = "one NIC for each rank, rounds in step, adding is free; at least two nodes"


@formula(r"T_\text{h}", "s", "Patarasuk & Yuan 2009, one ring inside another", CONDITIONS)
def hierarchical_all_reduce_time(n, nodes, ranks_per_node, alpha_in, beta_in, alpha, beta):
    """Time of a hierarchical all-reduce: rings inside every node, and rings across nodes.

    A ring reduce-scatter and a ring all-gather of the whole buffer in the node, and in between a
    ring all-reduce of each rank's share with its counterparts in other nodes. `alpha` and `beta`
    are those of one NIC.

    >>> round(hierarchical_all_reduce_time(10**10, 8, 8, 1e-6, 450e9, 5e-6, 50e9), 6)
    0.082723
    """
    return 2 * (ranks_per_node - 1) * (alpha_in + n / (ranks_per_node * beta_in)) + 2 * (
        nodes - 1
    ) * (alpha + n / (nodes * ranks_per_node * beta))


@formula(r"T_\text{rails}", "s", "Patarasuk & Yuan 2009, one ring for each rail", CONDITIONS)
def multi_rail_ring_all_reduce_time(n, nodes, ranks_per_node, alpha_in, beta_in, alpha, beta):
    """Time of as many rings as a node has ranks, each on its share, each with its own network port.

    The rounds of one ring over all ranks; in each, a NIC has one message, and a rank has one for
    every other rank's ring to pass on inside the node. `alpha` and `beta` are those of one NIC.

    >>> round(multi_rail_ring_all_reduce_time(10**10, 8, 8, 1e-6, 450e9, 5e-6, 50e9), 6)
    0.049849
    """
    return (
        2
        * (nodes * ranks_per_node - 1)
        * maximum(
            alpha + n / (nodes * ranks_per_node**2 * beta),
            (ranks_per_node - 1) * (alpha_in + n / (nodes * ranks_per_node**2 * beta_in)),
        )
    )


@formula(
    r"T_\text{two levels}",
    "s",
    "count of the rounds",
    f"{CONDITIONS}; equal blocks; blocks that travel together are one message, copying is free",
)
def two_level_all_to_all_time(n, nodes, ranks_per_node, alpha_in, beta_in, alpha, beta):
    """Time of an all-to-all that sorts inside every node before it crosses.

    Inside, all of a rank's buffer but its own share moves once; across, all but what stays in the
    node. `alpha` and `beta` are those of one NIC.

    >>> round(two_level_all_to_all_time(10**9, 8, 8, 1e-6, 450e9, 5e-6, 50e9), 6)
    0.019486
    """
    return (ranks_per_node - 1) * (alpha_in + n / (ranks_per_node * beta_in)) + (nodes - 1) * (
        alpha + n / (nodes * beta)
    )


@formula(
    r"T_\text{dealt AG}",
    "s",
    "Chan, Heimlich, Purkayastha & van de Geijn 2007, across nodes before inside",
    f"{CONDITIONS}; nodes and their ranks are powers of two",
)
def dealt_all_gather_time(n, nodes, ranks_per_node, alpha_in, beta_in, alpha, beta):
    """Time of an all-gather by doubling, which crosses nodes first, while what it has is small.

    `n` bytes are gathered. Across, log2 N rounds with all parts of equal place; inside, log2 G
    rounds with all the rest. `alpha` and `beta` are those of one NIC.

    >>> round(dealt_all_gather_time(10**9, 8, 8, 1e-6, 450e9, 5e-6, 50e9), 6)
    0.00415
    """
    return (
        log2(nodes) * alpha
        + (nodes - 1) * n / (nodes * ranks_per_node * beta)
        + log2(ranks_per_node) * alpha_in
        + (ranks_per_node - 1) * n / (ranks_per_node * beta_in)
    )
