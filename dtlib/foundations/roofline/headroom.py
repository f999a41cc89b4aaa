"""How much each resource of a node has to spare when replicas of a model train on many of them.

A replica is a group of `tp` ranks that share every layer; replicas share the batch. Three
resources of a node carry the step beside the arithmetic: the memory of each rank, its link to the
others of the node, and the node's network ports. The headroom of each is the time of the arithmetic
over the time for which that resource is busy.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum, where
from dtlib.foundations.roofline.intensity import tensor_parallel_intensity
from dtlib.foundations.roofline.times import headroom


@formula(
    r"h_\text{memory}",
    "",
    "count of the bytes that a weight costs in a step",
    (
        "mixed precision and Adam, one pass over the weights forward and one backward; "
        "activations are not counted"
    ),
)
def memory_headroom(tokens_per_rank, tp, peak, bandwidth):
    """The headroom of memory bandwidth for weights, gradients and optimizer.

    6 FLOP for each weight and token of the group, over the 34 bytes that a weight costs in a step:
    read forward (2), read backward (2), gradient written (2), and the update, which reads gradient
    and state (2 + 12) and writes state and weight (12 + 2).

    >>> round(memory_headroom(tokens_per_rank=3000, tp=1, peak=989e12, bandwidth=3.35e12), 2)
    1.79
    """
    return headroom(6 * tokens_per_rank * tp / 34, peak, bandwidth)


@formula(
    r"h_\text{link}",
    "",
    "Shoeybi et al. 2019, whose four all-reduces are counted",
    "as for the intensity of tensor parallelism; gradients are not counted",
)
def link_headroom(hidden, tp, element_bytes, peak, beta):
    """The headroom of a rank's link for the all-reduces of tensor parallelism.

    The intensity of tensor parallelism over the ridge of that link.

    >>> round(link_headroom(hidden=8192, tp=8, element_bytes=2, peak=989e12, beta=450e9), 2)
    2.4
    """
    return headroom(tensor_parallel_intensity(hidden, tp, element_bytes), peak, beta)


@formula(
    r"I_\text{border}",
    "FLOP/B",
    "a ring of neighbours leaves its node once",
    "many replicas; rings run from neighbour to neighbour, node by node",
)
def border_intensity(tokens_per_rank, hidden, tp, ranks_per_node, element_bytes):
    """Work of one rank for each byte that crosses the border of its node.

    The bytes for one FLOP are those of the gradients, w / 3 tau, less where a replica spans several
    nodes; and, if it does, those of its activations.

    >>> rounded = [
    ...     round(border_intensity(3297, 8192, t, ranks_per_node=8, element_bytes=2))
    ...     for t in (8, 16, 64)
    ... ]
    >>> rounded
    [4946, 1968, 577]
    """
    return 1 / (
        element_bytes / (3 * tokens_per_rank * maximum(1, tp / ranks_per_node))
        + where(tp > ranks_per_node, element_bytes * (tp - 1) / (9 * hidden), 0)
    )


@formula(
    r"h_\text{port}",
    "",
    "a ring of neighbours leaves its node once",
    "as for the intensity at the border; the rings are spread evenly over the ports",
)
def port_headroom(
    tokens_per_rank, hidden, tp, ranks_per_node, nics, element_bytes, peak, port_beta
):
    """The headroom of a node's network ports, for gradients and for tensor parallelism beyond it.

    The intensity at the border over the ridge of all ports together.

    >>> machine = {"ranks_per_node": 8, "element_bytes": 2, "peak": 989e12, "port_beta": 50e9}
    >>> round(port_headroom(tokens_per_rank=3297, hidden=8192, tp=8, nics=8, **machine), 2)
    2.0
    """
    return headroom(
        border_intensity(tokens_per_rank, hidden, tp, ranks_per_node, element_bytes),
        peak,
        nics * port_beta,
    )
