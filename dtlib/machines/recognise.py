"""Which card of the catalog a GPU is, by what its driver says."""

import re

from dtlib.machines.datasheets import GPUS

# Cards that bear a name of the catalog and are another chip, or a slower board.
OTHERS = {"pcie", "nvl", "laptop", "mobile", "max", "d", "super", "ti"}


def catalog_gpu(name: str, memory_bytes: float) -> str | None:
    """The entry of the catalog for a device's name and memory; None where no card is meant.

    A driver keeps a little of the memory, never a tenth.

    >>> catalog_gpu("NVIDIA H100 80GB HBM3", 79.1 * 2**30)
    'h100-sxm'
    >>> catalog_gpu("NVIDIA A100-SXM4-40GB", 39.4 * 2**30) is None
    True
    """
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    for gpu in GPUS:
        asked = set(gpu.name.split("-")) - {"sxm"}
        if asked <= words and not OTHERS & words and 0.9 <= memory_bytes / gpu.hbm_bytes <= 1:
            return gpu.name
    return None
