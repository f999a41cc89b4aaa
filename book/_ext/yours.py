"""The reader's own machine: a catalog beside the pages, from which their numbers are computed.

`prose_numbers` gives each number that rests on named hardware its formula over roles; `machine.js`
reads the catalog when a reader says what they have.
"""

import dataclasses
import json
import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.append(str(Path(__file__).resolve().parents[2]))
from book._tools.run import BOOK_RUN, MODEL, shape
from book._tools.yours import FAMILIES
from dtlib.machines.datasheets import GPUS, LINKS
from dtlib.machines.hardware import catalog
from dtlib.models.published import published_models

WRITTEN = {
    "nvlink": "NVLink",
    "pcie": "PCIe",
    "ethernet": "Ethernet",
    "roce": "RoCE",
    "ib": "InfiniBand",
    "llama": "Llama",
    "mistral": "Mistral",
    "mixtral": "Mixtral",
    "deepseek": "DeepSeek",
    "sxm": "SXM",
    "rtx": "RTX",
}
BOOK_NODE = catalog["dgx-h100"]


def machines() -> dict[str, dict]:
    """What a reader can choose from, and the book's own choice."""
    run = dataclasses.asdict(BOOK_RUN)
    return {
        "gpus": {gpu.name: _gpu(gpu) for gpu in GPUS},
        "links": _links("link", "host"),  # cards without NVLink talk over PCIe
        "ports": _links("port"),
        "hosts": _links("host"),
        "models": {name: {"label": _label(name), **shape(name)} for name in published_models},
        "book": {
            "gpu": BOOK_NODE.gpu.name,
            "gpus": BOOK_NODE.gpus,
            "link": BOOK_NODE.link.name,
            "port": BOOK_NODE.nic.name,
            "ports": BOOK_NODE.nics,
            "host": "pcie5-x16",
            "model": MODEL,
            **{name: run[name] for name in ("seq", "P", "tokens", "batch_tokens", "mfu")},
        },
    }


def _gpu(gpu) -> dict:
    peaks = {f"peak_{dtype}": rate for dtype, rate in gpu.flops.items()}
    memory = {"hbm_bytes": gpu.hbm_bytes, "hbm_bandwidth": gpu.hbm_bandwidth}
    return {"label": _label(gpu.name), "link": gpu.link.name, **memory, **peaks}


def _links(*families: str) -> dict[str, dict]:
    chosen = tuple(beginning for beginning, part in FAMILIES.items() if part in families)
    return {
        link.name: {"label": _label(link.name), "alpha": link.alpha, "beta": link.beta}
        for link in LINKS
        if link.name.startswith(chosen)
    }


def _label(name: str) -> str:
    """An entry's name as people write it.

    >>> _label("h100-sxm"), _label("rtx-4090"), _label("nvlink4"), _label("ib-ndr400")
    ('H100 SXM', 'RTX 4090', 'NVLink 4', 'InfiniBand NDR400')
    >>> _label("llama-3.1-8b"), _label("gpt2"), _label("mixtral-8x7b")
    ('Llama 3.1 8B', 'GPT 2', 'Mixtral 8x7B')
    """
    words = re.sub(r"^(nvlink|pcie|gpt)(?=\d)", r"\1 ", name).replace("-", " ").split()
    return " ".join(WRITTEN.get(word, re.sub(r"X(?=\d)", "x", word.upper())) for word in words)


def write_machines(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        file = Path(app.outdir, "_static/reader/machines.json")
        file.write_text(json.dumps(machines(), separators=(",", ":")), encoding="utf-8")


def setup(app: Sphinx) -> dict:
    app.connect("build-finished", write_machines)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
