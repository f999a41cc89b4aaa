"""The library of this edition as the one wheel that all who take something along install."""

import hashlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from book._tools.layout import ROOT

EPOCH = "315532800"  # 1980-01-01, the first day that a zip can name: the same bytes each time


@dataclass(frozen=True)
class Wheel:
    """A wheel: its file's name and what is in it."""

    name: str
    content: bytes

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@cache
def library_wheel(root: Path = ROOT) -> Wheel:
    """The wheel of the library as it is in this checkout."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(
            command,
            cwd=root,
            env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
            check=True,
            capture_output=True,
        )
        (file,) = Path(folder).iterdir()
        return Wheel(file.name, file.read_bytes())
