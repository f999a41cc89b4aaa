"""Every number of the catalog is per direction, dense, and has a source and a date."""

import math

import pytest

from dtlib.foundations import (
    GB,
    GPU,
    Cluster,
    GiB,
    Link,
    Node,
    catalog,
    hardware_table,
    message_time,
)

LINKS = [entry for entry in catalog.values() if isinstance(entry, Link)]
GPUS = [entry for entry in catalog.values() if isinstance(entry, GPU)]


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
    printed = {"nvlink3": 600, "nvlink4": 900, "nvlink5": 1800, "pcie4-x16": 64, "pcie5-x16": 128}
    for name, both in printed.items():
        assert catalog[name].beta == both / 2 * GB
    bits = {"ib-hdr200": 200, "ib-ndr400": 400, "roce-400": 400, "ethernet-100": 100}
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
    with pytest.raises(KeyError, match="no hardware 'h300' in the catalog; known: nvlink3"):
        catalog["h300"]


def test_the_appendix_holds_every_entry_with_its_source():
    page, terminal = hardware_table()._repr_markdown_(), repr(hardware_table())
    for name, entry in catalog.items():
        assert f"| `{name}` |" in page
        assert f"{entry.source} ({entry.date})" in page and entry.source in terminal
