"""Links, GPUs, nodes and clusters, every number with its source and date.

Three rules keep the numbers comparable. A bandwidth is what one endpoint can send in **one
direction**: vendors print the sum of both directions for NVLink and PCIe, and one direction for
networks. An arithmetic rate is **dense**: vendors also print the rate for 2:4 sparse matrices,
which is twice as high. And every figure is the line rate, which protocols do not reach: fit
measured times with `fit_alpha_beta`.

Latencies are another matter: no vendor publishes them for GPU to GPU messages, so they are
assumed round numbers and say so.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dtlib.foundations.alpha_beta import half_performance_bytes, message_time
from dtlib.foundations.table import Table, Tables
from dtlib.foundations.units import GB, TB, TFLOP, Gbit, GiB, format_quantity, us


def _require(condition: bool, owner: str, argument: str, value, allowed: str) -> None:
    if not condition:
        raise ValueError(f"{owner}: {argument} is {value!r}, but must be {allowed}")


def _require_positive(owner: str, **values: float) -> None:
    for argument, value in values.items():
        good = isinstance(value, int | float) and math.isfinite(value) and value > 0
        _require(good, owner, argument, value, "a positive number")


def _require_count(owner: str, **values: int) -> None:
    for argument, value in values.items():
        good = isinstance(value, int) and value >= 1
        _require(good, owner, argument, value, "a whole number of at least 1")


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
        _require_positive(owner, beta=self.beta)
        good = math.isfinite(self.alpha) and self.alpha >= 0
        _require(good, owner, "alpha", self.alpha, "a number of seconds that is not negative")

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
        _require_positive(owner, hbm_bytes=self.hbm_bytes, hbm_bandwidth=self.hbm_bandwidth)
        if self.sms is not None:
            _require_count(owner, sms=self.sms)
        if self.clock is not None:
            _require_positive(owner, clock=self.clock)
        _require_positive(
            owner, **{f"flops[{dtype!r}]": rate for dtype, rate in self.flops.items()}
        )

    def peak(self, dtype: str = "bf16") -> float:
        """Dense FLOP/s for a data type. Raises ValueError for one without a confirmed figure.

        >>> format_quantity(catalog["h100-sxm"].peak("bf16"), "FLOP/s", digits=3)
        '989 TFLOP/s'
        """
        _require(
            dtype in self.flops, f"GPU {self.name!r}", "dtype", dtype, f"in {list(self.flops)}"
        )
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
        _require_count(f"Node {self.name!r}", gpus=self.gpus, nics=self.nics)

    @property
    def link(self) -> Link:
        """The link between two GPUs of this node."""
        return self.gpu.link

    @property
    def network_bandwidth(self) -> float:
        """Bytes/s that the whole node can send to other nodes, all ports together."""
        return self.nics * self.nic.beta

    def __repr__(self) -> str:
        return f"Node({self.name}: {self.gpus} x {self.gpu.name}, {self.nics} x {self.nic.name})"


@dataclass(frozen=True)
class Cluster:
    """`nodes` equal nodes on a network that is full bandwidth between any two of them.

    Raises ValueError for a number of nodes that is not a whole number of at least 1.

    >>> Cluster(catalog["dgx-h100"], nodes=8).ranks
    64
    """

    node: Node
    nodes: int

    def __post_init__(self):
        _require_count("Cluster", nodes=self.nodes)

    @property
    def ranks(self) -> int:
        """GPUs in the whole cluster, one rank each."""
        return self.nodes * self.node.gpus

    def __repr__(self) -> str:
        return f"Cluster({self.nodes} x {self.node.name}, {self.ranks} GPUs)"


class _Catalog(dict):
    def __missing__(self, name):
        raise KeyError(f"no hardware {name!r} in the catalog; known: {', '.join(self)}")


_BEKMAN = "Bekman, Machine Learning Engineering Open Book"
_NCCL = "NCCL's own cost model has {} for one step of a ring {} (src/graph/tuning.cc, 2020)"
_NVLINK_ALPHA = "assumed; " + _NCCL.format("0.47 to 3.4 µs", "over NVLink")
_PCIE_ALPHA = "assumed; " + _NCCL.format("1.0 to 5.7 µs", "over PCIe")
_NETWORK_ALPHA = "assumed; " + _NCCL.format("2.7 to 9.6 µs", "over a network")

_NVIDIA_400G = "NVIDIA MMA4Z00-NS transceiver documentation: 400 Gb/s line rate"

_LINKS = (
    Link("nvlink3", 1 * us, 300 * GB,
         "NVIDIA/nccl-tests issue 149 (a maintainer): 12 links of 25 GB/s in each direction",
         "2023", _NVLINK_ALPHA),
    Link("nvlink4", 1 * us, 450 * GB,
         "NVIDIA/nccl-tests issue 212 (a maintainer): 450 GB/s line rate, about 370 effective",
         "2024", _NVLINK_ALPHA),
    Link("nvlink5", 1 * us, 900 * GB, f"NVIDIA, as tabulated in {_BEKMAN}", "2026", _NVLINK_ALPHA),
    Link("pcie4-x16", 2 * us, 32 * GB,
         "NVIDIA A100 datasheet: 64 GB/s in both directions, before line coding",
         "2021", _PCIE_ALPHA),
    Link("pcie5-x16", 2 * us, 64 * GB,
         f"NVIDIA H200 specifications: 128 GB/s in both directions, as quoted in {_BEKMAN}",
         "2026", _PCIE_ALPHA),
    Link("ib-hdr200", 2 * us, 200 * Gbit,
         f"InfiniBand Trade Association roadmap, as tabulated in {_BEKMAN}",
         "2026", _NETWORK_ALPHA),
    Link("ib-ndr400", 2 * us, 400 * Gbit, f"{_NVIDIA_400G} of NDR", "2026", _NETWORK_ALPHA),
    Link("roce-400", 4 * us, 400 * Gbit, f"{_NVIDIA_400G} of 400GbE", "2026", _NETWORK_ALPHA),
    Link("ethernet-100", 30 * us, 100 * Gbit,
         "NVIDIA MLNX_OFED 5.9 release notes: 100GbE adapters",
         "2023", "assumed, for TCP sockets through the kernel"),
)  # fmt: skip
_BY_NAME = {link.name: link for link in _LINKS}

_HOPPER = {
    "bf16": 989 * TFLOP,
    "fp16": 989 * TFLOP,
    "fp8": 1979 * TFLOP,
    "tf32": 494.5 * TFLOP,
    "fp32": 67 * TFLOP,
}
_AMPERE = {"bf16": 312 * TFLOP, "fp16": 312 * TFLOP, "tf32": 156 * TFLOP, "fp32": 19.5 * TFLOP}
_BLACKWELL = {"bf16": 2250 * TFLOP, "fp16": 2250 * TFLOP, "fp8": 4500 * TFLOP}

_GPUS = (
    GPU("a100-sxm", _AMPERE, 80 * GiB, 2039 * GB, _BY_NAME["nvlink3"],
        "NVIDIA A100 80 GB SXM datasheet; SMs and clock: NVIDIA developer forum 244727 "
        "(a moderator, 2023)", "2021", sms=108, clock=1.41e9),
    GPU("h100-sxm", _HOPPER, 80 * GiB, 3.35 * TB, _BY_NAME["nvlink4"],
        f"NVIDIA H100 specifications without sparsity, as tabulated in {_BEKMAN}"
        "; SMs and clock: Lockwood, H100 SXM5", "2026", sms=132, clock=1.83e9),
    GPU("h200-sxm", _HOPPER, 141 * GiB, 4.8 * TB, _BY_NAME["nvlink4"],
        f"NVIDIA H200 specifications without sparsity, as tabulated in {_BEKMAN}"
        "; SMs and clock: as the H100's (Lockwood)", "2026", sms=132, clock=1.83e9),
    GPU("b200-sxm", _BLACKWELL, 180 * GiB, 8 * TB, _BY_NAME["nvlink5"],
        f"NVIDIA DGX B200 datasheet without sparsity, as tabulated in {_BEKMAN}"
        "; SMs: Chips and Cheese; tensor clock: HMC Tech", "2026", sms=148, clock=1.86e9),
)  # fmt: skip

_NODES = (
    Node(
        "dgx-h100",
        gpu=next(gpu for gpu in _GPUS if gpu.name == "h100-sxm"),
        gpus=8,
        nic=_BY_NAME["ib-ndr400"],
        nics=8,
        source=f"NVIDIA DGX H100/H200 user guide, as tabulated in {_BEKMAN}",
        date="2026",
    ),
)

catalog = _Catalog({entry.name: entry for entry in (*_LINKS, *_GPUS, *_NODES)})


def hardware_table() -> Tables:
    """Every entry of the catalog with its numbers, source and date, for the hardware appendix.

    >>> print([table.title for table in hardware_table()])
    ['Links, per direction', 'GPUs, dense arithmetic', 'Nodes']
    """
    links = tuple(
        (
            f"`{link.name}`",
            format_quantity(link.beta, "B/s", 3),
            format_quantity(link.alpha, "s"),
            f"{link.source} ({link.date})",
            link.alpha_source,
        )
        for link in _LINKS
    )
    gpus = tuple(
        (
            f"`{gpu.name}`",
            format_quantity(gpu.peak("bf16"), "FLOP/s", 3),
            format_quantity(gpu.peak("fp8"), "FLOP/s", 4) if "fp8" in gpu.flops else "none",
            format_quantity(gpu.hbm_bytes, "GiB", 3),
            format_quantity(gpu.hbm_bandwidth, "B/s", 4),
            gpu.link.name,
            f"{gpu.source} ({gpu.date})",
        )
        for gpu in _GPUS
    )
    nodes = tuple(
        (
            f"`{node.name}`",
            f"{node.gpus} x {node.gpu.name}",
            f"{node.nics} x {node.nic.name}",
            f"{node.source} ({node.date})",
        )
        for node in _NODES
    )
    return Tables(
        [
            Table(
                "Links, per direction",
                ("in code", "bandwidth", "latency", "source of the bandwidth", "of the latency"),
                links,
            ),
            Table(
                "GPUs, dense arithmetic",
                ("in code", "bf16", "fp8", "memory", "memory bandwidth", "link", "source"),
                gpus,
            ),
            Table("Nodes", ("in code", "GPUs", "network", "source"), nodes),
        ]
    )
