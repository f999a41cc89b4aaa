"""Sharding within a node only: what crosses the border between nodes, port by port."""

from dtlib.formulas.formula import formula

_PORTS = (
    "one network port for each rank, and all ports used evenly; weights and gradients of one width"
)


@formula(
    r"Q_\text{out,full}",
    "B",
    "a node as one rank of an all-gather; Rajbhandari et al. 2020",
    _PORTS,
)
def full_port_bytes(params, nodes, ranks_per_node, m, element_bytes):
    """What a rank's port sends between nodes when weights are cut over all ranks of all nodes.

    For each micro-batch all weights enter a node twice, and gradients leave it once; the ports of
    the node share the work. In one step.

    >>> full_port_bytes(params=8e9, nodes=16, ranks_per_node=8, m=1, element_bytes=2) / 1e9
    5.625
    """
    return 3 * m * (nodes - 1) / nodes * element_bytes * params / ranks_per_node


@formula(
    r"Q_\text{out,hybrid}",
    "B",
    "Zhang et al. 2022; Zhao et al. 2023",
    _PORTS + "; gradients are added between nodes once a step",
)
def hybrid_port_bytes(params, nodes, ranks_per_node, element_bytes):
    """What a rank's port sends between nodes when every node has all weights among its ranks.

    One all-reduce of the rank's part of the gradient, among the nodes. In one step.

    >>> hybrid_port_bytes(params=8e9, nodes=16, ranks_per_node=8, element_bytes=2) / 1e9
    3.75
    """
    return 2 * (nodes - 1) / nodes * element_bytes * params / ranks_per_node
