"""The few operations on files that a writer of checkpoints needs, and the order that is safe.

A file is written under a temporary name, its bytes are forced to the device, and only then it gets
its own name, in one step that either has happened or has not. So a file with its own name is whole.
A test puts an object with the same methods in their place, and stops after any of them.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

UNFINISHED = ".unfinished"


class Disk:
    """The file system of this machine."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder and those above it, unless they are there."""
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, blocks: Iterable) -> None:
        """Write blocks of bytes, one after the other, and force them to the device."""
        with path.open("wb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, path: Path, new: Path) -> None:
        """Give a file its name, in place of one that had it, in one step; force that, too."""
        path.replace(new)
        folder = os.open(new.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, path: Path) -> None:
        """Remove a file or a folder with all that is in it."""
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def write_safely(disk: Disk, path: Path, blocks: Iterable) -> None:
    """Write a file so that it has its name only when it is whole."""
    unfinished = path.with_name(path.name + UNFINISHED)
    disk.write(unfinished, blocks)
    disk.rename(unfinished, path)
