"""The nouns of a machine: links, memories, GPUs, nodes and clusters, each with its source.

Two rules keep the numbers comparable. A bandwidth is what one endpoint can send in **one
direction**: vendors print the sum of both directions for NVLink and PCIe, and one direction for
networks. An arithmetic rate is **dense**: vendors also print the rate for 2:4 sparse matrices,
which is twice as high. What is known of real machines stands in `dtlib.machines.datasheets`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dtlib.formulas.require import require, require_count, require_positive
from dtlib.formulas.units import format_quantity
from dtlib.machines.alpha_beta import half_performance_bytes, message_time


@dataclass(frozen=True)
class Link:
    """A way from one endpoint to another: `alpha` seconds, `beta` bytes/s in one direction.

    `source` and `date` belong to `beta`; `alpha_source` says where `alpha` comes from.
    Raises ValueError for a negative latency or a bandwidth that is not positive.

    >>> Link("mine", alpha=2e-6, beta=50e9, source="measured", date="2026").time(10**5)
    4e-06
    """

    name: str
    alpha: float
    beta: float
    source: str
    date: str
    alpha_source: str = "assumed"

    def __post_init__(self):
        owner = f"Link {self.name!r}"
        require_positive(owner, beta=self.beta)
        good = math.isfinite(self.alpha) and self.alpha >= 0
        require(good, owner, "alpha", self.alpha, "a number of seconds that is not negative")

    def time(self, n):
        """Seconds that a message of `n` bytes takes: `message_time` on this link."""
        return message_time(n, self.alpha, self.beta)

    @property
    def half_performance_bytes(self) -> float:
        """The message size at which latency and transfer take the same time."""
        return half_performance_bytes(self.alpha, self.beta)

    def __repr__(self) -> str:
        alpha, beta = format_quantity(self.alpha, "s"), format_quantity(self.beta, "B/s", 3)
        return f"Link({self.name}: {alpha}, {beta} per direction)"


@dataclass(frozen=True)
class Memory:
    """A place for bytes: how many it holds, how long one read takes, how many bytes/s it gives.

    `capacity` in bytes, `latency` in seconds, `bandwidth` in bytes/s of reading. `source` and
    `date` belong to capacity and bandwidth; `latency_source` says where the latency comes from.
    Raises ValueError for a figure that is not positive.

    >>> Memory("mine", 10**9, 0.25, 10**9, source="measured", date="2026").time(10**9)
    1.25
    """

    name: str
    capacity: float
    latency: float
    bandwidth: float
    source: str
    date: str
    latency_source: str = "assumed"

    def __post_init__(self):
        require_positive(
            f"Memory {self.name!r}",
            capacity=self.capacity,
            latency=self.latency,
            bandwidth=self.bandwidth,
        )

    def time(self, n):
        """Seconds to read `n` bytes that lie here: `message_time` with the latency of one read."""
        return message_time(n, self.latency, self.bandwidth)

    def __repr__(self) -> str:
        figures = (self.capacity, "B"), (self.latency, "s"), (self.bandwidth, "B/s")
        return f"Memory({self.name}: {', '.join(format_quantity(x, u, 3) for x, u in figures)})"


@dataclass(frozen=True)
class GPU:
    """An accelerator: dense FLOP/s by data type, memory and its bandwidth, its link to its peers.

    Memory is counted in bytes: what is sold as 80 GB is 80 GiB, of which drivers keep a little.
    `sms` is the number of streaming multiprocessors and `clock` the Hz at which their tensor cores
    reach the peak; both are None where no source was found.
    Raises ValueError for a figure that is not positive.
    """

    name: str
    flops: Mapping[str, float] = field(hash=False)
    hbm_bytes: float
    hbm_bandwidth: float
    link: Link
    source: str
    date: str
    sms: int | None = None
    clock: float | None = None

    def __post_init__(self):
        owner = f"GPU {self.name!r}"
        require_positive(owner, hbm_bytes=self.hbm_bytes, hbm_bandwidth=self.hbm_bandwidth)
        if self.sms is not None:
            require_count(owner, sms=self.sms)
        if self.clock is not None:
            require_positive(owner, clock=self.clock)
        require_positive(owner, **{f"flops[{dtype!r}]": rate for dtype, rate in self.flops.items()})

    def peak(self, dtype: str = "bf16") -> float:
        """Dense FLOP/s for a data type. Raises ValueError for one without a confirmed figure.

        >>> from dtlib.foundations import catalog
        >>> format_quantity(catalog["h100-sxm"].peak("bf16"), "FLOP/s", digits=3)
        '989 TFLOP/s'
        """
        require(dtype in self.flops, f"GPU {self.name!r}", "dtype", dtype, f"in {list(self.flops)}")
        return self.flops[dtype]

    def __repr__(self) -> str:
        peak = ", ".join(f"{d} {format_quantity(r, 'FLOP/s', 4)}" for d, r in self.flops.items())
        memory = format_quantity(self.hbm_bytes, "GiB")
        bandwidth = format_quantity(self.hbm_bandwidth, "B/s", 3)
        return f"GPU({self.name}: {peak}; {memory} at {bandwidth})"


@dataclass(frozen=True)
class Node:
    """A machine: `gpus` of one kind on one in-node link, and `nics` network ports of one kind.

    Raises ValueError for a count that is not a whole number of at least 1.
    """

    name: str
    gpu: GPU
    gpus: int
    nic: Link
    nics: int
    source: str
    date: str

    def __post_init__(self):
        require_count(f"Node {self.name!r}", gpus=self.gpus, nics=self.nics)

    @property
    def link(self) -> Link:
        """The link between two GPUs of this node."""
        return self.gpu.link

    @property
    def network_bandwidth(self) -> float:
        """Bytes/s that the whole node can send to other nodes, all ports together."""
        return self.nics * self.nic.beta

    def ring_bandwidth(self, members: int) -> float:
        """Bytes/s of a rank in the rings of a group with `members` ranks in each of many nodes.

        The members of a node sit side by side, so one of them sends over the border and the others
        to their neighbours. As many rings run at once as there are members, each turned so that
        another member's port carries it: together they bring the share of the ports that
        belongs to the members, but never more than a rank can send inside the node. Ranks that
        are scattered, so that every hop crosses a border, have `members` = 1: one port each.
        Raises ValueError unless `members` is a whole number from 1 to the node's GPUs.

        >>> from dtlib.foundations import catalog
        >>> [catalog["dgx-h100"].ring_bandwidth(members) / 1e9 for members in (1, 2, 8)]
        [50.0, 100.0, 400.0]
        """
        owner = f"Node {self.name!r}"
        require_count(owner, members=members)
        require(members <= self.gpus, owner, "members", members, f"at most {self.gpus}")
        return min(self.link.beta, members / self.gpus * self.network_bandwidth)

    def __repr__(self) -> str:
        return f"Node({self.name}: {self.gpus} x {self.gpu.name}, {self.nics} x {self.nic.name})"


@dataclass(frozen=True)
class Cluster:
    """`nodes` equal nodes on a network that is full bandwidth between any two of them.

    Raises ValueError for a number of nodes that is not a whole number of at least 1.

    >>> from dtlib.foundations import catalog
    >>> Cluster(catalog["dgx-h100"], nodes=8).ranks
    64
    """

    node: Node
    nodes: int

    def __post_init__(self):
        require_count("Cluster", nodes=self.nodes)

    @property
    def ranks(self) -> int:
        """GPUs in the whole cluster, one rank each."""
        return self.nodes * self.node.gpus

    def __repr__(self) -> str:
        return f"Cluster({self.nodes} x {self.node.name}, {self.ranks} GPUs)"
