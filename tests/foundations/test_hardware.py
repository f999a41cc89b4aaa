"""Every number of the catalog is per direction, dense, and has a source and a date."""

import math
from itertools import pairwise

import pytest

from dtlib.foundations import (
    GB,
    GPU,
    Cluster,
    GiB,
    Link,
    Memory,
    Node,
    catalog,
    hardware_table,
    message_time,
)

LINKS = [entry for entry in catalog.values() if isinstance(entry, Link)]
GPUS = [entry for entry in catalog.values() if isinstance(entry, GPU)]
MEMORIES = [entry for entry in catalog.values() if isinstance(entry, Memory)]


def link(**changes) -> Link:
    return Link(**{"name": "l", "alpha": 1e-6, "beta": 1e9, "source": "s", "date": "d"} | changes)


def test_every_entry_has_a_source_and_a_year():
    for name, entry in catalog.items():
        assert entry.name == name
        assert entry.source and 2020 <= int(entry.date) <= 2030
    for entry in LINKS:
        assert entry.alpha_source.startswith("assumed")


def test_nvlink_is_nine_times_one_ndr_port_in_one_direction():
    assert catalog["nvlink4"].beta / catalog["ib-ndr400"].beta == 9


def test_bandwidths_are_half_of_what_a_vendor_prints_for_both_directions():
    printed = {"nvlink1": 160, "nvlink2": 300, "nvlink3": 600, "nvlink4": 900, "nvlink5": 1800}
    printed |= {"pcie3-x16": 32, "pcie4-x16": 64, "pcie5-x16": 128, "tpu-v5p-ici": 180}
    for name, both in printed.items():
        assert catalog[name].beta == both / 2 * GB
    bits = {"ib-hdr200": 200, "ib-ndr400": 400, "ib-xdr800": 800}
    bits |= {"roce-400": 400, "ethernet-100": 100}
    for name, gigabits in bits.items():
        assert catalog[name].beta * 8 == gigabits * GB


def test_narrower_arithmetic_is_twice_as_fast():
    for gpu in GPUS:
        assert gpu.peak() == gpu.peak("bf16") == gpu.peak("fp16")
        for wide, narrow in (("tf32", "bf16"), ("bf16", "fp8")):
            if wide in gpu.flops and narrow in gpu.flops:
                assert gpu.peak(narrow) / gpu.peak(wide) == pytest.approx(2, rel=1e-3)


def test_a_link_is_timed_by_the_formula():
    ndr = catalog["ib-ndr400"]
    assert ndr.time(10**6) == message_time(10**6, ndr.alpha, ndr.beta)
    assert ndr.half_performance_bytes == ndr.alpha * ndr.beta == 100_000
    assert ndr.time(ndr.half_performance_bytes) == 2 * ndr.alpha


def test_a_node_and_a_cluster_count_their_ranks_and_ports():
    node = catalog["dgx-h100"]
    assert (node.gpus, node.nics, node.link) == (8, 8, catalog["nvlink4"])
    assert node.network_bandwidth == 400 * GB
    assert Cluster(node, 128).ranks == 1024
    assert repr(Cluster(node, 2)) == "Cluster(2 x dgx-h100, 16 GPUs)"
    assert "450 GB/s per direction" in repr(node.link) and "989 TFLOP/s" in repr(node.gpu)
    assert len({node, node.gpu, node.link}) == 3


def test_farther_from_the_processor_a_memory_is_slower_in_both_senses():
    names = ("h100-registers", "h100-shared", "h100-l2", "h100-hbm")
    on_chip = [catalog[name] for name in names]
    for levels in (on_chip, [catalog["h100-hbm"], catalog["nvme-gen4"]]):
        for near, far in pairwise(levels):
            assert near.latency < far.latency and near.bandwidth > far.bandwidth
            assert near.capacity <= far.capacity
    assert {*on_chip} < {*MEMORIES}


def test_what_is_derived_of_a_memory_is_the_arithmetic_that_its_source_states():
    gpu, hertz = catalog["h100-sxm"], 1.98e9
    assert catalog["h100-hbm"].bandwidth == gpu.hbm_bandwidth
    assert catalog["h100-hbm"].capacity == gpu.hbm_bytes
    assert catalog["h100-registers"].capacity == gpu.sms * 65536 * 4
    multiply_adds = gpu.peak("fp32") / 2
    assert catalog["h100-registers"].bandwidth == pytest.approx(12 * multiply_adds, rel=0.01)
    assert catalog["h100-shared"].bandwidth == gpu.sms * 128 * hertz
    for name, cycles in (("h100-shared", 40), ("h100-l2", 281), ("h100-hbm", 690)):
        assert catalog[name].latency * hertz == pytest.approx(cycles)
        assert str(cycles) in catalog[name].latency_source


def test_reading_from_a_memory_takes_its_latency_and_its_bytes():
    hbm = catalog["h100-hbm"]
    assert hbm.time(10**9) == message_time(10**9, hbm.latency, hbm.bandwidth)
    assert "85.9 GB" in repr(hbm) and "3.35 TB/s" in repr(hbm)


@pytest.mark.parametrize("figure", ["capacity", "latency", "bandwidth"])
def test_a_memory_that_cannot_be_is_refused(figure):
    figures = {"capacity": 1, "latency": 1, "bandwidth": 1} | {figure: 0}
    with pytest.raises(ValueError, match=f"Memory 'm': {figure} is 0, but must be a positive"):
        Memory("m", **figures, source="s", date="d")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": 0}, "Link 'l': beta is 0, but must be a positive number"),
        ({"beta": "fast"}, "beta is 'fast'"),
        ({"beta": math.inf}, "beta is inf"),
        ({"alpha": -1e-6}, "alpha is -1e-06, but must be a number of seconds that is not negative"),
        ({"alpha": math.nan}, "alpha is nan"),
    ],
)
def test_a_link_that_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        link(**change)


def test_a_machine_that_cannot_be_is_refused():
    gpu = catalog["h100-sxm"]
    with pytest.raises(ValueError, match="hbm_bytes is -1"):
        GPU("g", {"bf16": 1e12}, -1, 1e12, link(), "s", "d")
    with pytest.raises(ValueError, match=r"flops\['bf16'\] is 0"):
        GPU("g", {"bf16": 0}, 80 * GiB, 1e12, link(), "s", "d")
    with pytest.raises(ValueError, match="Node 'n': gpus is 0, but must be a whole number"):
        Node("n", gpu, 0, link(), 1, "s", "d")
    with pytest.raises(ValueError, match=r"nodes is 1\.5"):
        Cluster(catalog["dgx-h100"], 1.5)
    with pytest.raises(ValueError, match="dtype is 'int4', but must be in"):
        gpu.peak("int4")
    with pytest.raises(KeyError, match="no hardware 'h300' in the catalog; known: nvlink1"):
        catalog["h300"]


def test_the_appendix_holds_every_entry_with_its_source():
    page, terminal = hardware_table()._repr_markdown_(), repr(hardware_table())
    for name, entry in catalog.items():
        assert f"| `{name}` |" in page
        assert f"| `{name}` | {entry.source} | {entry.date} |" in page and entry.source in terminal
    for entry in (*LINKS, *MEMORIES):
        assert page.count(getattr(entry, "alpha_source", None) or entry.latency_source) == 1
