"""A lab's notebook as a script: its cells with the tag `torchrun`, run on every rank.

The `torchrun_lab.py` beside a lab's notebook calls it.
"""

import json
import os
import sys
from pathlib import Path

TAG = "torchrun"


class LabelledLines:
    """Standard output with the rank before each line, written a whole line at a time."""

    def __init__(self, stream, label: str):
        self.stream, self.label, self.line = stream, label, ""

    def write(self, text: str) -> int:
        *lines, self.line = (self.line + text).split("\n")
        for line in lines:
            self.stream.write(f"{self.label}{line}\n")
        return len(text)

    def flush(self) -> None:
        self.stream.flush()


def tagged_cells(notebook: Path) -> list[str]:
    """The sources of the code cells that carry the tag."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    tagged = [c for c in cells if TAG in c["metadata"].get("tags", [])]
    return ["".join(cell["source"]) for cell in tagged]


def run_lab(default: Path) -> dict:
    """Run the tagged cells of the notebook that the command line names, or of the default.

    Returns the names that they have defined.
    """
    if "RANK" not in os.environ:
        raise SystemExit("start me with: torchrun --nproc-per-node 4 torchrun_lab.py [NOTEBOOK]")
    notebook = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    sys.stdout = LabelledLines(sys.stdout, f"[rank {os.environ['RANK']}] ")
    names = {"__name__": "__main__"}
    for number, source in enumerate(tagged_cells(notebook), start=1):
        exec(compile(source, f"{notebook.name}, cell {number} for torchrun", "exec"), names)
    return names
