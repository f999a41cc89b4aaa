"""How long a collective takes on a cluster: inside a node by its GPUs, between nodes by its ports.

A `CollectiveModel` knows the GPUs of one node. Between nodes three things more decide, each a
constant of the network and of the library that drives it, a `NetworkModel`:

    share       of the line rate of its ports that a node reaches; a group has the ports of the
                members that sit in the node (`Node.ring_bandwidth`)
    alpha       a message to another node waits, and so does each of its pieces (`handover`)
    power       the waits of pieces add up over levels and steps: as a square root where they
                overlap, as a number and more where each waits anew

`collective_time` puts both together: P ranks that are `stride` apart, on arrays as on numbers. On
146 published times over 2 to 64 nodes the mean of |predicted / measured - 1| is

                                        constants   InfiniBand   another   RoCE, A100    EFA
    the ring of the catalog                     0     86.9 %      25.1 %     105.9 %    40.0 %
    one latency, one bandwidth a cluster        8     25.0 %      20.4 %      17.3 %    31.8 %
    this model                                  8      6.8 %       9.9 %       9.5 %     6.6 %

Of the third cluster only a latency was fitted, of the last a latency and the powers. What a ring's
waits are like was judged by training in that cluster too: with them as a part of the bytes, steps
whose groups have one rank in each node would take up to twice as long as they do. The benchmark
`network_model.py` prints the table, `network_sample` has some of the times. What the model does not
know: where NCCL changes its protocol, as inside a node; which links of a network are shared; and
all-to-alls between nodes, of which it was given no time.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dtlib.collectives.nccl.model import OPERATIONS, collective_model, streamed_time
from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, log2, maximum, minimum, sqrt, where
from dtlib.formulas.require import require, require_not_negative, require_positive
from dtlib.machines.machine import Cluster, Link, Node

WHOLE_NODES = "a group has as many members in each of its nodes, and all groups send at once"
IN_PIECES = f"{WHOLE_NODES}; the number of pieces is the best one"


@formula(r"\beta_\text{net}", "B/s", "count", WHOLE_NODES)
def members_bandwidth(members, ranks_per_node, nics, port_beta, line_share, beta_in):
    """What a rank sends in the rings of a group over many nodes: its members' ports.

    `Node.ring_bandwidth`, with the share of the line rate that messages reach, and at most what a
    rank was measured to send inside its node.

    >>> f"{members_bandwidth(4, 8, 8, 50e9, 0.8, 390e9) / 1e9:.0f} GB/s"
    '160 GB/s'
    """
    return minimum(beta_in, members / ranks_per_node * nics * port_beta * line_share)


@formula(r"T_\text{AG}^\text{net}", "s", "Patarasuk & Yuan 2009, in pieces", IN_PIECES)
def network_all_gather_time(
    n, P, nodes, launch, alpha, alpha_in, beta, handover, own_beta, hop_power
):
    """The time of a ring all-gather of `n` bytes over nodes, and of a reduce-scatter of `n` a rank.

    Of its P - 1 steps N - 1 cross a border. The bytes move in pieces, and the waits of the pieces
    add up over the steps: as their square root, where one step's pieces move while another's wait,
    or as their number, where each step waits anew.

    >>> time = network_all_gather_time(2**28, 64, 8, 5e-6, 5e-6, 1e-6, 3.2e11, 6e-7, 9e11, 0.5)
    >>> f"{time * 1e3:.2f} ms"
    '1.28 ms'
    """
    return (
        launch
        + (nodes - 1) * alpha
        + (P - nodes) * alpha_in
        + (P - 1) / P * n / beta
        + 2 * sqrt(handover * (P - 1) / P * n / beta) * (P - 1) ** hop_power
        + n / (P * own_beta)
    )


@formula(r"T_\text{ports}", "s", "Sanders, Speck & Träff 2009", WHOLE_NODES)
def tree_ports_time(n, nodes, beta):
    """The time for which the ports of a node carry an all-reduce by two trees of nodes.

    An element takes 2(N - 1) messages, and N nodes share them.

    >>> f"{tree_ports_time(2**28, 8, 4e11) * 1e3:.2f} ms"
    '1.17 ms'
    """
    return 2 * (nodes - 1) / nodes * n / beta


@formula(r"T_\text{AR}^\text{net}", "s", "Sanders, Speck & Träff 2009, in pieces", IN_PIECES)
def network_all_reduce_time(n, nodes, inside_time, alpha, beta, handover, hop_power):
    """The time of an all-reduce inside each node and by trees between nodes.

    Up and down, each level of the trees costs a latency. Nodes and ports work at once, so the
    longer of the two counts; and the waits of the pieces add up over the levels, as in a ring.

    >>> time = network_all_reduce_time(2**28, 8, 1.08e-3, 5e-6, 3.2e11, 3.5e-5, 0.5)
    >>> f"{time * 1e3:.2f} ms"
    '2.28 ms'
    """
    return (
        2 * log2(nodes) * alpha
        + maximum(inside_time, tree_ports_time(n, nodes, beta))
        + 2 * sqrt(handover * tree_ports_time(n, nodes, beta)) * log2(nodes) ** hop_power
    )


@formula(r"T_\text{A2A}^\text{net}", "s", "count", IN_PIECES)
def network_all_to_all_time(n, nodes, members, launch, exchange, alpha, beta, handover, beta_in):
    """The time of an all-to-all over nodes: each rank's port carries what leaves the node.

    `beta` is what one port reaches; it has a message for each other node. What stays in the node
    moves meanwhile.

    >>> parts = (5e-6, 3e-6, 5e-6, 4e10, 3e-5, 3.9e11)
    >>> f"{network_all_to_all_time(2**28, 8, 8, *parts) * 1e3:.2f} ms"
    '6.75 ms'
    """
    return (
        launch
        + exchange
        + (nodes - 1) * alpha
        + maximum(
            streamed_time((nodes - 1) / nodes * n, beta, handover),
            (members - 1) / (members * nodes) * n / beta_in,
        )
    )


@formula(r"T_\text{send}", "s", "Hockney 1994, in pieces", "every rank of a node sends at once")
def streamed_send_time(n, launch, alpha, beta, handover):
    """The time of one message of a library that cuts it into pieces.

    >>> f"{streamed_send_time(2**24, 5e-6, 5e-6, 4e10, 3e-5) * 1e6:.0f} us"
    '654 us'
    """
    return launch + alpha + streamed_time(n, beta, handover)


@dataclass(frozen=True)
class NetworkModel:
    """A network between nodes and the library that drives it, as times of collectives show them.

    - `alpha`: seconds for which a message to another node waits.
    - `handover`, `ring_handover`: seconds for which a piece of it waits, at a level of a tree and
      at a border that a ring crosses.
    - `share`: of the line rate of its ports that a node reaches, headers and flags paid.
    - `tree_power`, `ring_power`: the powers of the levels of a tree and of the steps of a ring with
      which the waits of pieces add up; 1/2 where they overlap.
    - `source`: where the constants are from.

    Raises ValueError for a constant below 0 and for a share that is not above 0 and at most 1.
    """

    name: str
    alpha: float
    handover: float
    ring_handover: float
    share: float
    tree_power: float = 0.5
    ring_power: float = 0.5
    source: str = "assumed"

    def __post_init__(self):
        owner = f"NetworkModel {self.name!r}"
        require_positive(owner, share=self.share)
        require(self.share <= 1, owner, "share", self.share, "at most 1")
        names = ("alpha", "handover", "ring_handover", "tree_power", "ring_power")
        require_not_negative(owner, **{name: getattr(self, name) for name in names})

    def bandwidth(self, node: Node, members):
        """Bytes/s of a rank in the rings of a group with `members` ranks in each of many nodes."""
        inside = collective_model(node.gpu).beta
        return members_bandwidth(
            members, node.gpus, node.nics, node.nic.beta, self.share, beta_in=inside
        )

    def time(self, operation: str, n, P, node: Node, members):
        """Seconds of a collective of `P` ranks, `members` of them in each node of several.

        `n` bytes as nccl-tests counts them. Numbers, or arrays of one shape.
        """
        inside, nodes = collective_model(node.gpu), ceil(P / members)
        if operation == "all_to_all":
            waits = (inside.launch, inside.exchange, self.alpha)
            port = (self.bandwidth(node, 1), self.handover, inside.beta)
            return network_all_to_all_time(n, nodes, members, *waits, *port)
        waits = (inside.launch, self.alpha, inside.alpha)
        beta = self.bandwidth(node, members)
        ring = (beta, self.ring_handover, inside.own_beta, self.ring_power)
        gathered = network_all_gather_time(n, P, nodes, *waits, *ring)
        if operation != "all_reduce":
            return gathered
        within = inside.time("all_reduce", n, maximum(members, 2))
        within = where(members > 1, within, inside.launch)
        levels = (self.alpha, beta, self.handover, self.tree_power)
        trees = network_all_reduce_time(n, nodes, within, *levels)
        return minimum(2 * gathered - inside.launch, trees)


_INFINIBAND = NetworkModel(
    "ib-ndr400",
    alpha=5e-6,
    handover=35e-6,
    ring_handover=0.56e-6,
    share=0.81,
    source="fitted to all-reduces of 2, 4 and 8 nodes in two clusters: `NDR_SOURCE`; ring_handover "
    "to the rings of `EFA_SOURCE`, while all-gathers of two nodes of H200 say 0.9 us (SkyPilot, "
    "guide to GPUDirect on Google Cloud)",
)
_ROCE = replace(
    _INFINIBAND,
    name="roce-400",
    alpha=7e-6,
    source="alpha: 8 B over two nodes of A100, oracle-quickstart/oci-hpc-oke, commit 001cbb9, "
    "README; the rest as InfiniBand",
)
_EFA = replace(
    _INFINIBAND,
    name="efa-400",
    alpha=15e-6,
    tree_power=1.9,
    ring_power=1.0,
    source="powers fitted to 2, 8 and 64 nodes: `EFA_SOURCE`; alpha: 8 B over two nodes of B200, "
    "dstackai/dstack pull request 3961; the rest as InfiniBand",
)

network_models: dict[str, NetworkModel] = {
    model.name: model
    for model in (
        *(replace(_INFINIBAND, name=name) for name in ("ib-hdr200", "ib-ndr400", "ib-xdr800")),
        _ROCE,
        _EFA,
    )
}


@lru_cache
def network_model(nic: Link) -> NetworkModel:
    """The model of a port's network; one without a model of its own is taken for InfiniBand.

    Its latency is that of the port where that is longer.

    >>> network_model(Link("mine", 3e-5, 1e9, "measured", "2026")).alpha
    3e-05
    """
    if nic.name in network_models:
        return network_models[nic.name]
    waits = max(nic.alpha, _INFINIBAND.alpha)
    return replace(_INFINIBAND, name=nic.name, alpha=waits, source="taken for InfiniBand")


def collective_time(cluster: Cluster, operation: str, n, P, stride=1):
    """Seconds that a collective of `P` ranks takes, which are `stride` apart on a cluster.

    Equation: inside a node that of its GPUs' `CollectiveModel`; between nodes that of the
    `NetworkModel` of its ports, with as many members in a node as are `stride` apart there.
    Arguments: `operation`, one of `OPERATIONS`; `n` bytes as nccl-tests counts them, of the larger
    buffer of a rank; `P` ranks; `stride`, 1 for neighbours, 8 for one rank in each node of eight.
    Each of the three is a number or an array. Groups are aligned, and all of them send at once.
    Returns seconds, an array where an argument is one; 0 for P = 1.
    Raises ValueError for an unknown operation, n below 0, P or stride below 1, and for ranks
    beyond the cluster.

    >>> from dtlib.machines.datasheets import catalog
    >>> cluster = Cluster(catalog["dgx-h100"], nodes=8)
    >>> [f"{collective_time(cluster, 'all_reduce', 2**28, P) * 1e3:.2f} ms" for P in (1, 8, 64)]
    ['0.00 ms', '1.08 ms', '2.26 ms']
    """
    require(operation in OPERATIONS, _OWNER, "operation", operation, f"in {list(OPERATIONS)}")
    (n, P, stride), shape = _as_rows(n, P, stride)
    _check(cluster, n, P, stride)
    node, times = cluster.node, np.zeros(len(n))
    inside = (P > 1) & (P * stride <= node.gpus)
    between = (P > 1) & ~inside
    if inside.any():
        model = collective_model(node.gpu)
        times[inside] = model.time(operation, n[inside], P[inside])
    if between.any():
        members = np.maximum(1, node.gpus // stride[between])
        model = network_model(node.nic)
        times[between] = model.time(operation, n[between], P[between], node, members)
    return times.reshape(shape) if shape else float(times[0])


def send_time(cluster: Cluster, n, stride):
    """Seconds of a message of `n` bytes to the rank `stride` further, while all ranks send.

    Equation: `streamed_send_time`, over the link inside a node where two such ranks fit into one,
    else over the rank's share of the ports.
    Arguments: `n` bytes and `stride`, numbers or arrays. Returns seconds, as `collective_time`.
    Raises ValueError for n below 0, a stride below 1 and one beyond the cluster.

    >>> from dtlib.machines.datasheets import catalog
    >>> cluster = Cluster(catalog["dgx-h100"], nodes=8)
    >>> [f"{send_time(cluster, 2**24, stride) * 1e6:.0f} us" for stride in (4, 8)]
    ['70 us', '665 us']
    """
    (n, P, stride), shape = _as_rows(n, 2, stride)
    _check(cluster, n, P, stride)
    node, network = cluster.node, network_model(cluster.node.nic)
    gpus = collective_model(node.gpu)
    near = streamed_send_time(n, gpus.launch, gpus.alpha, gpus.beta, gpus.handover)
    port = network.bandwidth(node, 1)
    far = streamed_send_time(n, gpus.launch, network.alpha, port, network.handover)
    times = where(2 * stride <= node.gpus, near, far)
    return times.reshape(shape) if shape else float(times[0])


_OWNER = "a collective"


def _as_rows(*values):
    """The values as flat arrays of floats, and the shape that they have together."""
    arrays = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in values))
    return [array.ravel() for array in arrays], arrays[0].shape


def _check(cluster: Cluster, n, P, stride) -> None:
    for name, values, least in (("n", n, 0), ("P", P, 1), ("stride", stride, 1)):
        lowest = float(values.min(initial=least))
        require(lowest >= least, _OWNER, name, lowest, f"at least {least}")
    last = float(((P - 1) * stride).max(initial=0))
    allowed = f"below the {cluster.ranks} ranks of the cluster"
    require(last < cluster.ranks, _OWNER, "(P - 1) stride", last, allowed)
