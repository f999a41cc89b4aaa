"""What is known of real machines: the catalog, each figure with its source and its date.

Every bandwidth is a line rate in one direction, which protocols do not reach: fit measured times
with `fit_alpha_beta`. Latencies are another matter. That of a memory was measured by others and
is cited; no vendor publishes that of a message between GPUs, so those are assumed round numbers
and say so. What is derived from other figures says how.
"""

from dtlib.foundations.machine import GPU, Link, Memory, Node
from dtlib.foundations.units import GB, TB, TFLOP, Gbit, GiB, KiB, MiB, TiB, us

_BEKMAN = "Bekman, Machine Learning Engineering Open Book"
_SCALING_BOOK = "Austin et al., How to Scale Your Model"
_NCCL = "NCCL's own cost model has {} for one step of a ring {} (src/graph/tuning.cc, 2020)"
_NVLINK_ALPHA = "assumed; " + _NCCL.format("0.47 to 3.4 µs", "over NVLink")
_PCIE_ALPHA = "assumed; " + _NCCL.format("1.0 to 5.7 µs", "over PCIe")
_NETWORK_ALPHA = "assumed; " + _NCCL.format("2.7 to 9.6 µs", "over a network")
_ICI_ALPHA = f"assumed; {_SCALING_BOOK} computes with 1 µs for each hop"

_NVIDIA_400G = "NVIDIA MMA4Z00-NS transceiver documentation: 400 Gb/s line rate"
_NVLINK_GENERATIONS = f"NVIDIA's {{}} of {{}} GB/s in each direction, as tabulated in {_BEKMAN}"
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
    Link("ethernet-100", 30 * us, 100 * Gbit,
         "NVIDIA MLNX_OFED 5.9 release notes: 100GbE adapters",
         "2023", "assumed, for TCP sockets through the kernel"),
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
_BLACKWELL = {"bf16": 2250 * TFLOP, "fp16": 2250 * TFLOP, "fp8": 4500 * TFLOP}

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
)


class Catalog(dict):
    """Entries by name; a name that is not there is answered with those that are."""

    def __missing__(self, name):
        raise KeyError(f"no hardware {name!r} in the catalog; known: {', '.join(self)}")


catalog = Catalog({entry.name: entry for entry in (*LINKS, *GPUS, *MEMORIES, *NODES)})
