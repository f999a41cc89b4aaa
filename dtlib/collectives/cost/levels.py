"""What an all-reduce costs on nodes with one network port for each rank: two ways, in closed form.

`hierarchical_all_reduce` and `multi_rail_ring_all_reduce` on a machine of `Nodes`. Ports inside a
node have a latency and a bandwidth of their own; a port takes its messages one after the other.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum

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
