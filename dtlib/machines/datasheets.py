"""What is known of real machines: the catalog, each figure with its source and its date.

Every bandwidth is a line rate in one direction, which protocols do not reach: fit measured times
with `fit_alpha_beta`. Latencies are another matter. That of a memory was measured by others and
is cited; no vendor publishes that of a message between GPUs, so those are assumed round numbers
and say so. What is derived from other figures says how. Arithmetic is dense: where a vendor prints
a figure 'with sparsity', half of it stands here.
"""

from dataclasses import dataclass

from dtlib.formulas.require import require_positive
from dtlib.formulas.units import GB, TB, TFLOP, Gbit, GiB, KiB, MiB, TiB, us
from dtlib.machines.machine import GPU, Link, Memory, Node

_BEKMAN = "Bekman, Machine Learning Engineering Open Book"
_SCALING_BOOK = "Austin et al., How to Scale Your Model"
_NCCL = "NCCL's own cost model has {} for one step of a ring {} (src/graph/tuning.cc, 2020)"
_NVLINK_ALPHA = "assumed; " + _NCCL.format("0.47 to 3.4 µs", "over NVLink")
_PCIE_ALPHA = "assumed; " + _NCCL.format("1.0 to 5.7 µs", "over PCIe")
_NETWORK_ALPHA = "assumed; " + _NCCL.format("2.7 to 9.6 µs", "over a network")
_SOCKET_ALPHA = "assumed, for TCP sockets through the kernel"
_ICI_ALPHA = f"assumed; {_SCALING_BOOK} computes with 1 µs for each hop"

_NVIDIA_400G = "NVIDIA MMA4Z00-NS transceiver documentation: 400 Gb/s line rate"
_NVLINK_GENERATIONS = f"NVIDIA's {{}} of {{}} GB/s in each direction, as tabulated in {_BEKMAN}"
_ETHERNET = "its name: {} Gb/s at line rate, in one direction"
_ICI = f"{_SCALING_BOOK}: one of {{}} links, in one direction"

LINKS = (
    Link("nvlink1", 1 * us, 80 * GB, _NVLINK_GENERATIONS.format("4 links", 20), "2026",
         _NVLINK_ALPHA),
    Link("nvlink2", 1 * us, 150 * GB, _NVLINK_GENERATIONS.format("6 links", 25), "2026",
         _NVLINK_ALPHA),
    Link("nvlink3", 1 * us, 300 * GB,
         "NVIDIA/nccl-tests issue 149 (a maintainer): 12 links of 25 GB/s in each direction",
         "2023", _NVLINK_ALPHA),
    Link("nvlink4", 1 * us, 450 * GB,
         "NVIDIA/nccl-tests issue 212 (a maintainer): 450 GB/s line rate, about 370 effective",
         "2024", _NVLINK_ALPHA),
    Link("nvlink5", 1 * us, 900 * GB, f"NVIDIA, as tabulated in {_BEKMAN}", "2026", _NVLINK_ALPHA),
    Link("nvlink-a800", 1 * us, 200 * GB,
         "NVLink of the A800: 400 GB/s in both directions where the A100 has 600 (Reuters as "
         "reported by Tweakers and the Global Times)", "2022", _NVLINK_ALPHA),
    Link("nvlink-h800", 1 * us, 200 * GB,
         "NVLink of the H800: 400 GB/s in both directions where the H100 has 900 (Philisun)",
         "2026", _NVLINK_ALPHA),
    Link("pcie3-x16", 2 * us, 16 * GB,
         "8 GT/s on each of 16 lanes, before line coding: half of PCIe 4.0, as the tables of "
         "all generations have it", "2026", _PCIE_ALPHA),
    Link("pcie4-x16", 2 * us, 32 * GB,
         "NVIDIA A100 datasheet: 64 GB/s in both directions, before line coding",
         "2021", _PCIE_ALPHA),
    Link("pcie5-x16", 2 * us, 64 * GB,
         f"NVIDIA H200 specifications: 128 GB/s in both directions, as quoted in {_BEKMAN}",
         "2026", _PCIE_ALPHA),
    Link("pcie6-x16", 2 * us, 121 * GB,
         f"PCI-SIG, as tabulated in {_BEKMAN}: after coding; no accelerator had it when read",
         "2026", _PCIE_ALPHA),
    Link("tpu-v4-ici", 1 * us, 45 * GB, _ICI.format(6), "2025", _ICI_ALPHA),
    Link("tpu-v5e-ici", 1 * us, 45 * GB, _ICI.format(4), "2025", _ICI_ALPHA),
    Link("tpu-v5p-ici", 1 * us, 90 * GB,
         f"{_ICI.format(6)}; Google's page prints 1200 GB/s for the chip, both directions",
         "2025", _ICI_ALPHA),
    Link("tpu-v6e-ici", 1 * us, 90 * GB, _ICI.format(4), "2025", _ICI_ALPHA),
    Link("ib-hdr200", 2 * us, 200 * Gbit,
         f"InfiniBand Trade Association roadmap, as tabulated in {_BEKMAN}",
         "2026", _NETWORK_ALPHA),
    Link("ib-ndr400", 2 * us, 400 * Gbit, f"{_NVIDIA_400G} of NDR", "2026", _NETWORK_ALPHA),
    Link("ib-xdr800", 2 * us, 800 * Gbit,
         f"NVIDIA DGX B300: 8 ports of 800 Gb/s, as tabulated in {_BEKMAN}",
         "2026", _NETWORK_ALPHA),
    Link("roce-400", 4 * us, 400 * Gbit, f"{_NVIDIA_400G} of 400GbE", "2026", _NETWORK_ALPHA),
    Link("efa-400", 15 * us, 400 * Gbit,
         "AWS, HPC tutorials: 3200 Gb/s of a p5.48xlarge, for eight GPUs", "2026", _NETWORK_ALPHA),
    Link("ethernet-10", 30 * us, 10 * Gbit, _ETHERNET.format(10), "2026", _SOCKET_ALPHA),
    Link("ethernet-25", 30 * us, 25 * Gbit, _ETHERNET.format(25), "2026", _SOCKET_ALPHA),
    Link("ethernet-100", 30 * us, 100 * Gbit,
         "NVIDIA MLNX_OFED 5.9 release notes: 100GbE adapters", "2023", _SOCKET_ALPHA),
)  # fmt: skip
_BY_NAME = {link.name: link for link in LINKS}

_HOPPER = {
    "bf16": 989 * TFLOP,
    "fp16": 989 * TFLOP,
    "fp8": 1979 * TFLOP,
    "tf32": 494.5 * TFLOP,
    "fp32": 67 * TFLOP,
}
_AMPERE = {"bf16": 312 * TFLOP, "fp16": 312 * TFLOP, "tf32": 156 * TFLOP, "fp32": 19.5 * TFLOP}
_VOLTA = {"fp16": 125 * TFLOP, "fp32": 15.7 * TFLOP}
_TURING = {"fp16": 65 * TFLOP, "fp32": 8.1 * TFLOP}
_L40S = {
    "bf16": 362 * TFLOP,
    "fp16": 362 * TFLOP,
    "fp8": 733 * TFLOP,
    "tf32": 183 * TFLOP,
    "fp32": 91.6 * TFLOP,
}
_H20 = {"bf16": 148 * TFLOP, "fp16": 148 * TFLOP, "tf32": 74 * TFLOP, "fp32": 44 * TFLOP}
_RTX_3090 = {
    "bf16": 71.2 * TFLOP,
    "fp16": 71.2 * TFLOP,
    "tf32": 35.6 * TFLOP,
    "fp32": 35.6 * TFLOP,
}
_RTX_4090 = {
    "bf16": 165.2 * TFLOP,
    "fp16": 165.2 * TFLOP,
    "fp8": 330.3 * TFLOP,
    "tf32": 82.6 * TFLOP,
    "fp32": 82.6 * TFLOP,
}
_RTX_5090 = {
    "bf16": 209.5 * TFLOP,
    "fp16": 209.5 * TFLOP,
    "fp8": 419 * TFLOP,
    "fp32": 104.8 * TFLOP,
}
_ADDS_IN_32 = "16-bit products added in 32 bits; added in 16 bits they would be twice as fast"
_BLACKWELL = {
    "bf16": 2250 * TFLOP,
    "fp16": 2250 * TFLOP,
    "fp8": 4500 * TFLOP,
    "tf32": 1125 * TFLOP,
    "fp32": 80 * TFLOP,
}

GPUS = (
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
    GPU("v100-sxm", _VOLTA, 32 * GiB, 897 * GB, _BY_NAME["nvlink2"],
        "NVIDIA V100 SXM, no bf16: arithmetic as tabulated by HMC Tech, memory by sysrqmts.com",
        "2026", sms=80, clock=1.53e9),
    GPU("t4", _TURING, 16 * GiB, 320 * GB, _BY_NAME["pcie3-x16"],
        "NVIDIA T4, no bf16: arithmetic as tabulated by HMC Tech, memory by sysrqmts.com",
        "2026", sms=40, clock=1.59e9),
    GPU("l40s", _L40S, 48 * GiB, 864 * GB, _BY_NAME["pcie4-x16"],
        f"NVIDIA L40S specifications without sparsity, as tabulated in {_BEKMAN}", "2026"),
    GPU("a800-sxm", _AMPERE, 80 * GiB, 2039 * GB, _BY_NAME["nvlink-a800"],
        "as the A100 in all but NVLink (Tweakers, HMC Tech)", "2022", sms=108, clock=1.41e9),
    GPU("h800-sxm", _HOPPER, 80 * GiB, 3.35 * TB, _BY_NAME["nvlink-h800"],
        "as the H100 in all but NVLink and 64-bit arithmetic (Philisun)", "2026"),
    GPU("h20", _H20, 96 * GiB, 4.0 * TB, _BY_NAME["nvlink4"],
        "arithmetic: zangshuxian.com; memory and NVLink: willitrunai.com. Both name 148 TFLOP/s",
        "2026"),
    GPU("rtx-3090", _RTX_3090, 24 * GiB, 936 * GB, _BY_NAME["pcie4-x16"],
        "NVIDIA RTX Blackwell architecture whitepaper, table 3, and NVIDIA GA102 whitepaper, as "
        f"quoted in public repositories; {_ADDS_IN_32}", "2026"),
    GPU("rtx-4090", _RTX_4090, 24 * GiB, 1008 * GB, _BY_NAME["pcie4-x16"],
        "NVIDIA Ada architecture whitepaper 2.1, appendix A, as quoted in public repositories; "
        f"{_ADDS_IN_32}", "2026", sms=128, clock=2.52e9),
    GPU("rtx-5090", _RTX_5090, 32 * GiB, 1792 * GB, _BY_NAME["pcie5-x16"],
        "NVIDIA RTX Blackwell architecture whitepaper, table 3, as quoted in public repositories; "
        "fp32 derived from 170 SMs, 256 FLOP in a clock and 2.407 GHz there; " + _ADDS_IN_32,
        "2026", sms=170, clock=2.407e9),
)  # fmt: skip

_H100_CLOCK = 1.98e9  # Hz, the highest clock that an H100 SXM reports
_CYCLE = 1 / _H100_CLOCK
_CYCLES = "{} clock cycles at 1.98 GHz, measured on a GH200 (Dewing, AI_kernels, 2025)"
_SM_TABLE = "128 B per SM and clock as in Ultrasonics Sonochemistry 99:106546 (2023), table 3"

MEMORIES = (
    Memory("h100-registers", 132 * 256 * KiB, _CYCLE, 132 * 128 * 12 * _H100_CLOCK,
           "132 SMs with 65,536 registers of 4 B; bandwidth derived: 128 lanes of each SM read "
           "three operands of 4 B in each clock of 1.98 GHz", "2026", "assumed: one clock cycle"),
    Memory("h100-shared", 132 * 256 * KiB, 40 * _CYCLE, 132 * 128 * _H100_CLOCK,
           f"shared memory and L1 together, 132 SMs; bandwidth derived: {_SM_TABLE}, 1.98 GHz",
           "2023", _CYCLES.format(40)),
    Memory("h100-l2", 50 * MiB, 281 * _CYCLE, 8986 * GB,
           f"capacity: NVIDIA's Hopper tuning guide, as tabulated in {_BEKMAN}; bandwidth: "
           "Ultrasonics Sonochemistry 99:106546 (2023), table 3", "2023", _CYCLES.format(281)),
    Memory("h100-hbm", 80 * GiB, 690 * _CYCLE, 3.35 * TB,
           f"NVIDIA H100 specifications, as tabulated in {_BEKMAN}", "2026", _CYCLES.format(690)),
    Memory("ddr5-socket", 1 * TiB, 0.1 * us, 8 * 4800e6 * 8,
           "eight channels of 4800 MT/s and 8 B (Dell on Xeon of the fourth generation, 2023); "
           "half of the 2 TB of a host with eight H200 (MLCommons inference v4.1)",
           "2023", "assumed, for a local read that misses all caches"),
    Memory("nvme-gen4", 7.68 * TB, 80 * us, 6.5 * GB,
           "Samsung PM9A3 as announced: sequential reads, four lanes of PCIe 4.0", "2020",
           "assumed, for a random read of flash"),
)  # fmt: skip

_DGX = f"NVIDIA DGX H100/H200 user guide, as tabulated in {_BEKMAN}"
_GPU = {gpu.name: gpu for gpu in GPUS}

NODES = (
    Node("dgx-h100", _GPU["h100-sxm"], 8, _BY_NAME["ib-ndr400"], 8, _DGX, "2026"),
    Node("dgx-h200", _GPU["h200-sxm"], 8, _BY_NAME["ib-ndr400"], 8, _DGX, "2026"),
    Node(
        "p5-48xlarge",
        _GPU["h100-sxm"],
        8,
        _BY_NAME["efa-400"],
        8,
        "AWS, HPC tutorials: eight H100 and 32 cards of 100 Gb/s, four of them for each GPU",
        "2026",
    ),
)


@dataclass(frozen=True)
class Achieved:
    """What somebody measured of a figure of the catalog: FLOP/s of one type, or B/s of a link.

    Raises ValueError for a figure that is not positive.
    """

    name: str
    what: str
    printed: float
    achieved: float
    source: str
    date: str

    def __post_init__(self):
        require_positive(f"achieved {self.name!r}", printed=self.printed, achieved=self.achieved)

    @property
    def share(self) -> float:
        """The part of the printed figure that was reached."""
        return self.achieved / self.printed


_MAMF = f"the fastest matrix product that a search found: {_BEKMAN}, commit 744d01e"


def _product(name: str, dtype: str, achieved: float) -> Achieved:
    return Achieved(name, dtype, _GPU[name].peak(dtype), achieved * TFLOP, _MAMF, "2026")


ACHIEVED = (
    _product("a100-sxm", "bf16", 271.2),
    _product("h100-sxm", "bf16", 794.5),
    _product("h100-sxm", "fp8", 1402.6),
    _product("h200-sxm", "fp8", 1453.4),
    _product("b200-sxm", "bf16", 1745.0),
    _product("b200-sxm", "fp8", 3432.5),
    Achieved("nvlink4", "one direction", _BY_NAME["nvlink4"].beta, 370 * GB,
             "NVIDIA/nccl-tests issue 212 (a maintainer)", "2024"),
    Achieved("nvlink-h800", "one direction", _BY_NAME["nvlink-h800"].beta, 160 * GB,
             "the README of DeepEP: about 160 GB/s as the most that NVLink gives on H800", "2025"),
)  # fmt: skip


class Catalog(dict):
    """Entries by name; a name that is not there is answered with those that are."""

    def __missing__(self, name):
        raise KeyError(f"no hardware {name!r} in the catalog; known: {', '.join(self)}")


catalog = Catalog({entry.name: entry for entry in (*LINKS, *GPUS, *MEMORIES, *NODES)})
