"""What a cluster gives to a step: sustained products, memory traffic, collectives and messages.

A `Machine` is a cluster with what its data sheet does not say: the share of the speed of single
products that a step of thousands of them keeps, since their power lowers the clock.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dtlib.collectives.nccl.model import CollectiveModel, nccl_models
from dtlib.formulas.require import is_number, require
from dtlib.machines.machine import GPU, Cluster

# Shares of the speed of single products that are kept in training.
SUSTAINED = {"a100-sxm": 1.0, "h100-sxm": 0.88, "h200-sxm": 0.88, "b200-sxm": 0.8}
LINE_SHARE, NETWORK_ALPHA = 0.8, 5e-6


@dataclass(frozen=True)
class Machine:
    """A cluster, and the share of its products' speed that it sustains.

    Raises ValueError for a share outside 0 to 1.
    """

    cluster: Cluster
    sustained: float
    skew: float = 1.3

    def __post_init__(self):
        good = is_number(self.sustained) and 0 < self.sustained <= 1
        require(good, "Machine", "sustained", self.sustained, "a share above 0, to 1")

    @property
    def gpu(self) -> GPU:
        return self.cluster.node.gpu

    def collective(self, operation: str, n, P, stride):
        """Seconds of a collective of P ranks that are `stride` ranks apart."""
        return collective_time(self.cluster, operation, n, P, stride)

    def message(self, n, stride, ranks):
        """Seconds of a message of n bytes to the rank `stride` further, in a chain of `ranks`.

        Where the chain leaves a node, its slowest message does, through one port.
        """
        node = self.cluster.node
        inside = ranks <= node.gpus
        model = collective_model(node.gpu)
        near = model.launch + model.alpha + n / model.beta
        far = model.launch + NETWORK_ALPHA + n / (LINE_SHARE * node.nic.beta)
        return np.where(inside, near, far)


def machine_of(cluster: Cluster) -> Machine:
    """The machine of a cluster; a GPU that was not fitted sustains what the newest one does.

    >>> from dtlib.foundations import Cluster, catalog
    >>> machine_of(Cluster(catalog["dgx-h100"], 8)).sustained
    0.88
    """
    return Machine(cluster, SUSTAINED.get(cluster.node.gpu.name, min(SUSTAINED.values())))


@lru_cache(maxsize=64)
def _model_of(name: str, link_beta: float) -> CollectiveModel:
    if name in nccl_models:
        return nccl_models[name]
    h100 = nccl_models["h100-sxm"]
    slowest = max(model.launch for model in nccl_models.values())
    scale = link_beta / 450e9
    return replace(
        h100, name=name, launch=slowest, beta=h100.beta * scale, own_beta=h100.own_beta,
        switch_beta=h100.switch_beta * scale,
    )  # fmt: skip


def collective_model(gpu: GPU) -> CollectiveModel:
    """The collective model of a GPU, or one with its bandwidth and the slowest known start."""
    return _model_of(gpu.name, gpu.link.beta)


def collective_time(cluster: Cluster, operation: str, n, P, stride):
    """Seconds of a collective of P ranks that are `stride` ranks apart; arrays."""
    node = cluster.node
    n, P, stride = np.broadcast_arrays(
        np.asarray(n, float), np.asarray(P, float), np.asarray(stride, float)
    )
    model, members = collective_model(node.gpu), np.maximum(1, node.gpus // stride)
    many = np.maximum(P, 2)
    inside = model.time(operation, n, np.minimum(many, node.gpus))
    ports = members * node.nics / node.gpus
    beta = np.minimum(model.beta, ports * node.nic.beta * LINE_SHARE)
    nodes = np.maximum(2, np.ceil(many / members))
    hop = NETWORK_ALPHA / 2
    if operation == "all_reduce":
        ring = 2 * (many - 1) / many * n / beta + 2 * (many - 1) * hop
        tree = 4 * np.log2(nodes) * 2 * hop + 2.2 * n / beta + 2 * (members - 1) * model.alpha
        outside = model.launch + np.minimum(ring, tree)
    else:
        outside = model.launch + (many - 1) / many * n / beta + (nodes - 1) * members * hop
    return np.where(P <= 1, 0.0, np.where(P * stride <= node.gpus, inside, outside))
