"""A device is the catalog's card when its name and memory say so, and none when they do not."""

import pytest

from dtlib.formulas.units import GiB
from dtlib.machines.datasheets import GPUS
from dtlib.machines.recognise import catalog_gpu

# What drivers call the cards, and the memory that they report.
DEVICES = {
    ("NVIDIA H100 80GB HBM3", 79.6): "h100-sxm",
    ("NVIDIA H200", 139.8): "h200-sxm",
    ("NVIDIA B200", 178.3): "b200-sxm",
    ("NVIDIA A100-SXM4-80GB", 79.2): "a100-sxm",
    ("NVIDIA A800-SXM4-80GB", 79.2): "a800-sxm",
    ("NVIDIA H800", 79.6): "h800-sxm",
    ("NVIDIA H20", 95.1): "h20",
    ("Tesla V100-SXM2-32GB", 31.7): "v100-sxm",
    ("Tesla T4", 14.7): "t4",
    ("NVIDIA L40S", 44.5): "l40s",
    ("NVIDIA GeForce RTX 3090", 23.7): "rtx-3090",
    ("NVIDIA GeForce RTX 4090", 23.6): "rtx-4090",
    ("NVIDIA GeForce RTX 5090", 31.4): "rtx-5090",
}
OTHERS = [
    ("NVIDIA H100 PCIe", 79.2),
    ("NVIDIA H100 NVL", 93.1),
    ("NVIDIA A100-SXM4-40GB", 39.4),
    ("NVIDIA A100 80GB PCIe", 79.2),
    ("NVIDIA GeForce RTX 3090 Ti", 23.7),
    ("NVIDIA GeForce RTX 4090 D", 23.6),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", 15.7),
    ("NVIDIA H20-3e", 139.8),
    ("AMD Instinct MI300X", 191.5),
]


@pytest.mark.parametrize(("device", "entry"), DEVICES.items())
def test_a_card_of_the_catalog_is_known_by_its_drivers_name(device, entry):
    name, gib = device
    assert catalog_gpu(name, gib * GiB) == entry


def test_every_card_of_the_catalog_has_such_a_name():
    assert set(DEVICES.values()) == {gpu.name for gpu in GPUS}


@pytest.mark.parametrize(("name", "gib"), OTHERS)
def test_another_board_of_the_same_name_is_none_of_them(name, gib):
    assert catalog_gpu(name, gib * GiB) is None
