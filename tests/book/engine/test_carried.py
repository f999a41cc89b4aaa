"""Which modules of dtlib a page carries, and that each of them can be imported there."""

import subprocess
import sys

from book._engine.carried import ABSENT, carried
from book._tools.layout import ROOT

TOY = {
    "late": "def deep(x):\n    import torch\n    return torch.sum(x)",
    "at_once": "import numpy\nfrom torch import nn",
    "above": "from toy.at_once import nn",
    "of_room": "from toy import at_once",
    "for_editors": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch",
    "in_a_branch": "try:\n    import torch.nn\nexcept ImportError:\n    pass",
    "explore/kit": "",
}


def test_what_imports_torch_at_its_head_stays_and_so_does_what_stands_on_it(tmp_path):
    toy = tmp_path / "toy"
    for name, source in TOY.items():
        (toy / name).parent.mkdir(parents=True, exist_ok=True)
        (toy / f"{name}.py").write_text(source, encoding="utf-8")
    assert [file.stem for file in carried(toy)] == ["for_editors", "late"]


def refused(names: list[str]) -> str:
    """What modules say that cannot be imported in a Python that lacks what pages lack."""
    code = (
        "import sys, importlib\n"
        f"sys.modules.update(dict.fromkeys({sorted(ABSENT)!r}))\n"
        f"for name in {names!r}:\n"
        "    try: importlib.import_module(name)\n"
        "    except ImportError as error: print(name, error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout


def test_every_module_that_a_page_carries_can_be_imported_there():
    files = [file.relative_to(ROOT).with_suffix("") for file in carried(ROOT / "dtlib")]
    names = [".".join(file.parts).removesuffix(".__init__") for file in files]
    assert len(names) > 250
    assert refused(names) == ""
    assert refused(["dtlib.models.gpt"]).startswith("dtlib.models.gpt import of torch halted")
