"""Every number of the catalog is per direction, dense, and has a source and a date."""

import math
from dataclasses import replace
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
from dtlib.machines.datasheets import ACHIEVED

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
    printed |= {"nvlink-a800": 400, "nvlink-h800": 400}
    for name, both in printed.items():
        assert catalog[name].beta == both / 2 * GB
    bits = {"ib-hdr200": 200, "ib-ndr400": 400, "ib-xdr800": 800}
    bits |= {"roce-400": 400, "ethernet-10": 10, "ethernet-25": 25, "ethernet-100": 100}
    for name, gigabits in bits.items():
        assert catalog[name].beta * 8 == gigabits * GB


def test_narrower_arithmetic_is_twice_as_fast():
    for gpu in GPUS:
        if "bf16" in gpu.flops:
            assert gpu.peak() == gpu.peak("bf16") == gpu.peak("fp16")
        for wide, narrow in (("tf32", "bf16"), ("bf16", "fp8")):
            if wide in gpu.flops and narrow in gpu.flops:
                # The L40S' datasheet is not of one piece: 183, 362 and 733.
                rel = 0.015 if gpu.name == "l40s" else 1e-3
                assert gpu.peak(narrow) / gpu.peak(wide) == pytest.approx(2, rel=rel)


def test_cards_before_ampere_have_no_bf16_and_say_so():
    old = [gpu.name for gpu in GPUS if "bf16" not in gpu.flops]
    assert old == ["v100-sxm", "t4"]
    for name in old:
        assert "no bf16" in catalog[name].source
        with pytest.raises(ValueError, match="dtype is 'bf16', but must be in"):
            catalog[name].peak()


def test_every_peak_is_dense():
    """SMs, clock and products in a clock, where they are known, give the peak and not twice it."""
    per_clock = {"a100-sxm": 2048, "a800-sxm": 2048, "h100-sxm": 4096, "h200-sxm": 4096}
    per_clock |= {"b200-sxm": 8192, "rtx-4090": 512, "rtx-5090": 512}
    for name, flop in per_clock.items():
        gpu = catalog[name]
        assert gpu.sms * gpu.clock * flop == pytest.approx(gpu.peak("bf16"), rel=0.01)


def test_cut_cards_differ_in_their_links_alone():
    for cut, whole in (("a800-sxm", "a100-sxm"), ("h800-sxm", "h100-sxm")):
        mine, other = catalog[cut], catalog[whole]
        assert (mine.flops, mine.hbm_bytes, mine.hbm_bandwidth) == (
            other.flops,
            other.hbm_bytes,
            other.hbm_bandwidth,
        )
        assert mine.link.beta < other.link.beta
    assert catalog["h20"].link == catalog["h100-sxm"].link


def test_nobody_achieves_more_than_is_printed():
    for entry in ACHIEVED:
        assert entry.name in catalog and entry.source and 2020 <= int(entry.date) <= 2030
        assert 0.6 < entry.share < 1
    with pytest.raises(ValueError, match="achieved 'x': achieved is 0"):
        replace(ACHIEVED[0], name="x", achieved=0)


def test_what_is_achieved_stands_beside_what_is_printed():
    table = next(table for table in hardware_table() if table.title == "As achieved")
    assert [row[3] for row in table.rows][:2] == ["87 %", "80 %"]
    assert ("`nvlink-h800`, one direction", "200 GB/s", "160 GB/s", "80 %") in [
        row[:4] for row in table.rows
    ]


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


@pytest.mark.parametrize("members", [1, 2, 4, 8])
def test_turned_rings_share_the_ports_of_their_members(members):
    """Each of `members` rings carries its part of a buffer; the busiest port tells the rate."""
    node, nodes, n = catalog["dgx-h100"], 3, 840
    group = [(where, member) for where in range(nodes) for member in range(members)]
    sent = {}
    for turn in range(members):
        ring = [(where, (member + turn) % members) for where, member in group]
        for (where, member), (there, _) in zip(ring, ring[1:] + ring[:1], strict=True):
            if where != there:
                sent[where, member] = sent.get((where, member), 0) + n / members
    assert len(set(sent.values())) == 1
    assert n / max(sent.values()) * node.nic.beta == node.ring_bandwidth(members)


def test_rings_are_no_faster_than_the_link_inside_a_node():
    many_ports = replace(catalog["dgx-h100"], nics=16)
    assert many_ports.ring_bandwidth(8) == many_ports.link.beta < many_ports.network_bandwidth


@pytest.mark.parametrize("members", [0, 9, 1.0, True])
def test_a_node_has_no_such_members(members):
    with pytest.raises(ValueError, match=f"members is {members!r}, but must be"):
        catalog["dgx-h100"].ring_bandwidth(members)


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
