"""How long a collective takes on a cluster: inside a node by its GPUs, between nodes by its ports.

A `CollectiveModel` knows the GPUs of one node. Between nodes three things more decide, each a
constant of the network and of the library that drives it, a `NetworkModel`:

    share       of the ports' line rate that messages reach, and the ports are those of the members
                that a group has in a node (`Node.ring_bandwidth`)
    alpha       a step waits for a message from another node, and each piece of it (`handover`)
    crowding    what more nodes take from each other: nothing where the network keeps its promise
                of full bandwidth between any two nodes

`collective_time` puts both together: P ranks that are `stride` apart, on arrays as on numbers.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dtlib.collectives.nccl.model import OPERATIONS, CollectiveModel, nccl_models, streamed_time
from dtlib.formulas.formula import formula
from dtlib.formulas.poly import log2, maximum, minimum
from dtlib.formulas.require import require, require_not_negative, require_positive
from dtlib.machines.machine import GPU, Cluster, Link, Node

WHOLE_NODES = "a group has as many members in each of its nodes, and all groups send at once"


@formula(r"\beta_\text{net}", "B/s", "count", WHOLE_NODES)
def members_bandwidth(members, ranks_per_node, nics, port_beta, line_share, beta_in):
    """What a rank in a ring over many nodes sends: its members' ports, as far as they are reached.

    `Node.ring_bandwidth`, with the share of the line rate that messages reach, and with what a
    rank was measured to send inside the node.

    >>> f"{members_bandwidth(4, 8, 8, 50e9, 0.9, 390e9) / 1e9:.0f} GB/s"
    '180 GB/s'
    """
    return minimum(beta_in, members / ranks_per_node * nics * port_beta * line_share)


@formula(r"T_\text{AG}^\text{net}", "s", "Patarasuk & Yuan 2009, each step in pieces", WHOLE_NODES)
def network_all_gather_time(n, P, nodes, launch, alpha, beta, handover, own_beta, ring_crowding):
    """The time of a ring all-gather of `n` bytes over nodes, and of a reduce-scatter of `n` a rank.

    P - 1 steps. In each a message of n/P bytes crosses from node to node, in pieces; it takes the
    longer, the more nodes there are, where they crowd each other.

    >>> time = network_all_gather_time(2**28, 64, 8, 5e-6, 4e-6, 3.6e11, 3e-6, 9e11, 0)
    >>> f"{time * 1e3:.2f} ms"
    '1.74 ms'
    """
    return (
        launch
        + (P - 1)
        * (alpha + streamed_time(n / P * (1 + ring_crowding * (nodes - 1)), beta, handover))
        + n / (P * own_beta)
    )


@formula(r"T_\text{ports}", "s", "Sanders, Speck & Träff 2009", WHOLE_NODES)
def tree_ports_time(n, nodes, beta, tree_crowding):
    """The time for which a node's ports carry an all-reduce by two trees of nodes.

    Each of 2(N - 1) messages of a tree's half carries each element once, and N nodes share them.
    Crowded ports take longer by a power of the number of levels.

    >>> f"{tree_ports_time(2**28, 2, 4e11, 1.4) * 1e3:.3f} ms"
    '0.671 ms'
    """
    return 2 * (nodes - 1) / nodes * n / beta * maximum(1, log2(nodes)) ** tree_crowding


@formula(r"T_\text{AR}^\text{net}", "s", "NCCL's trees: the library's documentation", WHOLE_NODES)
def network_all_reduce_time(n, nodes, inside_time, alpha, beta, tree_crowding):
    """The time of an all-reduce inside each node and by trees between nodes, in pieces.

    Going up hides under the work inside the node or the other way round, going down does not: so
    half the time of the ports is added to the longer of the work inside and the other half.

    >>> time = network_all_reduce_time(2**28, 2, 1.08e-3, 4e-6, 3.6e11, 0)
    >>> f"{time * 1e3:.2f} ms"
    '1.46 ms'
    """
    return (
        2 * log2(nodes) * alpha
        + tree_ports_time(n, nodes, beta, tree_crowding) / 2
        + maximum(inside_time, tree_ports_time(n, nodes, beta, tree_crowding) / 2)
    )


@formula(r"T_\text{A2A}^\text{net}", "s", "count", "every rank reaches every other directly")
def network_all_to_all_time(n, P, nodes, members, launch, exchange, alpha, beta, beta_in):
    """The time of an all-to-all over nodes: what leaves a node through one port for each rank.

    `beta` is what a rank's own port reaches; the rest of its shares stays in the node meanwhile.

    >>> f"{network_all_to_all_time(2**28, 64, 8, 8, 5e-6, 4e-6, 4e-6, 4.5e10, 4e11) * 1e3:.2f} ms"
    '5.26 ms'
    """
    return (
        launch
        + exchange
        + (nodes - 1) * alpha
        + maximum((P - members) / P * n / beta, (members - 1) / P * n / beta_in)
    )


@dataclass(frozen=True)
class NetworkModel:
    """A network between nodes and the library that drives it, as times of collectives show them.

    - `alpha`: seconds of one step between nodes.
    - `handover`: seconds for which a piece of a message between nodes waits.
    - `share`: of the line rate of its ports that messages reach.
    - `ring_crowding`: by how much each further node lengthens the bytes of a ring, as a share.
    - `tree_crowding`: the power of a tree's levels by which its bytes take longer.
    - `source`: where the constants are from.

    Raises ValueError for a constant below 0 and for a share that is 0 or above 1.
    """

    name: str
    alpha: float
    handover: float
    share: float
    ring_crowding: float = 0.0
    tree_crowding: float = 0.0
    source: str = "assumed"

    def __post_init__(self):
        owner = f"NetworkModel {self.name!r}"
        require_positive(owner, share=self.share)
        require(self.share <= 1, owner, "share", self.share, "at most 1")
        require_not_negative(
            owner,
            alpha=self.alpha,
            handover=self.handover,
            ring_crowding=self.ring_crowding,
            tree_crowding=self.tree_crowding,
        )

    def time(self, operation: str, n, P, node: Node, members):
        """Seconds of a collective of `P` ranks, `members` of them in each node of several.

        `n` bytes as nccl-tests counts them. Numbers or arrays of one shape.
        """
        inside = collective_model(node.gpu)
        nodes = np.ceil(P / members)
        ports = (node.gpus, node.nics, node.nic.beta, self.share, inside.beta)
        beta = members_bandwidth(members, *ports)
        start = inside.launch
        if operation == "all_to_all":
            own_port = members_bandwidth(1, *ports)
            parts = (start, inside.exchange, self.alpha, own_port, inside.beta)
            return network_all_to_all_time(n, P, nodes, members, *parts)
        step = (self.alpha, beta, self.handover, inside.own_beta, self.ring_crowding)
        if operation != "all_reduce":
            return network_all_gather_time(n, P, nodes, start, *step)
        within = np.where(members > 1, inside.time("all_reduce", n, maximum(members, 2)), start)
        tree = network_all_reduce_time(n, nodes, within, self.alpha, beta, self.tree_crowding)
        ring = 2 * network_all_gather_time(n, P, nodes, start, *step) - start
        return minimum(ring, tree)


_INFINIBAND = NetworkModel("ib-ndr400", 4e-6, 3e-6, 0.92)
_EFA = NetworkModel("efa-400", 4e-6, 3e-6, 0.92, ring_crowding=0.5, tree_crowding=1.38)

network_models: dict[str, NetworkModel] = {
    model.name: model
    for model in (
        _INFINIBAND,
        replace(_INFINIBAND, name="ib-hdr200"),
        replace(_INFINIBAND, name="ib-xdr800"),
        replace(_INFINIBAND, name="roce-400"),
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
    return replace(_INFINIBAND, name=nic.name, alpha=max(nic.alpha, _INFINIBAND.alpha))


@lru_cache
def collective_model(gpu: GPU) -> CollectiveModel:
    """The model of the collectives of a GPU's node, also for one that was not measured.

    Such a GPU has the bandwidths of its data sheet in the shares that the newest GPU with a model
    reaches, and the slowest start and step that are known: bandwidths follow the data sheet,
    latencies do not shrink from one generation to the next.

    >>> from dtlib.machines.datasheets import catalog
    >>> f"{collective_model(catalog['b200-sxm']).beta / 1e9:.0f} GB/s"
    '780 GB/s'
    """
    if gpu.name in nccl_models:
        return nccl_models[gpu.name]
    known, sheet = nccl_models["h100-sxm"], _H100_SHEET
    faster = gpu.link.beta / sheet.link_beta
    adds = gpu.link.name in SWITCHES_THAT_ADD
    slowest = [nccl_models[name] for name in MEASURED]
    return replace(
        known,
        name=gpu.name,
        launch=max(model.launch for model in slowest),
        alpha=max(model.alpha for model in slowest),
        exchange=max(model.exchange for model in slowest),
        beta=known.beta * faster,
        own_beta=known.own_beta * gpu.hbm_bandwidth / sheet.hbm_bandwidth,
        switch_setup=known.switch_setup if adds else None,
        switch_beta=known.switch_beta * faster if adds else None,
    )


@dataclass(frozen=True)
class _Sheet:
    link_beta: float
    hbm_bandwidth: float


_H100_SHEET = _Sheet(450e9, 3.35e12)
MEASURED = ("a100-sxm", "h100-sxm")
SWITCHES_THAT_ADD = ("nvlink4", "nvlink5", "nvlink-h800")


def collective_time(cluster: Cluster, operation: str, n, P, stride=1):
    """Seconds that a collective of `P` ranks takes, which are `stride` apart on a cluster.

    Equation: inside a node that of its GPUs' `CollectiveModel`; between nodes that of the
    `NetworkModel` of its ports, with as many members in a node as are `stride` apart there.
    Arguments: `operation`, one of `OPERATIONS`; `n` bytes as nccl-tests counts them, of the larger
    buffer of a rank; `P` ranks; `stride`: 1 for neighbours, 8 for one rank in each node of eight.
    Each of the three is a number or an array. Groups are aligned, and all of them send at once.
    Returns seconds, an array where an argument is one; 0 for P = 1.
    Raises ValueError for an unknown operation, n below 0, P or stride below 1, and for ranks
    beyond the cluster.

    >>> from dtlib.machines.datasheets import catalog
    >>> cluster = Cluster(catalog["dgx-h100"], nodes=8)
    >>> [f"{collective_time(cluster, 'all_reduce', 2**28, P) * 1e3:.2f} ms" for P in (1, 8, 64)]
    ['0.00 ms', '1.08 ms', '1.74 ms']
    """
    n, P, stride = (np.asarray(value, dtype=float) for value in (n, P, stride))
    _check(cluster, operation, n, P, stride)
    shape = np.broadcast_shapes(n.shape, P.shape, stride.shape)
    n, P, stride = (np.broadcast_to(value, shape).ravel() for value in (n, P, stride))
    node, times = cluster.node, np.zeros(n.shape)
    inside = (P > 1) & (P * stride <= node.gpus)
    if inside.any():
        times[inside] = collective_model(node.gpu).time(operation, n[inside], P[inside])
    outside = (P > 1) & ~inside
    if outside.any():
        members = np.minimum(P[outside], np.maximum(1, node.gpus // stride[outside]))
        model = network_model(node.nic)
        times[outside] = model.time(operation, n[outside], P[outside], node, members)
    return times.reshape(shape) if shape else float(times[0])


def _check(cluster: Cluster, operation: str, n, P, stride) -> None:
    owner = "collective_time"
    require(operation in OPERATIONS, owner, "operation", operation, f"in {list(OPERATIONS)}")
    require(np.all(n >= 0), owner, "n", _worst(n), "at least 0")
    require(np.all(P >= 1), owner, "P", _worst(P), "at least 1")
    require(np.all(stride >= 1), owner, "stride", _worst(stride), "at least 1")
    last = ((P - 1) * stride).max(initial=0)
    require(last < cluster.ranks, owner, "(P - 1) stride", float(last),
            f"below the cluster's {cluster.ranks} ranks")  # fmt: skip


def _worst(values) -> float:
    return float(values.min())
