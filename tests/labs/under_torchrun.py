"""A lab's script under torchrun, with its notebook or one that asks for less."""

import os
import subprocess
import sys
from pathlib import Path

from book._tools.layout import ROOT


def shortened(lab: Path, folder: Path, changes: dict[str, str], solved: bool = True) -> Path:
    """A copy of a lab's notebook in which each of these texts is changed; all must be there."""
    text = (lab / f"{lab.name}{'-solved' * solved}.ipynb").read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    notebook = folder / "mine.ipynb"
    notebook.write_text(text, encoding="utf-8")
    return notebook


def run_under_torchrun(
    lab: Path, ranks: int, *arguments: object, options: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess:
    """The lab's script on so many ranks; `options` are torchrun's, `arguments` the script's."""
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *options]
    script = [str(lab / "torchrun_lab.py"), *map(str, arguments)]
    return subprocess.run(
        [sys.executable, "-m", *launcher, *script],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment},
    )
