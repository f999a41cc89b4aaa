"""What a cluster gives to a step: sustained products, memory traffic, collectives and messages.

A `Machine` is a cluster with what its data sheet does not say: the share of the speed of single
products that a step of thousands of them keeps, since their power lowers the clock.
"""

from dataclasses import dataclass, replace

import numpy as np

from dtlib.collectives.nccl.network import collective_model, collective_time, network_model
from dtlib.formulas.require import is_number, require
from dtlib.machines.machine import GPU, Cluster

SUSTAINED = {"a100-sxm": 1.0, "h100-sxm": 0.85, "h200-sxm": 0.85, "b200-sxm": 0.615}
"""Shares of the speed of single products (`gemm_time`) that are kept in training.

A step is made of long products, whose power lowers the clock: the more, the newer the GPU. Fitted
to the runs of llm-foundry on A100s and H100s, and of SimuMax and Megatron-Bridge on B200s.
"""

SPREAD = 0.012
"""Standard deviation of the paces of GPUs, over their mean: what thousands of them wait for the
slowest one. Fitted to Narayanan et al. 2021, where it is the difference between 32 and 3,072 GPUs.
"""


@dataclass(frozen=True)
class Machine:
    """A cluster, the share of its products' speed that it sustains, the spread of its GPUs' paces.

    Collectives and messages are those of `dtlib.collectives.nccl.network`.
    Raises ValueError for a share outside 0 to 1.
    """

    cluster: Cluster
    sustained: float
    spread: float = SPREAD

    def __post_init__(self):
        good = is_number(self.sustained) and 0 < self.sustained <= 1
        require(good, "Machine", "sustained", self.sustained, "a share above 0, to 1")

    @property
    def gpu(self) -> GPU:
        return self.cluster.node.gpu

    def collective(self, operation: str, n, P, stride, ports: int | None = None):
        """Seconds of a collective of P ranks that are `stride` apart, through some ports or all."""
        cluster = self.cluster
        if ports is not None:
            node = replace(cluster.node, nics=min(ports, cluster.node.nics))
            cluster = replace(cluster, node=node)
        return collective_time(cluster, operation, n, P, stride)

    def message(self, n, ranks):
        """Seconds of a message of n bytes to the next member of a chain that spans `ranks` ranks.

        As `send_time`, without its handovers. Where the chain leaves a node, its slowest message
        does, through one port, or through its part of one where there are more GPUs than ports.
        """
        node = self.cluster.node
        inside = ranks <= node.gpus
        model = collective_model(node.gpu)
        near = model.launch + model.alpha + n / model.beta
        network = network_model(node.nic)
        port = network.share * node.nic.beta * min(1.0, node.nics / node.gpus)
        far = model.launch + network.alpha + n / port
        return np.where(inside, near, far)


def machine_of(cluster: Cluster) -> Machine:
    """The machine of a cluster; a GPU that was not fitted sustains what the newest one does.

    >>> from dtlib.foundations import Cluster, catalog
    >>> machine_of(Cluster(catalog["dgx-h100"], 8)).sustained
    0.85
    """
    share = SUSTAINED.get(cluster.node.gpu.name, min(SUSTAINED.values()))
    return Machine(cluster, share)
