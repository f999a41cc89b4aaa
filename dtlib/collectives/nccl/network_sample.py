"""Some published times of collectives over several nodes, and how far three models are from them.

`NDR_SOURCE`: two clusters of nodes with eight H100 and eight ports of InfiniBand NDR, of which one
measured 2 and 4 nodes, the other 2, 4 and 8. Here are 1 MiB, 16 MiB, 256 MiB and 4 GiB of the first
on 2 and on 4 nodes, of the second on 8, in place, as NCCL chooses its algorithm.

`EFA_SOURCE`: a cluster of p5.48xlarge, eight H100 and 32 cards of 100 Gb/s a node; 256 MiB. What it
calls bandwidth is bus bandwidth: its all-reduce in one node is within a twentieth of nccl-tests.
Its all-gather and reduce-scatter take 0.21 ms longer there than in nccl-tests. They go from and to
a list of tensors, and copying 256 MiB into it takes the memory that time at 76 % of its bandwidth.
`copied` says which times contain such a copy; no network has a part in it.
"""

from typing import NamedTuple

from dtlib.collectives.cost.bandwidth import all_gather_bus_factor, all_reduce_bus_factor
from dtlib.formulas.table import Table

NDR_SOURCE = (
    "NVIDIA/nccl-tests, issue 309 (May and June 2025): all_reduce_perf, NCCL 2.26.2, on nodes of "
    "eight H100 SXM and eight ports of 400 Gb/s InfiniBand"
)
EFA_SOURCE = (
    "Hugging Face, The Ultra-Scale Playbook (2025), collective bandwidths, from vinjn/"
    "nanotron-ultrascale-playbook, commit e3bcfc5: p5.48xlarge, eight H100 a node"
)
# Seconds for each byte of a list of tensors that is copied: 0.211 ms for 256 MiB in one node.
LIST_COPY = 0.211e-3 / 2**28


class NetworkTime(NamedTuple):
    """One measured collective: `n` bytes as nccl-tests counts them, `P` ranks of whole nodes."""

    operation: str
    n: float
    P: int
    seconds: float
    copied: bool = False

    @property
    def network_seconds(self) -> float:
        """The seconds without those of copying into or from a list of tensors."""
        return self.seconds - LIST_COPY * self.n * self.copied


# nodes, and the microseconds of each size
_NDR_SIZES = (2**20, 2**24, 2**28, 2**32)
_NDR_TIMES = (
    (2, (71.47, 183.8, 1276.0, 17284)),
    (4, (82.21, 258.3, 1772.4, 22874)),
    (8, (115.7, 373.5, 2028.1, 26340)),
)
# ranks, bus bandwidth in GB/s of an all-reduce, an all-gather and a reduce-scatter
_EFA_BANDWIDTHS = (
    (16, 361.75, 184.61, 181.55),
    (64, 99.56, 69.0, 68.55),
    (512, 32.94, 11.04, 11.07),
)


def network_sample() -> dict[str, tuple[NetworkTime, ...]]:
    """Published times of collectives over 2 to 64 nodes, by the node's name in the catalog.

    Source: `NDR_SOURCE` and `EFA_SOURCE`.

    >>> sample = network_sample()["p5-48xlarge"]
    >>> [f"{s.operation} of {s.P}: {s.seconds * 1e3:.1f} ms" for s in sample[-2:]]
    ['all_gather of 512: 24.3 ms', 'reduce_scatter of 512: 24.2 ms']
    """
    ndr = tuple(
        NetworkTime("all_reduce", n, 8 * nodes, us / 1e6)
        for nodes, times in _NDR_TIMES
        for n, us in zip(_NDR_SIZES, times, strict=True)
    )
    return {"dgx-h100": ndr, "p5-48xlarge": _efa()}


def _efa() -> tuple[NetworkTime, ...]:
    factors = {
        "all_reduce": all_reduce_bus_factor,
        "all_gather": all_gather_bus_factor,
        "reduce_scatter": all_gather_bus_factor,
    }
    n = 2**28
    return tuple(
        NetworkTime(operation, n, P, factor(P) * n / (rate * 1e9), copied=operation != "all_reduce")
        for P, *rates in _EFA_BANDWIDTHS
        for (operation, factor), rate in zip(factors.items(), rates, strict=True)
    )


# Printed by benchmarks/collectives/network_model.py --data DIR, where DIR holds the whole of
# NDR_SOURCE, and of A100_SOURCE what was left out of the fit but for the latency.
A100_SOURCE = (
    "oracle-quickstart/oci-hpc-oke, commit 001cbb9, README: two nodes of eight A100 and 16 ports "
    "of 100 Gb/s RoCE"
)
# name: constants, mean error on 64 and 42 times of the two NDR clusters, 31 of A100s, 9 of EFA, the
# copies of lists taken off (with them the last is 0.031)
NETWORK_ERRORS = {
    "the ring of the catalog": (0, 0.869, 0.251, 1.059, 0.400),
    "one latency, one bandwidth a cluster": (8, 0.250, 0.204, 0.173, 0.318),
    "collective_time": (8, 0.068, 0.099, 0.095, 0.066),
}
# the last on nodes that it was not fitted to, each number of them predicted from the others
NETWORK_HELD_OUT = {
    "ib-ndr400": {2: 0.087, 4: 0.096, 8: 0.114},
    "efa-400": {2: 0.177, 8: 0.010, 64: 0.028},
}


def network_errors() -> Table:
    """Mean error of three models on 146 published times over several nodes, as recorded.

    >>> print([row[-1] for row in network_errors().rows])
    ['40.0 %', '31.8 %', '6.6 %']
    """
    columns = ("model", "constants", "InfiniBand", "another", "RoCE, A100", "EFA")
    rows = tuple(
        (name, str(constants), *(f"{error:.1%}".replace("%", " %") for error in errors))
        for name, (constants, *errors) in NETWORK_ERRORS.items()
    )
    return Table("Mean |predicted / measured - 1|", columns, rows)
